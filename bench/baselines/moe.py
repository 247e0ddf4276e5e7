#!/usr/bin/env python3
"""An expert-parallel mixture-of-experts layer, as a PyTorch user can have it: the baselines of
bench/results/moe-bf16-*.json.

    python3 bench/baselines/moe.py --tool build/xstage --commit HASH --output FILE

One process a GPU, bf16. Cells are those of `xstage bench moe`, which reads --shapes, --tokens, --routing and
--remote-share and writes the routings that both measure: the router's choices and weights are given. Rank r of R has
tokens of its own and experts [r x experts_per_rank, (r + 1) x experts_per_rank).

Variant `torch_nccl`, the whole layer. `algorithm` names the fastest way, `algorithms_us` has all:

    split sizes  Choices are sorted by expert and counted, and the ranks tell each other the counts, which the host must
                 know: no graph can have it. Each choice's token goes to its expert's rank and its result back, by
                 all_to_all_single with as many rows as there are.
    fixed size   All ranks' tokens and choices are gathered everywhere; each rank computes its own experts' rows, in
                 buffers for as many rows as the fullest rank has (a capacity that fits the routing), adds up the results of each token, and a reduce_scatter adds up
                 the ranks' sums, in bf16. As a graph, without the host. (An all-to-all padded for every routing would
                 send as much or more.)

Either way: rows sorted by expert, torch._grouped_mm for Linear-1, SwiGLU, torch._grouped_mm for Linear-2, and a sum
over choices by router weight in fp32; SwiGLU and the sum are one kernel each by torch.compile, or plain operations
where it does not work (`fusion` in the file's head). NCCL: on plain buffers, or registered as windows.

Variants `torch_linear1` and `torch_linear2`: torch._grouped_mm alone, of as many rows for each expert, as a graph.
`tflops` is that of the rank with most rows. `ratio` is torch_nccl to the sum of the two, paired by round.

Everything is checked on every cell, on sampled tokens and rows of every rank: `torch_nccl` with the layer without
sharding in fp32, the others with the same product in fp32. Wrong results have no row.
"""

import argparse
import functools
import json
import os
import pathlib
import subprocess
import tempfile
import typing

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of processes that outlives a rank

import attention  # noqa: E402  (after the environment)
import common  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
import torch._inductor.config  # noqa: E402
import torch.distributed as dist  # noqa: E402

SAMPLED_ROWS = 16
ROUNDINGS = 4  # to bf16 on the way to a result, besides its own: gate and up, SwiGLU, Linear-2, a rank's sum
SUSTAINED_TOKENS = 8192  # balanced, natural share: see in_readme of src/ops/moe/bench/rows.cpp
MOST_COMPILED = 64  # forms of one function
MOST_CHOICES = 16  # of a token


class Cell(typing.NamedTuple):
    shape: str
    hidden: int
    intermediate: int
    experts_per_rank: int
    top_k: int
    tokens: int  # of each rank
    routing: str
    remote_share: str

    def text(self):
        return f"{self.shape}, {self.tokens} tokens, {self.routing}, remote share {self.remote_share}"

    def operations(self, variant, rows):
        products = {"torch_linear1": 2, "torch_linear2": 1}.get(variant, 3)
        return 2 * products * rows * self.hidden * self.intermediate

    def in_readme(self, ranks):
        natural = f"{ranks - 1}/{ranks}"
        return self.tokens == SUSTAINED_TOKENS and self.routing == "balanced" and self.remote_share == natural


class Routings:
    """The file that `xstage bench moe --write-routing` leaves."""

    def __init__(self, path):
        with open(path, "rb") as stream:
            head = json.loads(stream.readline())
            self._begin = stream.tell()
        if head["schema"] != "xstage.routings/1":
            raise ValueError(f"{path}: schema {head['schema']}, not xstage.routings/1")
        self.path, self.ranks = path, head["ranks"]
        self._offsets = {}
        for described in head["cells"]:
            offset = described.pop("offset")
            self._offsets[Cell(**described)] = offset
        self.cells = list(self._offsets)

    def of(self, cell):
        """(experts, weights): int32 and fp32 [ranks, tokens, top_k]."""
        choices = cell.tokens * cell.top_k
        begin = self._begin + self._offsets[cell]
        words = numpy.fromfile(self.path, numpy.int32, 2 * self.ranks * choices, offset=begin)
        words = words.reshape(self.ranks, 2, cell.tokens, cell.top_k)
        return words[:, 0].copy(), words[:, 1].copy().view(numpy.float32)


def rows_of_experts(cell, experts, ranks):
    """Choices of each expert: [ranks, experts_per_rank]."""
    counts = numpy.bincount(experts.ravel(), minlength=ranks * cell.experts_per_rank)
    return counts.reshape(ranks, cell.experts_per_rank)


def swiglu(product):
    """[rows, 2 I], gate and up side by side, to [rows, I]."""
    gate, up = product.float().chunk(2, -1)
    return (torch.nn.functional.silu(gate) * up).to(product.dtype)


def weighted_sum(results, places, weights, out):
    """out[t] = sum over k of weights[t, k] x results[places[t, k]]; a result of weight 0 may be anything."""
    weights = weights.unsqueeze(-1)
    terms = (results[places].float() * weights).masked_fill(weights == 0, 0.0)
    return out.copy_(terms.sum(1).to(out.dtype))


class Fusion:
    """SwiGLU and the sum over choices, as one kernel each if the compiler works here."""

    def __init__(self):
        self.name, self.swiglu, self.weighted_sum = "torch.compile", swiglu, weighted_sum
        self._compiled = None

    def prepare(self, session, cell):
        """Compiles for the cell's widths and any number of rows; plain operations for all cells from where it fails."""
        if self.name != "torch.compile":
            return
        try:
            session.agreed(lambda: self._compile(session.device, cell))
        except common.CandidateFailed as error:
            session.fail(f"torch.compile: {error}")
            self.name, self.swiglu, self.weighted_sum = "plain operations", swiglu, weighted_sum

    def _compile(self, device, cell):
        if self._compiled is None:
            torch._dynamo.config.cache_size_limit = MOST_COMPILED
            # Up to 7 choices the compiler sums in registers by itself; a loop of 8 or 10 took milliseconds.
            torch._inductor.config.unroll_reductions_threshold = MOST_CHOICES + 1
            self._compiled = [torch.compile(function, dynamic=False) for function in (swiglu, weighted_sum)]
            self.swiglu, self.weighted_sum = self._compiled

        def rows(count, width, dtype=torch.bfloat16):
            made = torch.zeros(count, width, dtype=dtype, device=device)
            torch._dynamo.maybe_mark_dynamic(made, 0)
            return made

        self.swiglu(rows(96, 2 * cell.intermediate))
        choices = (rows(32, cell.top_k, torch.int64), rows(32, cell.top_k, torch.float32))
        self.weighted_sum(rows(80, cell.hidden), *choices, rows(32, cell.hidden))


class Layer:
    """One rank's operands, and what some tokens' results must be."""

    def __init__(self, session, cell, routing, fusion):
        self.session, self.cell, self.fusion, self.ranks = session, cell, fusion, session.ranks
        experts, weights = (torch.from_numpy(values).to(session.device) for values in routing)
        self.counts = torch.from_numpy(rows_of_experts(cell, routing[0], session.ranks))  # on the host: not for calls
        self.most_rows = int(self.counts.sum(1).max())
        self.experts, self.weights = experts[session.rank], weights[session.rank]
        self.tokens = session.randn(cell.tokens, cell.hidden)
        sampled = torch.linspace(0, cell.tokens - 1, min(cell.tokens, SAMPLED_ROWS), dtype=torch.float64)
        self.sampled = sampled.round().long().unique().to(session.device)
        self.expected = torch.zeros(len(self.sampled), cell.hidden, device=session.device)
        for place in range(session.ranks):  # every rank makes the weights of all and keeps its own
            linear1 = session.randn(
                cell.experts_per_rank, 2 * cell.intermediate, cell.hidden, scale=cell.hidden**-0.5, shared=True
            )
            linear2 = session.randn(
                cell.experts_per_rank, cell.hidden, cell.intermediate, scale=cell.hidden**-0.5, shared=True
            )
            self._expect(place, linear1, linear2)
            if place == session.rank:
                self.linear1, self.linear2 = linear1, linear2
        all_experts = session.ranks * cell.experts_per_rank
        self.bounds = torch.arange(all_experts + 1, dtype=torch.int32, device=session.device)
        self.local_experts = torch.arange(cell.experts_per_rank, device=session.device).repeat(session.ranks)
        self.numbers = torch.arange(session.ranks * cell.tokens * cell.top_k, device=session.device)
        self.out = self._empty(cell.tokens, cell.hidden)

    def _empty(self, *shape, dtype=torch.bfloat16):
        return torch.empty(shape, dtype=dtype, device=self.session.device)

    def _expect(self, place, linear1, linear2):
        """Adds what the experts of this rank contribute to the sampled tokens, in fp32."""
        experts, weights = self.experts[self.sampled], self.weights[self.sampled]
        first = place * self.cell.experts_per_rank
        for expert in range(self.cell.experts_per_rank):
            token, choice = (experts == first + expert).nonzero(as_tuple=True)
            if len(token):
                rows = self.tokens[self.sampled[token]].float()
                rows = swiglu(rows @ linear1[expert].float().t()) @ linear2[expert].float().t()
                self.expected.index_add_(0, token, rows * weights[token, choice].unsqueeze(1))

    def check(self, result):
        """Sampled rows of [tokens, hidden]. Results of a few experts are small: rows are brought to unit variance."""
        expect_close(result[self.sampled], self.expected, ROUNDINGS)

    def compute(self, rows, ends):
        """The experts' results [rows, hidden]; rows behind the last end mean nothing."""
        product = torch._grouped_mm(rows, self.linear1.transpose(1, 2), offs=ends)
        return torch._grouped_mm(self.fusion.swiglu(product), self.linear2.transpose(1, 2), offs=ends)

    def inverse(self, order):
        """Where each choice has its row, [tokens, top_k]."""
        places = torch.empty_like(order).scatter_(0, order, self.numbers[: len(order)])
        return places.view(-1, self.cell.top_k)

    def with_split_sizes(self, sent, received, back, returned):
        """The layer with all-to-alls of as many rows as there are."""
        by_expert, order = self.experts.view(-1).sort(stable=True)
        counts = torch.searchsorted(by_expert, self.bounds).diff().view(self.ranks, -1)
        if self.ranks == 1:
            ends = counts[0].cumsum(0).to(torch.int32)
            results = self.compute(self.tokens.index_select(0, order // self.cell.top_k), ends)
            return self.fusion.weighted_sum(results, self.inverse(order), self.weights, self.out)
        of_sources = torch.empty_like(counts)
        dist.all_to_all_single(of_sources, counts)
        to_peers, from_peers = torch.stack((counts.sum(1), of_sources.sum(1))).tolist()  # waits for the GPU
        received, back = received[: sum(from_peers)], back[: sum(from_peers)]
        torch.index_select(self.tokens, 0, order // self.cell.top_k, out=sent)
        dist.all_to_all_single(received, sent, from_peers, to_peers)
        experts = self.local_experts.repeat_interleave(of_sources.view(-1), output_size=len(received))
        by_expert = experts.argsort(stable=True)
        ends = of_sources.sum(0).cumsum(0).to(torch.int32)
        results = self.compute(received.index_select(0, by_expert), ends)
        back.index_copy_(0, by_expert, results)
        dist.all_to_all_single(returned, back, to_peers, from_peers)
        return self.fusion.weighted_sum(returned, self.inverse(order), self.weights, self.out)

    def with_fixed_size(self, tokens, gathered, sums, out):
        """The layer with an all-gather of tokens and a reduce-scatter of results; `tokens` are the rank's."""
        experts, weights = self.experts, self.weights
        if self.ranks > 1:
            dist.all_gather_into_tensor(gathered, tokens)
            choices = torch.cat((experts, weights.view(torch.int32)), 1)
            of_all = torch.empty(self.ranks * len(choices), choices.shape[1], dtype=torch.int32, device=choices.device)
            dist.all_gather_into_tensor(of_all, choices)
            experts, weights = of_all.split(self.cell.top_k, 1)
            weights = weights.view(torch.float32)
        else:
            gathered, sums = tokens, out
        experts = experts - self.session.rank * self.cell.experts_per_rank
        # masked_fill: torch.where copies a scalar to the GPU, which no graph can have.
        elsewhere = (experts < 0) | (experts >= self.cell.experts_per_rank)
        keys = experts.masked_fill(elsewhere, self.cell.experts_per_rank).reshape(-1)
        by_expert, order = keys.sort(stable=True)
        ends = torch.searchsorted(by_expert, self.bounds[1 : self.cell.experts_per_rank + 1], out_int32=True)
        # As many rows as the fullest rank has: none is gathered or activated on a rank that does not compute it. Behind
        # the last row always the same token, from a cache.
        capacity = self.most_rows
        sources = (order[:capacity] // self.cell.top_k).masked_fill(self.numbers[:capacity] >= ends[-1], 0)
        results = self.compute(gathered.index_select(0, sources), ends)
        places, weights = self.inverse(order).masked_fill(elsewhere, 0), weights.masked_fill(elsewhere, 0.0)
        self.fusion.weighted_sum(results, places, weights, sums)
        if self.ranks > 1:
            dist.reduce_scatter_tensor(out, sums)
        return out

    def layer_candidates(self):
        cell, most_rows = self.cell, self.most_rows
        choices, every = cell.tokens * cell.top_k, self.ranks * cell.tokens
        for kind, arena in self.session.arenas.items():
            buffers = [arena.take(rows, cell.hidden) for rows in (choices, most_rows, most_rows, choices)]
            call = functools.partial(self.with_split_sizes, *buffers)
            overwritten = [*buffers, self.out]
            yield common.Candidate(
                "torch_nccl", f"split sizes, eager, {kind}", call, self.check, overwritten, captured=False
            )
            tokens = arena.take(cell.tokens, cell.hidden).copy_(self.tokens)
            buffers = [arena.take(rows, cell.hidden) for rows in (every, every, cell.tokens)]
            call = functools.partial(self.with_fixed_size, tokens, *buffers)
            name = f"fixed size, graph, {kind}"
            yield common.Candidate("torch_nccl", name, call, self.check, buffers)

    def linear_candidates(self):
        cell, session = self.cell, self.session
        ends = self.counts[session.rank].cumsum(0).to(torch.int32).to(session.device)
        rows = session.randn(int(ends[-1]), cell.hidden)
        activated = swiglu(torch._grouped_mm(rows, self.linear1.transpose(1, 2), offs=ends))
        for variant, operand, weights in (
            ("torch_linear1", rows, self.linear1),
            ("torch_linear2", activated, self.linear2),
        ):
            call = functools.partial(torch._grouped_mm, operand, weights.transpose(1, 2), offs=ends)
            check = functools.partial(check_linear, operand, weights, ends)
            yield common.Candidate(variant, "_grouped_mm, graph", call, check)


def check_linear(rows, weights, ends, result):
    sampled = torch.linspace(0, len(rows) - 1, min(len(rows), SAMPLED_ROWS), dtype=torch.float64)
    sampled = sampled.round().long().unique().to(rows.device)
    experts = torch.searchsorted(ends, sampled, right=True)  # the first that ends behind the row
    expected = [rows[row].float() @ weights[expert].float().t() for row, expert in zip(sampled, experts)]
    expect_close(result[sampled], torch.stack(expected), 0)


def expect_close(result, expected, roundings):
    scale = expected.square().mean(1, keepdim=True).rsqrt()
    common.expect_close(result.float() * scale, expected * scale, roundings)


def arena_rows(cell, experts, ranks):
    """Rows of `hidden` that layer_candidates takes."""
    most_rows = int(rows_of_experts(cell, experts, ranks).sum(1).max())
    return 2 * cell.tokens * cell.top_k + 2 * most_rows + (2 * ranks + 2) * cell.tokens


def arena_bytes(routings):
    of_cells = (2 * cell.hidden * arena_rows(cell, routings.of(cell)[0], routings.ranks) for cell in routings.cells)
    return max(of_cells) + 8 * common.ALIGNMENT


def rows_of_cell(session, cell, routing, fusion, options):
    """One row a variant."""
    fusion.prepare(session, cell)
    layer = session.agreed(lambda: Layer(session, cell, routing, fusion))
    candidates = session.agreed(lambda: [*layer.layer_candidates(), *layer.linear_candidates()])
    sustained = ("torch_nccl",) if options.sustained and cell.in_readme(session.ranks) else ()
    candidates = common.measure(session, f"moe {cell.text()}", candidates, options.trials, sustained)
    most_rows = layer.most_rows
    timings = {}
    for variant in dict.fromkeys(candidate.variant for candidate in candidates):
        timings[variant] = common.timing_fields([each for each in candidates if each.variant == variant])
    for variant, timing in timings.items():
        row = {name: value for name, value in cell._asdict().items() if name in KEY_FIELDS}
        row.update({"dtype": "bf16", "ranks": session.ranks, "variant": variant})
        row["tflops"] = round(1e-6 * cell.operations(variant, most_rows) / timing["microseconds"], 2)
        row["rows"] = most_rows
        if variant == "torch_nccl" and {"torch_linear1", "torch_linear2"} <= timings.keys():
            linears = (timings["torch_linear1"]["trials_us"], timings["torch_linear2"]["trials_us"])
            row.update(common.ratio_fields("ratio", timing["trials_us"], [sum(both) for both in zip(*linears)]))
            row["ratio_to"] = "torch_linear1+torch_linear2"
        yield {**row, **timing}


KEY_FIELDS = ("shape", "tokens", "routing", "remote_share")


def line_of(cell, row):
    ratio = f", ratio {row['ratio']:.3f}" if "ratio" in row else ""
    return (
        f"{cell.shape:18}{cell.tokens:6} {cell.routing:10} {cell.remote_share:4} R={row['ranks']} {row['variant']:14}"
        f"{row['microseconds']:9.1f} us [{row['p5']:.1f}, {row['p95']:.1f}] {row['tflops']:6.1f} TFLOP/s{ratio}, "
        f"{row['algorithms_us']}"
    )


def header(options, failures):
    return {**attention.header(options, failures), "bench": "moe-baselines"}


def work(rank, ranks, port, limit, options):
    """One rank: every cell in turn. Rank 0 writes the file, anew after each cell."""
    routings, fusion = Routings(options.routings), Fusion()
    session = common.Session(rank, ranks, port, limit, arena_bytes(routings), 0)
    head, rows = header(options, session.failures) if rank == 0 else {}, []
    for cell in routings.cells:
        try:
            for row in rows_of_cell(session, cell, routings.of(cell), fusion, options):
                session.say(line_of(cell, row))
                rows.append(row)
        except common.CandidateFailed as error:
            session.fail(f"moe {cell.text()}: {error}")
        session.release()
        if rank == 0:
            common.write_results(options.output, {**head, "fusion": fusion.name}, rows)
    common.finish(session, rows)


def write_routings(options, path):
    """By the tool that measures the same cells. Raises ValueError with what it says about a mistake."""
    command = [str(options.tool), "bench", "moe", "--write-routing", str(path)]
    command += ["--devices", ",".join(map(str, range(options.ranks)))]
    for name in ("shapes", "tokens", "routing", "remote_share"):
        value = getattr(options, name)
        command += [f"--{name.replace('_', '-')}", value] if value is not None else []
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        raise ValueError(answer.stderr.strip() or f"{options.tool} ended with code {answer.returncode}")


def main():
    gpus = torch.cuda.device_count()
    parser = argparse.ArgumentParser(description="PyTorch baselines of a mixture-of-experts layer.")
    tool = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "xstage"
    parser.add_argument("--tool", type=pathlib.Path, default=tool, help="makes the routings; default: %(default)s")
    for name in ("--shapes", "--tokens", "--routing", "--remote-share"):
        parser.add_argument(name, help="as for `xstage bench moe`, also if left out")
    common.add_run_options(parser, gpus, 400.0)
    options = common.checked_options(parser, gpus)
    with tempfile.TemporaryDirectory() as folder:
        options.routings = pathlib.Path(folder) / "routings"
        try:
            write_routings(options, options.routings)
        except (OSError, ValueError) as error:
            parser.error(f"--tool {options.tool}: {error}")
        common.run(work, options)


if __name__ == "__main__":
    main()
