#!/usr/bin/env python3
"""Attention from PyTorch: on one GPU, and where there are two with results that go to their owners. With pytest, or
alone:

    PYTHONPATH=FOLDER_OF_THE_PACKAGE python3 test_attention.py

Alone it prints a line a test and exits with 77 if tests that need GPUs were skipped.
"""

import gc
import sys

from support import error_of, needs, run_tests

WORLD = 2
HEAP_BYTES = 64 << 20
TIME_OUT_MS = 5_000


class Case:
    """One problem: operations and operands of all ranks, and what they make of it in double and in PyTorch."""

    def __init__(self, *, devices=(0,), plan=None, time_out_ms=TIME_OUT_MS, seed=1, **problem):
        import torch
        import xstage

        self.torch = torch
        self.problem = {"sequences": 1, "head_dim": 128, "causal": False, "dtype": "bf16", "scale": 0.0, **problem}
        self.problem = {"keys": problem["rows"], "kv_heads": problem["heads"], **self.problem}
        self.world = len(devices)
        self.devices = devices
        self.heap = xstage.PeerAccessHeap(list(devices), HEAP_BYTES)
        self.operations = [
            xstage.Attention(self.heap, rank, time_out_ms=time_out_ms, plan=plan, **self.problem)
            for rank in range(self.world)
        ]
        self.dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[self.problem["dtype"]]
        self.operands = None
        self.fill(seed)

    def shapes(self):
        """Of a rank's query, key and value."""
        problem = self.problem
        key = (problem["sequences"], problem["keys"], problem["kv_heads"] // self.world, problem["head_dim"])
        return (problem["sequences"], problem["rows"], problem["heads"] // self.world, problem["head_dim"]), key, key

    def fill(self, seed):
        """Random operands, in place where there are some: captured graphs keep their addresses."""
        generator = self.torch.Generator().manual_seed(seed)
        values = [
            [self.torch.randn(shape, generator=generator).to(self.dtype) for shape in self.shapes()]
            for _ in self.devices
        ]
        if self.operands is None:
            self.operands = [[x.to(f"cuda:{device}") for x in own] for device, own in zip(self.devices, values)]
        else:
            for own, new in zip(self.operands, values):
                for old, value in zip(own, new):
                    old.copy_(value)
        self.synchronize()

    def poisoned(self, shape, dtype=None, rank=0):
        device = f"cuda:{self.devices[rank]}"
        return self.torch.full(shape, float("nan"), dtype=dtype or self.dtype, device=device)

    def synchronize(self):
        for device in set(self.devices):
            self.torch.cuda.synchronize(device)

    def finish(self):
        self.synchronize()
        for operation in self.operations:
            operation.check()

    def by_head(self, rank):
        """[sequences, heads, rows or keys, head_dim], as PyTorch has it."""
        return [tensor.transpose(1, 2) for tensor in self.operands[rank]]

    def exact(self, rank=0):
        """(result, log-sum-exp) of a rank's heads, in double."""
        torch = self.torch
        query, key, value = (tensor.double() for tensor in self.by_head(rank))
        group = query.shape[1] // key.shape[1]
        key, value = (tensor.repeat_interleave(group, 1) for tensor in (key, value))
        scores = query @ key.transpose(2, 3) * (self.problem["scale"] or query.shape[3] ** -0.5)
        if self.problem["causal"]:
            places = torch.arange(scores.shape[2], device=scores.device)
            scores.masked_fill_(places > places[:, None], float("-inf"))
        return (scores.softmax(-1) @ value).transpose(1, 2), scores.logsumexp(-1)

    def of_torch(self, rank=0):
        torch, problem = self.torch, self.problem
        with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.FLASH_ATTENTION]):
            result = torch.nn.functional.scaled_dot_product_attention(
                *self.by_head(rank),
                is_causal=problem["causal"],
                scale=problem["scale"] or None,
                enable_gqa=problem["heads"] != problem["kv_heads"],
            )
        return result.transpose(1, 2)

    def verify(self, result, rank=0):
        """Of a rank's heads."""
        exact, theirs = self.exact(rank)[0], self.of_torch(rank)
        self.compare(result, exact, theirs)

    def compare(self, result, exact, theirs):
        assert tuple(result.shape) == tuple(exact.shape), f"{tuple(result.shape)}, not {tuple(exact.shape)}"
        assert not result.isnan().any(), f"{int(result.isnan().sum())} elements were not written"
        if exact.numel() == 0:
            return
        measures = {"mean square": lambda x: x.square().mean().sqrt(), "largest": lambda x: x.abs().max()}
        for what, measure in measures.items():
            error, limit = (float(measure(x.double() - exact)) for x in (result, theirs))
            assert error <= 2 * limit, f"{what} error {error} of {self.problem}: at most {2 * limit}"

    def call(self, **arguments):
        return self.operations[0](*self.operands[0], **arguments)


@needs(gpus=0)
def test_problem_and_plan_without_gpu():
    from xstage import Attention

    problem = {"rows": 999, "heads": 24, "destination": "to_owners"}
    assert Attention.heap_bytes(WORLD, **problem) >= 500 * 24 * 128 * 2
    assert Attention.heap_bytes(WORLD, rows=999, heads=24) < 64 << 10  # of a local one: signals
    plan = Attention.make_plan(WORLD, 132, **problem)
    assert 1 <= plan.issuers <= 132 and plan.split in (0, 1) and plan.store_path == "bulk"
    assert Attention.make_plan(WORLD, 132, **problem, causal=True).split == 0


@needs(gpus=0)
def test_problems_that_break_a_rule():
    import xstage

    good = {"rows": 64, "heads": 8}
    for words, change in (
        (("rows is 0", "between 1 and"), {"rows": 0}),
        (("heads is 7", "multiple of the 2 ranks"), {"heads": 7}),
        (("kv_heads is 6", "heads must be a multiple"), {"kv_heads": 6}),
        (("head_dim is 96", "64 or 128"), {"head_dim": 96}),
        (("keys is 65", "rows is 64"), {"keys": 65, "causal": True}),
        (("scale is -1", "positive"), {"scale": -1.0}),
        (("dtype is 'fp32'", "'bf16', 'fp16'"), {"dtype": "fp32"}),
        (("destination is 'owners'", "'local', 'to_owners', 'twin'"), {"destination": "owners"}),
    ):
        error_of(ValueError, lambda change=change: xstage.Attention.heap_bytes(WORLD, **{**good, **change}), *words)
    error_of(ValueError, lambda: xstage.Attention.heap_bytes(9, **good), "9 ranks")
    error_of(ValueError, lambda: xstage.AttentionPlan(store_path="store32"), "store32")


@needs(gpus=1)
def test_against_torch():
    for problem in (
        {"rows": 1024, "heads": 12},
        {"rows": 1000, "keys": 777, "heads": 4, "sequences": 3},
        {"rows": 640, "heads": 6, "head_dim": 64},
        {"rows": 512, "heads": 8, "dtype": "fp16"},
        {"rows": 513, "heads": 4, "scale": 0.25, "dtype": "fp16", "head_dim": 64},
        {"rows": 1, "keys": 300, "heads": 24},
    ):
        case = Case(**problem)
        # A sequence of poison before and after the output, and in it.
        query_shape = case.shapes()[0]
        padded = case.poisoned((query_shape[0] + 2, *query_shape[1:]))
        out = padded[1:-1]
        assert case.call(out=out) is out
        case.finish()
        case.verify(out)
        assert padded[[0, -1]].isnan().all(), "stored outside of the output"


@needs(gpus=1)
def test_causal():
    for problem in ({"rows": 1024, "heads": 12}, {"rows": 777, "heads": 4, "sequences": 2, "head_dim": 64}):
        case = Case(**problem, causal=True)
        result = case.call()
        case.finish()
        case.verify(result)


@needs(gpus=1)
def test_grouped_query():
    for problem in ({"heads": 24, "kv_heads": 6}, {"heads": 8, "kv_heads": 1, "causal": True, "dtype": "fp16"}):
        case = Case(rows=600, **problem)
        result = case.call()
        case.finish()
        case.verify(result)


@needs(gpus=1)
def test_log_sum_exp():
    for problem in ({"rows": 500, "keys": 300}, {"rows": 500, "causal": True, "dtype": "fp16", "sequences": 2}):
        case = Case(heads=8, kv_heads=4, **problem)
        log_sum_exp = case.poisoned((case.problem["sequences"], 8, 500), case.torch.float32)
        result = case.call(log_sum_exp=log_sum_exp)
        case.finish()
        case.verify(result)
        error = float((log_sum_exp.double() - case.exact()[1]).abs().max())
        assert error <= 1e-4, f"log_sum_exp is wrong by {error}"  # this way round NaN fails
        assert case.torch.equal(case.call(), result)  # without it the same bits


@needs(gpus=1)
def test_repeated_calls_on_a_stream_of_the_caller():
    case = Case(rows=700, heads=12)
    stream = case.torch.cuda.Stream(device=0)
    for seed in range(2, 6):
        case.fill(seed)
        out = case.poisoned(case.shapes()[0])
        case.synchronize()
        with case.torch.cuda.stream(stream):
            case.call(out=out)
        case.finish()
        case.verify(out)


@needs(gpus=1)
def test_plans_of_the_caller():
    import xstage

    for plan in (
        xstage.AttentionPlan(issuers=7),
        xstage.AttentionPlan(split=1),
        xstage.AttentionPlan(split=0, store_path="store16"),
    ):
        case = Case(rows=1000, heads=6, plan=plan)
        result = case.call()
        case.finish()
        case.verify(result)
        operation = case.operations[0]
        assert operation.issuers == operation.plan.issuers
        assert plan.issuers in (0, operation.issuers) and plan.split in (-1, operation.plan.split)
        assert operation.plan.store_path == plan.store_path


@needs(gpus=1)
def test_cuda_graph():
    case = Case(rows=1001, heads=12, causal=True)
    torch = case.torch
    case.call()  # loads the kernels: not allowed in a capture
    case.finish()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = case.call()
    for seed in range(10, 15):
        case.fill(seed)
        result.fill_(float("nan"))
        graph.replay()
        case.finish()
        case.verify(result)


@needs(gpus=1)
def test_result_in_the_heap_is_a_view():
    for destination in ("to_owners", "twin"):
        for dtype in ("bf16", "fp16"):
            case = Case(rows=450, heads=6, sequences=2, dtype=dtype, destination=destination)
            operation = case.operations[0]
            before = operation.result()
            result = case.call()
            case.finish()
            assert before.data_ptr() == result.data_ptr() == operation.output_address() != 0
            assert result.dtype == case.dtype and result.device == case.torch.device("cuda", 0)
            assert case.torch.equal(before, result)  # filled behind the tensor's back
            case.verify(result.view(case.shapes()[0]))
    assert operation.row_range == (0, 450)
    local = Case(rows=450, heads=6)
    error_of(ValueError, local.operations[0].result, "local", "caller's tensor")


@needs(gpus=1)
def test_graph_of_a_result_in_the_heap():
    case = Case(rows=450, heads=6, destination="to_owners")
    case.call()
    case.finish()
    graph = case.torch.cuda.CUDAGraph()
    with case.torch.cuda.graph(graph):
        copy = case.call().clone()
    for seed in (20, 21):
        case.fill(seed)
        graph.replay()
        case.finish()
        case.verify(copy)


@needs(gpus=1)
def test_result_keeps_its_memory():
    import xstage

    problem = {"rows": 300, "heads": 4, "destination": "to_owners"}
    heap = xstage.PeerAccessHeap([0], xstage.Attention.heap_bytes(1, **problem))
    result = xstage.Attention(heap, 0, **problem).result()
    result.fill_(1)
    gc.collect()
    error_of(ValueError, lambda: xstage.Attention(heap, 0, **problem), "bytes are left")
    assert float(result.float().sum()) == result.numel()
    del result
    gc.collect()
    xstage.Attention(heap, 0, **problem)


@needs(gpus=1)
def test_tensors_that_break_a_rule():
    case = Case(rows=64, heads=4, kv_heads=2)
    torch = case.torch
    operation, (query, key, value) = case.operations[0], case.operands[0]
    out, log_sum_exp = torch.empty_like(query), torch.empty((1, 4, 64), device="cuda:0")
    for words, arguments in (
        (("query is a list", "torch.Tensor"), ([1.0], key, value)),
        (("query has dtype torch.float16", "torch.bfloat16"), (query.half(), key, value)),
        (("key has shape (1, 64, 4, 128)", "(1, 64, 2, 128)"), (query, query, value)),
        (("value has shape (64, 2, 128)", "(1, 64, 2, 128)"), (query, key, value[0])),
        (("value has strides", "contiguous"), (query, key, value.transpose(1, 2).contiguous().transpose(1, 2))),
        (("key is on cpu", "cuda:0"), (query, key.cpu(), value)),
        (("out has dtype torch.float32", "torch.bfloat16"), (query, key, value, out.float())),
        (("out has shape (1, 32, 4, 128)", "(1, 64, 4, 128)"), (query, key, value, out[:, :32])),
        (("log_sum_exp has dtype torch.bfloat16", "torch.float32"), (query, key, value, out, log_sum_exp.bfloat16())),
        (("log_sum_exp has shape (1, 64, 4)", "(1, 4, 64)"), (query, key, value, out, log_sum_exp.view(1, 64, 4))),
        (("query requires grad", "no backward"), (query.clone().requires_grad_(), key, value)),
    ):
        error_of(ValueError, lambda arguments=arguments: operation(*arguments), *words)
    shifted = torch.empty(query.numel() + 1, dtype=query.dtype, device=query.device)[1:].view_as(query)
    error_of(ValueError, lambda: operation(shifted, key, value), "operand query", "aligned to 16 bytes")
    result = case.call()  # nothing was spoilt
    case.finish()
    case.verify(result)
    case = Case(rows=64, heads=4, destination="to_owners")
    error_of(ValueError, lambda: case.call(out=out), "out is given", "'to_owners'")


@needs(gpus=1)
def test_operations_that_break_a_rule():
    import xstage

    heap = xstage.PeerAccessHeap([0], 1 << 20)
    good = {"rows": 64, "heads": 4}
    make = xstage.Attention
    error_of(ValueError, lambda: make(heap, 1, **good), "1")
    error_of(ValueError, lambda: make(heap, 0, **good, head_dim=80), "head_dim is 80")
    error_of(ValueError, lambda: make(heap, 0, **good, time_out_ms=0), "time_out_ms is 0")
    error_of(ValueError, lambda: make(heap, 0, rows=8192, heads=24, destination="to_owners"), "bytes")
    plan = xstage.AttentionPlan(split=1)
    error_of(ValueError, lambda: make(heap, 0, **good, causal=True, plan=plan), "split is 1", "causal")
    plan.split, plan.issuers = 0, 1000
    error_of(ValueError, lambda: make(heap, 0, **good, plan=plan), "issuers is 1000")
    heap = xstage.PeerAccessHeap([0, 0], 1 << 20)
    first = make(heap, 0, **good)
    error_of(ValueError, lambda: make(heap, 1, rows=65, heads=4), "rank 1", "rank 0", "rows=65")
    del first


@needs(gpus=1)
def test_peer_that_never_comes_is_named():
    case = Case(devices=(0, 0), rows=256, heads=4, destination="to_owners", time_out_ms=200)
    for _ in range(2):
        case.call()
        case.synchronize()
        error_of(RuntimeError, case.operations[0].check, "rank 0 waited", "for rank 1")
        error_of(RuntimeError, case.call, "rank 0 waited")
        type(case.operations[0]).reset(case.operations)
        case.operations[0].check()


class TwoRanks(Case):
    """Results at the owners of their rows."""

    def __init__(self, **problem):
        super().__init__(devices=(0, 1), destination="to_owners", **problem)

    def poison(self):
        for operation in self.operations:
            operation.result().fill_(float("nan"))
        self.synchronize()

    def launch(self):
        for operation, operands in zip(self.operations, self.operands):
            operation(*operands)

    def verify_owners(self):
        exact = self.torch.cat([self.exact(rank)[0].cpu() for rank in range(WORLD)], 2)
        theirs = self.torch.cat([self.of_torch(rank).cpu() for rank in range(WORLD)], 2)
        for operation in self.operations:
            begin, count = operation.row_range
            rows = slice(begin, begin + count)
            self.compare(operation.result().cpu(), exact[:, rows], theirs[:, rows])


@needs(gpus=WORLD)
def test_results_go_to_their_owners():
    # An odd number of rows; grouped-query; a rank without rows.
    for problem in (
        {"rows": 1024, "heads": 24},
        {"rows": 999, "heads": 8, "kv_heads": 2, "sequences": 2, "causal": True},
        {"rows": 640, "keys": 333, "heads": 4, "head_dim": 64, "dtype": "fp16"},
        {"rows": 1, "keys": 64, "heads": 8},
    ):
        case = TwoRanks(**problem)
        case.poison()
        case.launch()
        case.finish()
        case.verify_owners()


@needs(gpus=WORLD)
def test_calls_that_end_when_they_have_sent():
    case = TwoRanks(rows=1001, heads=12)
    torch = case.torch
    for seed in range(20, 23):
        case.fill(seed)
        case.poison()
        for operation, operands in zip(case.operations, case.operands):
            with torch.cuda.device(operation.device):
                operation(*operands, sent=True)
                operation.await_arrival()
        case.finish()
        case.verify_owners()


@needs(gpus=WORLD)
def test_graphs_of_two_ranks():
    case = TwoRanks(rows=1001, heads=12)
    torch = case.torch
    case.launch()
    case.finish()
    graphs = []
    for operation, operands in zip(case.operations, case.operands):
        graph = torch.cuda.CUDAGraph()
        # A stream of its own device: PyTorch's default one for captures belongs to whichever device came first.
        stream = torch.cuda.Stream(device=operation.device)
        with torch.cuda.device(operation.device), torch.cuda.graph(graph, stream=stream):
            operation(*operands)
        graphs.append(graph)
    for seed in range(10, 14):
        case.fill(seed)
        case.poison()
        for operation, graph in zip(case.operations, graphs):
            with torch.cuda.device(operation.device):
                graph.replay()
        case.finish()
        case.verify_owners()


@needs(gpus=WORLD)
def test_reset_repairs_what_a_missing_peer_broke():
    case = TwoRanks(rows=256, heads=4, time_out_ms=200)
    case.call()
    case.synchronize()
    error_of(RuntimeError, case.operations[0].check, "rank 0 waited", "for rank 1", "reset()")
    type(case.operations[0]).reset(case.operations)
    case.poison()
    case.launch()
    case.finish()
    case.verify_owners()


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
