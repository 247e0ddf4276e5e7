#!/usr/bin/env python3
"""The mixture-of-experts layer from PyTorch: one rank on one GPU, and where there are two GPUs two ranks. With pytest,
or alone:

    PYTHONPATH=FOLDER_OF_THE_PACKAGE python3 test_moe.py

Alone it prints a line a test and exits with 77 if tests that need GPUs were skipped.
"""

import sys

from support import error_of, needs, run_tests

WORLD = 2
TIME_OUT_MS = 5_000
SMALL = {"hidden": 320, "intermediate": 192, "experts_per_rank": 6, "top_k": 4, "most_tokens": 300}
COMBINES = ("partial_sums", "rows")


class Case:
    """One layer: operations, weights, operands and outputs of all ranks, and what the layer is in plain PyTorch."""

    def __init__(self, *, devices=(0,), tokens=(300,), combine=None, plan=None, time_out_ms=TIME_OUT_MS, **problem):
        import torch
        import xstage

        self.torch = torch
        self.problem = problem or SMALL
        self.devices, self.world = devices, len(devices)
        if combine is not None:
            plan = xstage.MoePlan(combine=combine)
        self.heap = xstage.PeerAccessHeap(list(devices), xstage.MoeLayer.heap_bytes(self.world, **self.problem))
        self.layers = [
            xstage.MoeLayer(self.heap, rank, time_out_ms=time_out_ms, plan=plan, **self.problem)
            for rank in range(self.world)
        ]
        self.combine = self.layers[0].plan.combine
        self.make_weights()
        self.operands = None
        self.fill(1, tokens)

    def device(self, rank):
        return f"cuda:{self.devices[rank]}"

    def of_rank(self, weights, rank):
        count = self.problem["experts_per_rank"]
        return weights[rank * count : (rank + 1) * count].to(self.device(rank))

    def make_weights(self):
        """Of all experts, for the reference; then each rank's own, as the layer wants them."""
        hidden, intermediate = self.problem["hidden"], self.problem["intermediate"]
        generator = self.torch.Generator().manual_seed(99)

        def experts(rows, depth):
            shape = (self.world * self.problem["experts_per_rank"], rows, depth)
            values = self.torch.randn(shape, generator=generator) * depth**-0.5
            return values.bfloat16().to(self.device(0))

        self.gate_up, self.linear2 = experts(2 * intermediate, hidden), experts(hidden, intermediate)
        self.weights = [
            (layer.pack_linear1(self.of_rank(self.gate_up, rank)), self.of_rank(self.linear2, rank))
            for rank, layer in enumerate(self.layers)
        ]

    def fill(self, seed, tokens=None, masked=0.0):
        """New random operands and poisoned outputs. For as many tokens in place: captured graphs keep their addresses.

        Experts may stand twice. This share of the choices is masked; their router weights are NaN, since nobody reads
        them.
        """
        torch = self.torch
        generator = torch.Generator().manual_seed(seed)
        experts = self.world * self.problem["experts_per_rank"]

        def of_one_rank(count):
            choices = (count, self.problem["top_k"])
            chosen = torch.randint(experts, choices, generator=generator, dtype=torch.int32)
            weights = torch.randn(choices, generator=generator)
            mask = torch.rand(choices, generator=generator) < masked
            x = torch.randn(count, self.problem["hidden"], generator=generator).bfloat16()
            return x, chosen.masked_fill(mask, -1), weights.masked_fill(mask, float("nan"))

        values = [of_one_rank(count) for count in (self.tokens if tokens is None else tokens)]
        if tokens is not None:
            self.tokens = tokens
            self.operands = [[x.to(self.device(rank)) for x in own] for rank, own in enumerate(values)]
            # A row of poison before and after every output, and in it.
            shapes = [(count + 2, self.problem["hidden"]) for count in tokens]
            self.padded = [
                torch.empty(shape, dtype=torch.bfloat16, device=self.device(rank)) for rank, shape in enumerate(shapes)
            ]
            self.outputs = [padded[1:-1] for padded in self.padded]
        else:
            for own, new in zip(self.operands, values):
                for old, value in zip(own, new):
                    old.copy_(value)
        self.poison()

    def poison(self):
        for padded in self.padded:
            padded.fill_(float("nan"))
        self.synchronize()

    def synchronize(self):
        for device in set(self.devices):
            self.torch.cuda.synchronize(device)

    def call(self, rank=0, **arguments):
        """One rank's call, with this rank's operands where the arguments have no others."""
        names = ("tokens", "experts", "router_weights", "linear1", "linear2")
        own = dict(zip(names, (*self.operands[rank], *self.weights[rank])))
        return self.layers[rank](**{**own, "out": self.outputs[rank], **arguments})

    def launch(self):
        for rank, output in enumerate(self.outputs):
            assert self.call(rank) is output

    def finish(self):
        self.synchronize()
        for layer in self.layers:
            layer.check()

    def run(self):
        self.launch()
        self.finish()
        self.verify()
        return [output.cpu() for output in self.outputs]

    def reference(self, rank, rounded):
        """The result of a rank in double, expert by expert; `rounded`: to bf16 where include/xstage/moe.hpp says so."""
        torch, count = self.torch, self.problem["experts_per_rank"]

        def stored(values):
            return values.bfloat16().double() if rounded else values

        tokens, experts, weights = (tensor.to(self.device(0)) for tensor in self.operands[rank])
        rows = torch.zeros((*experts.shape, tokens.shape[1]), dtype=torch.double, device=tokens.device)
        for expert in range(self.world * count):
            token, choice = (experts == expert).nonzero(as_tuple=True)
            gate, up = (tokens[token].double() @ self.gate_up[expert].double().t()).chunk(2, 1)
            clamp = self.problem.get("clamp")
            if clamp:
                gate, up = gate.clamp(max=clamp), up.clamp(-clamp, clamp)
            activated = stored(weights[token, choice].double()[:, None] * torch.nn.functional.silu(gate) * up)
            rows[token, choice] = stored(activated @ self.linear2[expert].double().t())
        result = torch.zeros(tokens.shape, dtype=torch.double, device=tokens.device)
        for owner in range(self.world):
            there = (experts >= owner * count) & (experts < (owner + 1) * count)
            total = (rows * there[:, :, None]).sum(1)
            # Only what crosses as one sum is rounded on the way.
            result += stored(total) if self.combine == "partial_sums" and owner != rank else total
        return stored(result)

    def verify(self):
        """The yardstick is how far the reference with the documented roundings is from the one without.

        Between it and the kernels are only the order of fp32 sums and an approximate exponential, a thousandth of a
        rounding to bf16: root mean squares should be the same within a percent. A rounding more would show: of gate and
        up before SwiGLU, it makes them 1.2 to 1.4 times as large. The largest error is one element's, where a number
        close to the middle of two may go the other way.
        """
        measures = (("mean square", lambda x: x.square().mean().sqrt(), 1.1), ("largest", lambda x: x.abs().max(), 2))
        for rank, (output, padded) in enumerate(zip(self.outputs, self.padded)):
            assert padded[[0, -1]].isnan().all(), f"rank {rank} stored outside of its output"
            assert not output.isnan().any(), f"rank {rank}: {int(output.isnan().sum())} elements were not written"
            if output.numel() == 0:
                continue
            exact, rounded = self.reference(rank, False), self.reference(rank, True)
            result = output.double().to(exact.device)
            for what, measure, factor in measures:
                error, limit = float(measure(result - exact)), factor * float(measure(rounded - exact))
                assert error <= limit, f"{what} error {error} of rank {rank}, {self.problem}: at most {limit}"


@needs(gpus=0)
def test_problem_and_plan_without_gpu():
    from xstage import MoeLayer, MoePlan

    rows = 300 * 4 * 320 * 2  # bytes of what one rank's tokens may choose
    assert MoeLayer.heap_bytes(WORLD, **SMALL) >= (WORLD + 1) * rows  # all ranks' may come here, and one's come back
    assert MoeLayer.heap_bytes(1, **SMALL) < MoeLayer.heap_bytes(WORLD, **SMALL)
    plan = MoeLayer.make_plan(WORLD, 132, **SMALL)
    assert (plan.issuers, plan.combine) == (132, "partial_sums")
    plan = MoePlan(issuers=7, combine="rows")
    assert (plan.issuers, plan.combine) == (7, "rows")
    plan.combine = "partial_sums"
    assert plan.combine == "partial_sums" and MoePlan().issuers == 0


@needs(gpus=0)
def test_problems_that_break_a_rule():
    import xstage

    for words, change in (
        (("hidden is 96", "multiple of 64"), {"hidden": 96}),
        (("intermediate is 0", "multiple of 64"), {"intermediate": 0}),
        (("experts_per_rank is 257", "between 1 and 256"), {"experts_per_rank": 257}),
        (("top_k is 17", "between 1 and 16"), {"top_k": 17}),
        (("top_k is 13", "12 experts"), {"top_k": 13}),
        (("most_tokens is 0", "between 1 and"), {"most_tokens": 0}),
        (("clamp is -1", "above zero"), {"clamp": -1.0}),
    ):
        error_of(ValueError, lambda change=change: xstage.MoeLayer.heap_bytes(WORLD, **{**SMALL, **change}), *words)
    error_of(ValueError, lambda: xstage.MoeLayer.heap_bytes(9, **SMALL), "9 ranks")
    error_of(ValueError, lambda: xstage.MoePlan(combine="row"), "combine is 'row'", "partial_sums or rows")
    error_of(ValueError, lambda: setattr(xstage.MoePlan(), "combine", ""), "combine is ''")


@needs(gpus=1)
def test_against_plain_pytorch():
    for tokens, problem in (
        (300, SMALL),
        (1, {"hidden": 64, "intermediate": 64, "experts_per_rank": 1, "top_k": 1, "most_tokens": 1}),
        (131, {"hidden": 1088, "intermediate": 448, "experts_per_rank": 17, "top_k": 16, "most_tokens": 200}),
        (1000, {"hidden": 2048, "intermediate": 768, "experts_per_rank": 16, "top_k": 8, "most_tokens": 1024}),
        (300, {**SMALL, "clamp": 0.5}),
    ):
        of_combine = [Case(**problem, tokens=(tokens,), combine=combine).run() for combine in COMBINES]
        assert of_combine[0][0].equal(of_combine[1][0])  # nothing crosses on one rank


@needs(gpus=1)
def test_packing():
    case = Case()
    layer, gate_up, torch = case.layers[0], case.gate_up, case.torch
    experts, rows, hidden = gate_up.shape
    # In every expert 8 rows of gate, the same 8 of up, and so on.
    expected = gate_up.view(experts, 2, rows // 16, 8, hidden).transpose(1, 2).reshape(gate_up.shape)
    gate, up = (half.contiguous() for half in gate_up.chunk(2, 1))
    stream = torch.cuda.Stream(device=0)
    stream.wait_stream(torch.cuda.current_stream(0))
    with torch.cuda.stream(stream):
        packings = [layer.pack_linear1(gate_up), layer.pack_linear1(gate, up)]
    stream.synchronize()
    for packed in packings:
        assert packed.dtype == torch.bfloat16 and packed.device == gate_up.device
        assert packed.equal(expected)
    for words, arguments in (
        (("gate_up is a list", "torch.Tensor"), ([1.0],)),
        (("gate_up has shape (6, 192, 320)", "(6, 384, 320)"), (gate,)),
        (("gate has shape (6, 384, 320)", "(6, 192, 320)"), (gate_up, up)),
        (("up has shape (5, 192, 320)", "(6, 192, 320)"), (gate, up[1:])),
        (("up has dtype torch.float16", "torch.bfloat16"), (gate, up.half())),
        (("gate_up is on cpu", "cuda:0"), (gate_up.cpu(),)),
        (("gate has strides", "contiguous"), (gate_up[:, :192], up)),
        (("gate_up requires grad", "no backward"), (gate_up.clone().requires_grad_(),)),
    ):
        error_of(ValueError, lambda arguments=arguments: layer.pack_linear1(*arguments), *words)


@needs(gpus=1)
def test_masked_choices():
    for combine in COMBINES:
        case = Case(combine=combine)
        for seed, masked in ((2, 0.5), (3, 1.0), (4, 0.9)):
            case.fill(seed, masked=masked)
            none = (case.operands[0][1] == -1).all(1)
            assert none.any()
            case.run()
            assert not case.outputs[0][none].any(), "tokens without a choice have a result of zeros"


@needs(gpus=1)
def test_any_number_of_tokens():
    case = Case()
    for seed, count in enumerate((7, 0, 300, 1), 2):
        case.fill(seed, (count,))
        case.run()


@needs(gpus=1)
def test_outputs_that_are_allocated():
    case = Case()
    tokens, torch = case.operands[0][0], case.torch
    empty = case.layers[0].empty_output(tokens[:5])
    assert tuple(empty.shape) == (5, 320) and empty.dtype == torch.bfloat16 and empty.device == tokens.device
    case.run()
    result = case.call(out=None)
    case.finish()
    assert result.equal(case.outputs[0]) and result.data_ptr() not in (tokens.data_ptr(), case.outputs[0].data_ptr())


@needs(gpus=1)
def test_repeated_calls_on_a_stream_of_the_caller():
    case = Case()
    stream = case.torch.cuda.Stream(device=0)
    for seed in range(2, 6):
        case.fill(seed)
        late = case.operands[0][0].clone()
        case.operands[0][0].zero_()
        case.synchronize()
        with case.torch.cuda.stream(stream):
            # Nothing but the order of this stream puts the tokens there before the kernels read them.
            case.torch.cuda._sleep(50_000_000)
            case.operands[0][0].copy_(late)
            case.launch()
        case.finish()
        case.verify()


@needs(gpus=1)
def test_plans_of_the_caller():
    import xstage

    results = []
    for issuers in (0, 1, 17):
        case = Case(plan=xstage.MoePlan(issuers=issuers, combine="rows"))
        layer = case.layers[0]
        assert layer.issuers == layer.plan.issuers and issuers in (0, layer.issuers) and layer.issuers > 0
        assert layer.plan.combine == "rows"
        results += case.run()
    assert all(results[0].equal(result) for result in results[1:])


@needs(gpus=1)
def test_cuda_graph():
    case = Case()
    torch = case.torch
    case.launch()  # loads the kernels: not allowed in a capture
    case.finish()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        case.launch()
    for seed in range(10, 15):
        case.fill(seed, masked=0.1)
        graph.replay()
        case.finish()
        case.verify()


@needs(gpus=1)
def test_tensors_that_break_a_rule():
    case = Case(tokens=(40,))
    torch = case.torch
    (tokens, experts, router_weights), (_, linear2), out = case.operands[0], case.weights[0], case.outputs[0]
    across = torch.empty(320, 40, dtype=torch.bfloat16, device="cuda:0").t()
    many = torch.zeros(301, 320, dtype=torch.bfloat16, device="cuda:0")
    for words, arguments in (
        (("tokens is a list", "torch.Tensor"), {"tokens": [1.0]}),
        (("tokens has dtype torch.float32", "torch.bfloat16"), {"tokens": tokens.float()}),
        (("tokens has shape (40, 64)", "(40, 320)"), {"tokens": tokens[:, :64]}),
        (("tokens has shape (1, 40, 320)", "(tokens, 320)"), {"tokens": tokens[None]}),
        (("tokens is 301", "between 0 and 300", "most_tokens"), {"tokens": many}),
        (("tokens has strides", "contiguous"), {"tokens": across}),
        (("tokens is on cpu", "cuda:0"), {"tokens": tokens.cpu()}),
        (("tokens requires grad", "no backward"), {"tokens": tokens.clone().requires_grad_()}),
        (("experts has dtype torch.int64", "torch.int32"), {"experts": experts.long()}),
        (("experts has shape (39, 4)", "(40, 4)"), {"experts": experts[1:]}),
        (("experts is on cpu", "cuda:0"), {"experts": experts.cpu()}),
        (("router_weights has dtype torch.bfloat16", "torch.float32"), {"router_weights": router_weights.bfloat16()}),
        (("router_weights has shape (40, 3)", "(40, 4)"), {"router_weights": router_weights[:, 1:]}),
        (("linear1 has shape (6, 320, 192)", "(6, 384, 320)"), {"linear1": linear2}),
        (("linear2 has shape (6, 192, 320)", "(6, 320, 192)"), {"linear2": linear2.transpose(1, 2)}),
        (("linear2 is a NoneType", "torch.Tensor"), {"linear2": None}),
        (("out has dtype torch.float32", "torch.bfloat16"), {"out": out.float()}),
        (("out has shape (39, 320)", "(40, 320)"), {"out": out[1:]}),
        (("out has strides", "contiguous"), {"out": across}),
    ):
        error_of(ValueError, lambda arguments=arguments: case.call(**arguments), *words)
    error_of(ValueError, lambda: case.layers[0].empty_output(many), "tokens is 301")
    shifted = torch.zeros(161, dtype=torch.int32, device="cuda:0")[1:].view(40, 4)
    error_of(ValueError, lambda: case.call(experts=shifted), "operand experts", "aligned to 16 bytes")
    case.synchronize()
    assert out.isnan().all(), "something was launched"
    case.run()


@needs(gpus=1)
def test_choices_that_break_a_rule():
    case = Case()
    _, experts, router_weights = case.operands[0]
    expert_6 = ("rank 0, token 23, choice 2", "expert 6: it must be between 0 and 5, or -1 for none", "reset()")
    for seed, words, tensor, value in (
        (2, expert_6, experts, 6),
        (3, ("rank 0, token 23, choice 2", "expert -2"), experts, -2),
        (4, ("rank 0, token 23, choice 2", "router weight nan: it must be finite"), router_weights, float("nan")),
    ):
        tensor[23, 2] = value
        case.launch()
        case.synchronize()
        error_of(ValueError, case.layers[0].check, *words)
        error_of(ValueError, case.call, *words)
        type(case.layers[0]).reset(case.layers)
        case.fill(seed)
        case.run()


@needs(gpus=1)
def test_operations_that_break_a_rule():
    import xstage

    make = xstage.MoeLayer
    heap = xstage.PeerAccessHeap([0], make.heap_bytes(1, **SMALL))
    error_of(ValueError, lambda: make(heap, 1, **SMALL), "rank 1", "ranks 0 to 0")
    error_of(ValueError, lambda: make(heap, 0, **{**SMALL, "hidden": 96}), "hidden is 96")
    error_of(ValueError, lambda: make(heap, 0, **SMALL, time_out_ms=0), "time_out_ms is 0")
    error_of(ValueError, lambda: make(heap, 0, **SMALL, plan=xstage.MoePlan(issuers=1000)), "issuers is 1000")
    make(heap, 0, **SMALL)  # nothing was taken from the heap, and this is as much as it has
    small = xstage.PeerAccessHeap([0], make.heap_bytes(1, **SMALL) - 1024)
    error_of(ValueError, lambda: make(small, 0, **SMALL), "rank 0 allocates 'moe", "bytes")
    heap = xstage.PeerAccessHeap([0, 0], make.heap_bytes(WORLD, **SMALL))
    first = make(heap, 0, **SMALL)
    error_of(ValueError, lambda: make(heap, 1, **{**SMALL, "top_k": 3}), "rank 1", "rank 0", "top_k=3", "top_k=4")
    error_of(ValueError, lambda: make(heap, 1, **SMALL, plan=xstage.MoePlan(combine="rows")), "combine=rows")
    del first


@needs(gpus=1)
def test_peer_that_never_comes_is_named():
    case = Case(devices=(0, 0), tokens=(40, 40), time_out_ms=200)
    for _ in range(2):
        case.call(0)
        case.synchronize()
        error_of(RuntimeError, case.layers[0].check, "rank 0 waited", "for rank 1")
        error_of(RuntimeError, case.call, "rank 0 waited")
        type(case.layers[0]).reset(case.layers)
        case.layers[0].check()


def two_ranks(**arguments):
    return Case(**{"devices": (0, 1), "tokens": (300, 211), **arguments})


@needs(gpus=WORLD)
def test_two_ranks_against_plain_pytorch():
    for problem in (
        SMALL,
        {"hidden": 64, "intermediate": 128, "experts_per_rank": 1, "top_k": 2, "most_tokens": 300},
        {"hidden": 2048, "intermediate": 768, "experts_per_rank": 8, "top_k": 8, "most_tokens": 1024, "clamp": 2.0},
    ):
        for combine in COMBINES:
            case = two_ranks(**problem, combine=combine)
            # Fewer and more, none on one rank or on both, and masked ones.
            for seed, tokens, masked in (
                (2, (300, 211), 0.0),
                (3, (0, 300), 0.0),
                (4, (17, 0), 0.0),
                (5, (0, 0), 0.0),
                (6, (299, 300), 0.4),
                (7, (30, 31), 1.0),
            ):
                case.fill(seed, tokens, masked)
                case.run()


@needs(gpus=WORLD)
def test_rows_have_the_same_bits_on_any_number_of_ranks():
    doubled = {**SMALL, "experts_per_rank": 2 * SMALL["experts_per_rank"]}
    alone = Case(**doubled).run()[0]  # the same weights and tokens as those of rank 0
    by_rows = two_ranks(combine="rows").run()[0]
    assert by_rows.equal(alone)
    by_sums = two_ranks(combine="partial_sums").run()[0]
    assert not by_sums.equal(by_rows), "the sums of a rank are rounded before they cross"


@needs(gpus=WORLD)
def test_graphs_of_two_ranks():
    for combine in COMBINES:
        case = two_ranks(combine=combine)
        torch = case.torch
        case.launch()
        case.finish()
        graphs = []
        for rank, layer in enumerate(case.layers):
            graph = torch.cuda.CUDAGraph()
            # A stream of its own device: PyTorch's default one for captures belongs to whichever device came first.
            stream = torch.cuda.Stream(device=layer.device)
            with torch.cuda.device(layer.device), torch.cuda.graph(graph, stream=stream):
                case.call(rank)
            graphs.append(graph)
        for seed in range(10, 14):
            case.fill(seed, masked=0.1)
            for layer, graph in zip(case.layers, graphs):
                with torch.cuda.device(layer.device):
                    graph.replay()
            case.finish()
            case.verify()


@needs(gpus=WORLD)
def test_tensors_of_another_rank():
    case = two_ranks()
    for name, tensor in (
        ("tokens", case.operands[1][0]),
        ("experts", case.operands[0][1].to("cuda:1")),
        ("linear1", case.weights[1][0]),
        ("out", case.outputs[0].to("cuda:1")),
    ):
        arguments = {name: tensor}
        error_of(ValueError, lambda arguments=arguments: case.call(0, **arguments), f"{name} is on cuda:1", "cuda:0")
    error_of(ValueError, lambda: case.layers[1].pack_linear1(case.gate_up[:6]), "gate_up is on cuda:0", "cuda:1")
    case.run()  # nothing was launched: the ranks are still in step


@needs(gpus=WORLD)
def test_choices_of_two_ranks_that_break_a_rule():
    case = two_ranks()
    case.operands[1][1][23, 2] = 12
    case.launch()
    case.synchronize()
    case.layers[0].check()
    error_of(ValueError, case.layers[1].check, "rank 1, token 23, choice 2", "expert 12", "between 0 and 11", "reset()")
    type(case.layers[0]).reset(case.layers)
    case.fill(2)
    case.run()


@needs(gpus=WORLD)
def test_reset_repairs_what_a_missing_peer_broke():
    case = two_ranks(time_out_ms=200)
    case.call(0)
    case.synchronize()
    error_of(RuntimeError, case.layers[0].check, "rank 0 waited", "for rank 1", "reset()")
    error_of(RuntimeError, case.call, "rank 0 waited")
    type(case.layers[0]).reset(case.layers)
    case.poison()
    case.run()


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
