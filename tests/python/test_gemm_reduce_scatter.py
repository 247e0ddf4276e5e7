#!/usr/bin/env python3
"""The PyTorch binding on two GPUs, driven by one process. With pytest, or alone:

    PYTHONPATH=FOLDER_OF_THE_PACKAGE python3 test_gemm_reduce_scatter.py

Alone it prints a line a test and exits with 77 if tests that need GPUs were skipped.
"""

import functools
import sys

from support import error_of, needs, run_tests

WORLD = 2
HEAP_BYTES = 256 << 20
TIME_OUT_MS = 5_000


class Case:
    """One problem: operations, operands and outputs of both ranks, and what two ways of computing make of it."""

    def __init__(self, m, n, k, seed=1, time_out_ms=TIME_OUT_MS, devices=(0, 1)):
        import torch
        import xstage

        self.torch = torch
        self.heap = xstage.PeerAccessHeap(list(devices), HEAP_BYTES)
        self.ranks = range(len(devices))
        self.m, self.n, self.k = m, n, k
        self.operations = [
            xstage.GemmReduceScatter(self.heap, rank, m, n, k, time_out_ms=time_out_ms) for rank in self.ranks
        ]
        self.rows = [xstage.row_range(m, rank, len(devices)) for rank in self.ranks]
        self.fill(seed)
        # A row of poison before and after every output, and in it.
        self.padded = [
            torch.full((count + 2, n), float("nan"), dtype=torch.bfloat16, device=f"cuda:{device}")
            for device, (_, count) in zip(devices, self.rows)
        ]
        self.outputs = [padded[1:-1] for padded in self.padded]
        self.synchronize()

    def fill(self, seed):
        """Random operands, in place where there are some: captured graphs keep their addresses."""
        torch = self.torch
        generator = torch.Generator().manual_seed(seed)
        depth = self.k // len(self.ranks)
        matrices = [
            [torch.randn(rows, depth, generator=generator).to(torch.bfloat16) for rows in (self.m, self.n)]
            for _ in self.ranks
        ]
        if not hasattr(self, "operands"):
            devices = [operation.device for operation in self.operations]
            self.operands = [[x.to(f"cuda:{device}") for x in pair] for device, pair in zip(devices, matrices)]
        else:
            for pair, new in zip(self.operands, matrices):
                for old, value in zip(pair, new):
                    old.copy_(value)
        self.synchronize()

    def poison(self):
        for padded in self.padded:
            padded.fill_(float("nan"))
        self.synchronize()

    def synchronize(self):
        for device in range(self.torch.cuda.device_count()):
            self.torch.cuda.synchronize(device)

    def launch(self):
        for operation, (a, b), output in zip(self.operations, self.operands, self.outputs):
            returned = operation(a, b, output)
            assert returned is output

    def finish(self):
        self.synchronize()
        for operation in self.operations:
            operation.check()

    def results(self):
        return self.torch.cat([output.cpu().double() for output in self.outputs])

    def exact(self):
        return sum(a.cpu().double() @ b.cpu().double().t() for a, b in self.operands)

    def of_torch(self):
        """Matrix products in bf16, and their sum as a reduce-scatter of bf16 makes it."""
        partials = [self.torch.matmul(a, b.t()).cpu() for a, b in self.operands]
        return functools.reduce(self.torch.add, partials).double()

    def verify(self):
        exact, ours, theirs = self.exact(), self.results(), self.of_torch()
        assert not ours.isnan().any(), f"{int(ours.isnan().sum())} elements were not written"
        for what, measure in (("mean square", lambda x: x.square().mean().sqrt()), ("largest", lambda x: x.abs().max())):
            error, limit = float(measure(ours - exact)), 2 * float(measure(theirs - exact))
            assert error <= limit, f"{what} error {error} of m={self.m} n={self.n} k={self.k}: at most {limit}"
        for padded in self.padded:
            assert padded[[0, -1]].isnan().all(), "stored outside of the output"


@needs(gpus=0)
def test_plan_without_gpu():
    import xstage

    plan = xstage.make_plan(4096, 8192, 8192, WORLD, 132)
    assert plan.tile_columns in (64, 128, 256) and 1 <= plan.issuers <= 132
    assert xstage.heap_bytes(4096, 8192, 8192, WORLD, plan) >= 2048 * 8192 * 2  # a slot for the partial rows of the peer
    assert plan.gather == "push" and f" tile_columns={plan.tile_columns} " in repr(plan)
    plan = xstage.Plan(tile_columns=128, window=4, drain_gb_per_s=300, all_reduce="one_shot")
    assert (plan.tile_columns, plan.window, plan.drain_gb_per_s, plan.all_reduce) == (128, 4, 300.0, "one_shot")
    assert (plan.stages, plan.store_interval_ns, plan.store_path) == (0, -1, "bulk")  # left to the rule
    plan.tile_columns = 96
    tiles = "tile_columns is 96: it must be 64, 128 or 256"
    error_of(ValueError, lambda: xstage.heap_bytes(4096, 8192, 8192, WORLD, plan), tiles)
    error_of(ValueError, lambda: xstage.Plan(gather="pull"), "gather is 'pull': it must be push or copy_engine")
    error_of(ValueError, lambda: xstage.Plan(stages=2.5), "stages is 2.5", "whole number")
    error_of(TypeError, lambda: xstage.Plan(windows=2), "no field 'windows'", "window, store_interval_ns")
    error_of(TypeError, lambda: xstage.Plan(window=None), "window is of type", "NoneType")
    assert [xstage.row_range(999, rank, WORLD) for rank in range(WORLD)] == [(0, 500), (500, 499)]
    error_of(ValueError, lambda: xstage.make_plan(64, 64, 72, WORLD, 132), "k is 72", "multiple of 16")
    error_of(ValueError, lambda: xstage.make_plan(0, 64, 64, WORLD, 132), "m is 0")
    error_of(ValueError, lambda: xstage.make_plan(64, 64, 64, 9, 132), "9 ranks")


@needs(gpus=0)
def test_heap_arguments_are_checked():
    import xstage

    error_of(ValueError, lambda: xstage.PeerAccessHeap([], HEAP_BYTES), "0 ranks")
    error_of(ValueError, lambda: xstage.PeerAccessHeap([0], 0), "0 bytes")


@needs(gpus=WORLD)
def test_against_torch():
    for m, n, k in ((1024, 1024, 2048), (512, 2048, 512), (2048, 256, 4096)):
        case = Case(m, n, k)
        case.launch()
        case.finish()
        case.verify()


@needs(gpus=WORLD)
def test_odd_shapes():
    # Odd m; less than a tile; k tails; no row at all on rank 1.
    for m, n, k in ((999, 520, 1040), (257, 72, 80), (3, 40, 16), (1, 1032, 272)):
        case = Case(m, n, k)
        case.launch()
        case.finish()
        case.verify()


@needs(gpus=WORLD)
def test_one_rank_is_a_plain_gemm():
    case = Case(384, 512, 320, devices=(1,))
    case.launch()
    case.finish()
    case.verify()


@needs(gpus=WORLD)
def test_repeated_calls_on_streams_of_the_caller():
    case = Case(640, 768, 1024)
    torch = case.torch
    streams = [torch.cuda.Stream(device=operation.device) for operation in case.operations]
    for seed in range(2, 6):
        case.fill(seed)
        case.poison()
        for operation, (a, b), output, stream in zip(case.operations, case.operands, case.outputs, streams):
            with torch.cuda.stream(stream):
                operation(a, b, output)
        case.finish()
        case.verify()


@needs(gpus=WORLD)
def test_results_are_deterministic():
    case = Case(777, 1024, 2048)
    results = []
    for _ in range(3):
        case.poison()
        case.launch()
        case.finish()
        results.append(case.results())
    assert all(case.torch.equal(results[0], result) for result in results[1:])


@needs(gpus=WORLD)
def test_cuda_graph_of_each_rank():
    case = Case(1001, 1024, 1024)
    torch = case.torch
    case.launch()  # loads the kernels: not allowed in a capture
    case.finish()
    graphs = []
    for operation, (a, b), output in zip(case.operations, case.operands, case.outputs):
        graph = torch.cuda.CUDAGraph()
        # A stream of its own device: PyTorch's default one for captures belongs to whichever device came first.
        stream = torch.cuda.Stream(device=operation.device)
        with torch.cuda.device(operation.device), torch.cuda.graph(graph, stream=stream):
            operation(a, b, output)
        graphs.append(graph)
    for seed in range(10, 15):
        case.fill(seed)
        case.poison()
        for operation, graph in zip(case.operations, graphs):
            with torch.cuda.device(operation.device):
                graph.replay()
        case.finish()
        case.verify()


@needs(gpus=WORLD)
def test_peer_that_never_comes_is_named_and_reset_repairs():
    case = Case(512, 512, 512, time_out_ms=200)
    (a, b), output = case.operands[0], case.outputs[0]
    case.operations[0](a, b, output)
    case.synchronize()
    error_of(RuntimeError, case.operations[0].check, "rank 0 waited", "for rank 1", "reset()")
    error_of(RuntimeError, lambda: case.operations[0](a, b, output), "rank 0 waited")
    type(case.operations[0]).reset(case.operations)
    case.poison()
    case.launch()
    case.finish()
    case.verify()


@needs(gpus=WORLD)
def test_tensors_that_break_a_rule():
    case = Case(64, 128, 256)
    torch = case.torch
    operation, (a, b), output = case.operations[0], case.operands[0], case.outputs[0]
    for words, arguments in (
        (("a is a list", "torch.Tensor"), ([1.0], b, output)),
        (("a has dtype torch.float32", "torch.bfloat16"), (a.float(), b, output)),
        (("b has shape (128, 64)", "(128, 128)"), (a, b[:, :64], output)),
        (("out has shape (31, 128)", "(32, 128)"), (a, b, output[:31])),
        (("b has strides", "contiguous"), (a, b.t(), output)),
        (("a is on cpu", "cuda:0"), (a.cpu(), b, output)),
        (("b is on cuda:1", "cuda:0"), (a, case.operands[1][1], output)),
        (("a requires grad", "no backward"), (a.clone().requires_grad_(), b, output)),
    ):
        error_of(ValueError, lambda arguments=arguments: operation(*arguments), *words)
    shifted = torch.empty(a.numel() + 1, dtype=a.dtype, device=a.device)[1:].view_as(a)
    error_of(ValueError, lambda: operation(shifted, b, output), "operand a", "aligned to 16 bytes")
    # Nothing was launched: the ranks are still in step.
    case.launch()
    case.finish()
    case.verify()


@needs(gpus=WORLD)
def test_operations_that_break_a_rule():
    import xstage

    heap = xstage.PeerAccessHeap([0, 1], 16 << 20)
    error_of(ValueError, lambda: xstage.GemmReduceScatter(heap, 2, 64, 64, 64), "2")
    error_of(ValueError, lambda: xstage.GemmReduceScatter(heap, 0, 64, 65, 64), "n is 65", "multiple of 8")
    error_of(ValueError, lambda: xstage.GemmReduceScatter(heap, 0, 64, 64, 64, time_out_ms=0), "time_out_ms is 0")
    error_of(ValueError, lambda: xstage.GemmReduceScatter(heap, 0, 8192, 8192, 64), "bytes")
    heap = xstage.PeerAccessHeap([0, 1], 16 << 20)
    first = xstage.GemmReduceScatter(heap, 0, 64, 64, 64)
    error_of(ValueError, lambda: xstage.GemmReduceScatter(heap, 1, 128, 64, 64), "rank 1", "rank 0")
    del first


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
