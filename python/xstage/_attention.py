"""Attention for tensors, and its result in the symmetric heap as one."""

from ._core import Attention as _CoreAttention
from ._core import AttentionProblem, attention_heap_bytes, attention_row_range, make_attention_plan
from ._operation import Operation
from ._tensors import check_tensor


class _SymmetricMemory:
    """16-bit words at an address, for whoever understands the CUDA array interface. PyTorch keeps this object as long
    as a tensor uses the memory, and this object keeps the operation, which gives the memory back at its end."""

    def __init__(self, core, shape):
        self._core = core
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": "<i2",  # the interface has no bf16
            "data": (core.output_pointer(), False),
            "strides": None,
            "version": 3,
            "stream": None,  # the caller orders what reads the result, as with any result of a kernel
        }


class Attention(Operation):
    """softmax(scale * query @ key.T) @ value of a rank's own heads, in one kernel that stores every row where it goes.

    The problem, as keywords, the same on every rank: rows (of queries in a sequence) and heads, and where they are not
    the default sequences=1, keys=rows, kv_heads=heads, head_dim=128 (or 64), causal=False, dtype="bf16" (or "fp16"),
    scale=0 (1 / sqrt(head_dim)) and destination="local". Heads are of all R ranks together. On each rank:

        query       [sequences, rows, heads / R, head_dim]
        key, value  [sequences, keys, kv_heads / R, head_dim]
        result      [sequences, rows, heads / R, head_dim]   "local": an ordinary tensor, no rank knows of another
                    [sequences, own rows, heads, head_dim]   "to_owners": from all ranks, in the symmetric heap
        log_sum_exp [sequences, heads / R, rows]             float32, natural logarithm, of the rank's own heads

    "twin" is for measurements: the stores of "to_owners", but into this rank's own memory. Making an Attention is
    collective: every rank makes the same ones in the same order. `plan` is an AttentionPlan, or None for the rule.
    """

    _core_class = _CoreAttention

    def __init__(self, heap, rank, *, time_out_ms=10_000, plan=None, **problem):
        problem = AttentionProblem(**problem)
        super().__init__(heap, rank, problem, time_out_ms=time_out_ms, plan=plan)
        self.destination = problem.destination
        self.dtype = problem.dtype
        self._result = None  # of the heap, made when it is first asked for
        #: (first, count) of the rows of each sequence that this rank owns.
        self.row_range = attention_row_range(problem.rows, rank, heap.world)
        sequences, heads, head_dim = problem.sequences, problem.heads // heap.world, problem.head_dim
        self._query_shape = (sequences, problem.rows, heads, head_dim)
        self._key_shape = (sequences, problem.keys, problem.kv_heads // heap.world, head_dim)
        self._log_sum_exp_shape = (sequences, heads, problem.rows)
        self._result_shape = {
            "local": self._query_shape,
            "to_owners": (sequences, self.row_range[1], problem.heads, head_dim),
            "twin": (sequences * problem.rows * problem.heads * head_dim,),
        }[problem.destination]

    @staticmethod
    def heap_bytes(world, **problem):
        """Bytes of each rank's heap that one Attention takes. Needs no GPU."""
        return attention_heap_bytes(AttentionProblem(**problem), world)

    @staticmethod
    def make_plan(world, multiprocessors, **problem):
        """The plan of the rule, for a GPU with so many multiprocessors. Needs no GPU."""
        return make_attention_plan(AttentionProblem(**problem), world, multiprocessors)

    def _torch_dtype(self):
        import torch  # here, so that problems can be looked at where there is no PyTorch

        return {"bf16": torch.bfloat16, "fp16": torch.float16}[self.dtype]

    def __call__(self, query, key, value, out=None, log_sum_exp=None, sent=False):
        """Enqueues the kernel on the current stream of the rank's device and returns the result.

        "local": it is `out`, allocated if it is None. Otherwise there is no `out`, it is `result()`, every rank must
        call, and nothing should be allocated between the calls of the ranks: a cudaMalloc may wait for a kernel that
        itself waits for the rank whose call is still to come. `log_sum_exp` is written if it is given. `sent`: the
        kernel ends when this rank's own stores have been performed; `await_arrival()` comes before who reads the result.
        """
        import torch

        dtype = self._torch_dtype()
        check_tensor("query", query, self._query_shape, dtype, self.device)
        check_tensor("key", key, self._key_shape, dtype, self.device)
        check_tensor("value", value, self._key_shape, dtype, self.device)
        if log_sum_exp is not None:
            check_tensor("log_sum_exp", log_sum_exp, self._log_sum_exp_shape, torch.float32, self.device)
        if self.destination != "local":
            if out is not None:
                raise ValueError(f"out is given: with destination '{self.destination}' the result is in the heap")
            returned = self.result()
        elif out is None:
            returned = out = torch.empty(self._result_shape, dtype=dtype, device=query.device)
        else:
            check_tensor("out", out, self._result_shape, dtype, self.device)
            returned = out
        self._core.launch(
            query.data_ptr(),
            key.data_ptr(),
            value.data_ptr(),
            0 if out is None else out.data_ptr(),
            0 if log_sum_exp is None else log_sum_exp.data_ptr(),
            torch.cuda.current_stream(self.device).cuda_stream,
            sent,
        )
        return returned

    def await_arrival(self):
        """After a call with `sent`: enqueues, on the current stream, a wait until all peers' results have arrived."""
        import torch

        self._core.await_arrival(torch.cuda.current_stream(self.device).cuda_stream)

    def output_address(self):
        """Device address of the result in the symmetric heap, 0 if this rank owns no row. ValueError if "local"."""
        return self._core.output_pointer()

    def result(self):
        """The result in the symmetric heap, as a tensor on the same memory. ValueError if "local".

        The tensor keeps the memory (and the operation) as long as it lives, but every call of the operation overwrites
        what is in it: clone() what is needed longer, on the stream of the calls. No row: an empty tensor.
        A "twin" has it flat: the rows of one rank behind those of the rank before.
        """
        if self._result is None:
            self._result = self._view_of_heap()
        return self._result.view(self._result_shape)  # another tensor each time: the caller may change what it is

    def _view_of_heap(self):
        import torch

        address = self.output_address()
        device, dtype = torch.device("cuda", self.device), self._torch_dtype()
        with torch.inference_mode(False):  # a tensor made in that mode could not be written outside of it
            if address == 0:
                return torch.empty(self._result_shape, dtype=dtype, device=device)
            words = torch.as_tensor(_SymmetricMemory(self._core, self._result_shape), device=device)
            if words.data_ptr() != address:
                raise RuntimeError(f"PyTorch copied the result at {address:#x} instead of viewing it")
            return words.view(dtype)
