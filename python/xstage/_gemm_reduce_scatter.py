"""gemm_reduce_scatter for tensors."""

from ._core import GemmReduceScatter as _CoreGemmReduceScatter
from ._core import row_range
from ._operation import Operation
from ._tensors import check_tensor


class GemmReduceScatter(Operation):
    """out = this rank's rows of the sum over ranks of a @ b.T, in one kernel.

    Of the whole problem: m rows, n columns, depth k. On each of R ranks: a [m, k / R], b [n, k / R], out [rows, n] with
    ceil(m / R) rows, fewer or none on the last ranks. All bfloat16. Making one is collective: every rank makes the same
    ones in the same order. k must be a multiple of 8 R, n of 8.
    """

    _core_class = _CoreGemmReduceScatter

    def __init__(self, heap, rank, m, n, k, *, time_out_ms=10_000, plan=None):
        super().__init__(heap, rank, m, n, k, time_out_ms=time_out_ms, plan=plan)
        self.rows = row_range(m, rank, heap.world)[1]
        self._a_shape = (m, k // heap.world)
        self._b_shape = (n, k // heap.world)
        self._out_shape = (self.rows, n)

    def empty_output(self):
        """Room for a result. Make it before any rank launches: see __call__."""
        import torch

        return torch.empty(self._out_shape, dtype=torch.bfloat16, device=torch.device("cuda", self.device))

    def __call__(self, a, b, out):
        """Enqueues the kernel on the current stream of the rank's device and returns `out`.

        Every rank must call. Nothing is allocated here, and nothing should be between the calls of the ranks: a
        cudaMalloc may wait for a kernel that itself waits for the rank whose call is still to come.
        """
        import torch

        check_tensor("a", a, self._a_shape, torch.bfloat16, self.device)
        check_tensor("b", b, self._b_shape, torch.bfloat16, self.device)
        check_tensor("out", out, self._out_shape, torch.bfloat16, self.device)
        stream = torch.cuda.current_stream(self.device).cuda_stream
        self._core.launch(a.data_ptr(), b.data_ptr(), out.data_ptr(), stream)
        return out
