"""A mixture-of-experts layer for tensors."""

from ._core import MoeLayer as _CoreMoeLayer
from ._core import MoeProblem, check_moe_tokens, make_moe_plan, moe_heap_bytes, pack_moe_linear1
from ._operation import Operation
from ._tensors import check_tensor


class MoeLayer(Operation):
    """Dispatch, Linear-1 with SwiGLU, Linear-2 and combine of an expert-parallel layer. No count waits for the host.

    The problem, as keywords, the same on every rank: hidden, intermediate (of each expert), experts_per_rank, top_k,
    most_tokens (on one rank, of any call), and clamp where it is not 0, none. Rank r has experts
    r * experts_per_rank and on, and t tokens, another number in every call and on every rank, 0 included:

        tokens, out     [t, hidden]                                   bfloat16
        experts         [t, top_k]                                    int32, of all ranks; -1: none
        router_weights  [t, top_k]                                    float32
        linear1         [experts_per_rank, 2 * intermediate, hidden]  bfloat16, from pack_linear1
        linear2         [experts_per_rank, hidden, intermediate]      bfloat16

    Making one is collective: every rank makes the same ones in the same order. Weights belong to the call: one MoeLayer
    does for all layers of a model that are alike. `plan` is a MoePlan, or None for the rule.
    """

    _core_class = _CoreMoeLayer

    def __init__(self, heap, rank, *, time_out_ms=10_000, plan=None, **problem):
        problem = MoeProblem(**problem)
        super().__init__(heap, rank, problem, time_out_ms=time_out_ms, plan=plan)
        self._problem = problem
        experts, intermediate, hidden = problem.experts_per_rank, problem.intermediate, problem.hidden
        self._half_shape = (experts, intermediate, hidden)  # gate or up alone
        self._linear1_shape = (experts, 2 * intermediate, hidden)
        self._linear2_shape = (experts, hidden, intermediate)

    @staticmethod
    def heap_bytes(world, **problem):
        """Bytes of each rank's heap that one MoeLayer takes. Needs no GPU."""
        return moe_heap_bytes(MoeProblem(**problem), world)

    @staticmethod
    def make_plan(world, multiprocessors, **problem):
        """The plan of the rule, for a GPU with so many multiprocessors. Needs no GPU."""
        return make_moe_plan(MoeProblem(**problem), world, multiprocessors)

    def pack_linear1(self, gate_up, up=None):
        """`linear1` as the kernel reads it, a new tensor [experts_per_rank, 2 * intermediate, hidden].

        From one tensor of that shape, in each expert all rows of gate before all rows of up; or from pack_linear1(gate,
        up), each [experts_per_rank, intermediate, hidden]. On the current stream; once, and before any rank launches.
        """
        import torch  # here, so that problems can be looked at where there is no PyTorch

        half = self._problem.intermediate * self._problem.hidden
        if up is None:
            check_tensor("gate_up", gate_up, self._linear1_shape, torch.bfloat16, self.device)
            expert_stride = 2 * half
            up_pointer = gate_up.data_ptr() + half * gate_up.element_size()
        else:
            check_tensor("gate", gate_up, self._half_shape, torch.bfloat16, self.device)
            check_tensor("up", up, self._half_shape, torch.bfloat16, self.device)
            expert_stride = half
            up_pointer = up.data_ptr()
        packed = torch.empty(self._linear1_shape, dtype=torch.bfloat16, device=gate_up.device)
        pack_moe_linear1(
            self._problem,
            gate_up.data_ptr(),
            up_pointer,
            expert_stride,
            packed.data_ptr(),
            torch.cuda.current_stream(self.device).cuda_stream,
        )
        return packed

    def empty_output(self, tokens):
        """Room for the result of these tokens. With several ranks, before any of them launches: see __call__."""
        self._check_tokens(tokens)
        return self._empty(tokens)

    def __call__(self, tokens, experts, router_weights, linear1, linear2, out=None):
        """Enqueues the kernels on the current stream of the rank's device and returns `out`, allocated if it is None.

        Every rank must call, without tokens too, and nothing should be allocated between the calls of the ranks (so
        give each an `out`): a cudaMalloc may wait for a kernel that itself waits for the rank whose call is still to
        come. Expert ids and router weights are looked at on the device: `check()` says if one breaks a rule.
        """
        import torch

        self._check_tokens(tokens)
        choices = (tokens.shape[0], self._problem.top_k)
        check_tensor("experts", experts, choices, torch.int32, self.device)
        check_tensor("router_weights", router_weights, choices, torch.float32, self.device)
        check_tensor("linear1", linear1, self._linear1_shape, torch.bfloat16, self.device)
        check_tensor("linear2", linear2, self._linear2_shape, torch.bfloat16, self.device)
        if out is None:
            out = self._empty(tokens)
        else:
            check_tensor("out", out, tuple(tokens.shape), torch.bfloat16, self.device)
        self._core.launch(
            tokens.shape[0],
            tokens.data_ptr(),
            experts.data_ptr(),
            router_weights.data_ptr(),
            linear1.data_ptr(),
            linear2.data_ptr(),
            out.data_ptr(),
            torch.cuda.current_stream(self.device).cuda_stream,
        )
        return out

    def _check_tokens(self, tokens):
        import torch

        rows, hidden = 0, self._problem.hidden
        if isinstance(tokens, torch.Tensor):
            if tokens.dim() != 2:
                raise ValueError(f"tokens has shape {tuple(tokens.shape)}: it must be (tokens, {hidden})")
            rows = tokens.shape[0]  # whatever number
        check_tensor("tokens", tokens, (rows, hidden), torch.bfloat16, self.device)
        check_moe_tokens(self._problem, rows)

    def _empty(self, tokens):
        import torch

        return torch.empty(tuple(tokens.shape), dtype=torch.bfloat16, device=tokens.device)

    def check(self):
        """RuntimeError if a wait of this rank has expired: who waited where, for whom. ValueError on all ranks alike if
        a call met an expert id or a router weight that breaks a rule: which one of which token of which rank. After
        either, reset() makes the operation of all ranks usable again. Does not wait for the GPU."""
        super().check()
