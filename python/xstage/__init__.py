"""Fused communication and computation on NVLink nodes: PyTorch binding of three operations. See docs/python.md."""

from ._attention import Attention
from ._core import AttentionPlan, MoePlan, PeerAccessHeap, Plan, heap_bytes, make_plan, row_range
from ._gemm_reduce_scatter import GemmReduceScatter
from ._moe import MoeLayer

__all__ = [
    "Attention",
    "AttentionPlan",
    "GemmReduceScatter",
    "MoeLayer",
    "MoePlan",
    "PeerAccessHeap",
    "Plan",
    "heap_bytes",
    "make_plan",
    "row_range",
]
