"""Fused communication and computation on NVLink nodes: PyTorch binding of two operations. See docs/python.md."""

from ._attention import Attention
from ._core import AttentionPlan, PeerAccessHeap, Plan, heap_bytes, make_plan, row_range
from ._gemm_reduce_scatter import GemmReduceScatter

__all__ = [
    "Attention",
    "AttentionPlan",
    "GemmReduceScatter",
    "PeerAccessHeap",
    "Plan",
    "heap_bytes",
    "make_plan",
    "row_range",
]
