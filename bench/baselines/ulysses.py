#!/usr/bin/env python3
"""A whole layer of sequence-parallel attention (Ulysses), as a PyTorch user can have it: the baselines of
bench/results/ulysses-*.json.

    python3 bench/baselines/ulysses.py --shapes table --commit HASH --output FILE

One process a GPU, bf16, no mask. Shapes are TOKENSxHEADS, heads of all R ranks together, as in `xstage bench ulysses`:
heads have 128 columns, hidden = heads x 128. A rank owns T/R tokens and has hidden states x [T/R, hidden] of them.

Variant `torch_nccl`: the product to Q, K and V; one all-to-all that brings all three of a rank's heads to it; cuDNN's
attention over all tokens; the all-to-all back to the tokens' owners; the output projection [hidden, hidden]. The rows
of the first product's weights are sorted by destination once, ahead of time. Forms of what is left to choose, FORMS:

    projection  copied: one product [T/R, 3 hidden], then a copy that cuts it into one block a destination
                split: a product for each destination, straight into its block: no copy
                batched: the same in one batched product, whose batches share x
    operands    strided: attention reads Q, K and V where they arrive, in rows of 3 x H/R heads: no copy
                copied: each of them by itself first
    memory      of each of the two all-to-alls: plain buffers, or registered with NCCL as windows. The first product
                writes into a window itself, attention cannot: a copy
    result      copied: heads of all ranks side by side, then one product
                accumulated: a product for the heads of each rank, added up: no copy, but sums are rounded to bf16

Attention's result is one block a destination as it stands. The forms are chosen for each shape, one part after another,
by a few trials (`screened_us`); the layer with the fastest of each part is measured, and `algorithm` names it.

Variant `torch_compute`: the same three operations of the same sizes without communication and without copies. Each
reads what the one before it has left, in whatever order that lies there; results mean nothing. Either Q, K and V are
read as they arrive in `torch_nccl` (`strided`), or each by itself (`contiguous`): the faster is reported.
`ratio`, of `torch_nccl` to it, is paired by round, with the sign test's 95% interval.

Both are checked on every shape, on sampled rows of every rank: `torch_nccl` with the layer without sharding, which each
GPU computes in fp32 for all tokens, `torch_compute` with the same operations in fp32. Wrong results have no row.
"""

import argparse
import functools
import math
import re
import typing

import attention
import common
import torch
import torch.distributed as dist

HEAD_DIM = 128
TABLE = [(tokens, heads) for heads in (24, 40) for tokens in (4096, 16384, 65536)]
SCREENING_TRIALS = 3
ROUNDINGS = 3  # to bf16 on the way to a result, besides its own: Q, K and V, attention's result, a sum of products
FORMS = {  # of each part, the one that works with every version of the libraries first
    "projection": ("copied", "split", "batched"),
    "operands": ("copied", "strided"),
    "memory": ("plain, plain", "window, window", "window, plain"),
    "result": ("copied", "accumulated"),
}


class Shape(typing.NamedTuple):
    """Heads are of all ranks together."""

    tokens: int
    heads: int

    def text(self):
        return f"{self.tokens}x{self.heads}"

    def hidden(self):
        return self.heads * HEAD_DIM

    def operations(self):
        """Of all ranks: four products with [hidden, hidden], and the attention."""
        return 8 * self.tokens * self.hidden() ** 2 + 4 * self.tokens**2 * self.hidden()


class Layer:
    """One rank's operands, and what some rows of its results must be."""

    def __init__(self, session, shape):
        self.session, self.shape, self.ranks = session, shape, session.ranks
        hidden = shape.hidden()
        self.block, self.heads = shape.tokens // self.ranks, shape.heads // self.ranks
        self.rows = torch.linspace(0, self.block - 1, min(self.block, attention.SAMPLED_ROWS), dtype=torch.float64)
        self.rows = self.rows.round().long().unique().to(session.device)  # of this rank's own tokens
        # All ranks make all tokens and weights, for the layer without sharding.
        tokens = session.randn(shape.tokens, hidden, shared=True)
        weights = session.randn(3, hidden, hidden, scale=hidden**-0.5, shared=True)
        self.out_weights = session.randn(hidden, hidden, scale=hidden**-0.5, shared=True)
        first = session.rank * self.block
        self.x = tokens[first : first + self.block].clone()
        # [R, 3 x H/R x D, hidden]: the heads of one destination side by side, Q's, K's and V's.
        self.weights = weights.view(3, self.ranks, -1, hidden).transpose(0, 1).reshape(self.ranks, -1, hidden)
        self.y = self._empty(self.block, 3 * hidden)
        self.gathered = self._empty(self.block, self.ranks, self.heads, HEAD_DIM)
        self.out = self._empty(self.block, hidden)
        self.expected = self._without_sharding(tokens, weights, first + self.rows)

    def _empty(self, *shape):
        return torch.empty(shape, dtype=torch.bfloat16, device=self.session.device)

    def _without_sharding(self, tokens, weights, rows):
        """[rows, hidden] in fp32. Head by head: Q, K and V of all heads at once would not fit."""
        tokens, results = tokens.float(), []
        for head in range(self.shape.heads):
            to_q, to_k, to_v = weights[:, head * HEAD_DIM : (head + 1) * HEAD_DIM].float().transpose(1, 2)
            results.append(attended(tokens[rows] @ to_q, tokens @ to_k, tokens @ to_v))
        return torch.cat(results, 1) @ self.out_weights.float().t()

    def _without_communication(self, dimension):
        """[rows, hidden] in fp32, with Q, K and V side by side in this dimension of the product."""
        product = self.x.float() @ self.weights.view(-1, self.shape.hidden()).float().t()
        q, k, v = side_by_side_parts(product, dimension, self.shape.tokens, self.heads)
        rows = (self.rows[:, None] * self.ranks + torch.arange(self.ranks, device=self.rows.device)).flatten()
        results = [attended(q[rows, head], k[:, head], v[:, head]) for head in range(self.heads)]
        return torch.stack(results, 1).view(len(self.rows), -1) @ self.out_weights.float().t()

    def check(self, expected, result):
        """Sampled rows of [T/R, hidden]. Means over many tokens are small: each row is brought to unit variance."""
        scale = expected.square().mean(1, keepdim=True).rsqrt()
        common.expect_close(result[self.rows].float() * scale, expected * scale, ROUNDINGS)

    def attend(self, q, k, v):
        """[T, H/R, D], of operands that are [T, H/R, D] with any stride between tokens."""
        q, k, v = (tensor.unsqueeze(0).transpose(1, 2) for tensor in (q, k, v))
        # Laid out like the queries, so that nothing is copied here.
        return attention.attention(attention.BACKENDS["cudnn"], q, k, v, False, False).contiguous()

    def compute(self, dimension):
        """The layer without communication."""
        torch.mm(self.x, self.weights.view(-1, self.shape.hidden()).t(), out=self.y)
        result = self.attend(*side_by_side_parts(self.y, dimension, self.shape.tokens, self.heads))
        return torch.mm(result.view(self.block, -1), self.out_weights.t(), out=self.out)

    def whole(self, form, buffers):
        """The layer, in this form, {part: form}."""
        sent, received, packed, returned = buffers
        self._project(form["projection"], sent)
        dist.all_to_all_single(received, sent)
        operands = side_by_side_parts(received, 1, self.shape.tokens, self.heads)
        if form["operands"] == "copied":
            operands = [tensor.contiguous() for tensor in operands]
        result = self.attend(*operands)
        if packed is None:
            packed = result.view(returned.shape)
        else:
            packed.copy_(result.view(packed.shape))
        dist.all_to_all_single(returned, packed)
        return self._project_back(form["result"], returned)

    def _project(self, form, sent):
        """To [R, T/R, 3 x H/R x D]."""
        if form == "batched":
            torch.bmm(self.x.expand(self.ranks, -1, -1), self.weights.transpose(1, 2), out=sent)
        elif form == "split":
            for destination, weights in enumerate(self.weights):
                torch.mm(self.x, weights.t(), out=sent[destination])
        else:
            torch.mm(self.x, self.weights.view(-1, self.shape.hidden()).t(), out=self.y)
            sent.copy_(self.y.view(self.block, self.ranks, -1).transpose(0, 1))

    def _project_back(self, form, returned):
        """From [R, T/R, H/R, D] to [T/R, hidden]."""
        if form == "copied":
            result = attention.side_by_side(returned, self.gathered).view(self.block, -1)
            return torch.mm(result, self.out_weights.t(), out=self.out)
        of_ranks = self.out_weights.chunk(self.ranks, 1)
        torch.mm(returned[0].view(self.block, -1), of_ranks[0].t(), out=self.out)
        for result, weights in zip(returned[1:], of_ranks[1:]):
            self.out.addmm_(result.view(self.block, -1), weights.t())
        return self.out

    def compute_candidates(self):
        for dimension, name in ((1, "strided"), (0, "contiguous")):
            check = functools.partial(self.check, self._without_communication(dimension))
            call = functools.partial(self.compute, dimension)
            yield common.Candidate("torch_compute", name, call, check, [self.y, self.out])

    def whole_candidates(self, forms):
        """One for each form whose memory NCCL has here. Those of one call share their buffers: no two run at a time."""
        of_kinds = {}
        for kind, arena in self.session.arenas.items():
            first = (self.ranks, self.block, 3 * self.heads * HEAD_DIM)
            back = (self.ranks, self.block, self.heads, HEAD_DIM)
            of_kinds[kind] = [arena.take(*first), arena.take(*first), arena.take(*back), arena.take(*back)]
        for form in forms:
            kinds = form["memory"].split(", ")
            if not of_kinds.keys() >= set(kinds):
                continue
            sent, received, packed, returned = of_kinds[kinds[0]][:2] + of_kinds[kinds[1]][2:]
            buffers = (sent, received, packed if kinds[1] == "window" else None, returned)
            overwritten = [self.y, sent, received, packed, returned, self.gathered, self.out]
            call = functools.partial(self.whole, form, buffers)
            check = functools.partial(self.check, self.expected)
            yield common.Candidate("torch_nccl", text_of(form), call, check, overwritten)


def side_by_side_parts(product, dimension, tokens, heads):
    """Q, K and V, [T, H/R, D] each, that lie side by side in dimension 0 or 1."""
    parts = (tokens, 3) if dimension == 1 else (3, tokens)
    return product.view(*parts, heads, HEAD_DIM).unbind(dimension)


def attended(q, k, v):
    """One head's attention in fp32."""
    return ((q @ k.t()) * HEAD_DIM**-0.5).softmax(-1) @ v


def text_of(form):
    return "; ".join(f"{part} {choice}" for part, choice in form.items())


def measured(session, layer, name, forms, trials, with_compute=False):
    """Candidates that work, with their trials. Their graphs are gone from every rank when this returns."""

    def make():
        compute = layer.compute_candidates() if with_compute else ()
        return [*compute, *(layer.whole_candidates(forms) if forms else ())]

    candidates = common.measure(session, name, session.agreed(make), trials)
    session.release()
    return candidates


def chosen_form(session, layer, name, trials):
    """({part: form}, {part: {form: microseconds}}), one part after another; no form if a part has none that works."""
    form, screened = {part: choices[0] for part, choices in FORMS.items()}, {}
    for part, choices in FORMS.items():
        choice_of = {text_of({**form, part: choice}): choice for choice in choices}
        candidates = measured(session, layer, name, [{**form, part: choice} for choice in choices], trials)
        if not candidates:
            return None, screened
        timing = common.timing_fields(candidates)  # slowest ranks, so that all ranks choose the same
        screened[part] = {choice_of[algorithm]: time for algorithm, time in timing["algorithms_us"].items()}
        form[part] = choice_of[timing["algorithm"]]
    return form, screened


def rows_of_cell(session, shape, trials):
    """One row a variant."""
    name = f"ulysses {shape.text()}"
    layer = session.agreed(lambda: Layer(session, shape))
    form, screened = None, {}
    if session.ranks > 1:
        form, screened = chosen_form(session, layer, f"{name} screening", min(trials, SCREENING_TRIALS))
    candidates = measured(session, layer, name, [form] if form else [], trials, with_compute=True)
    compute_us = None
    for variant in dict.fromkeys(candidate.variant for candidate in candidates):
        timing = common.timing_fields([candidate for candidate in candidates if candidate.variant == variant])
        row = {**shape._asdict(), "head_dim": HEAD_DIM, "dtype": "bf16", "ranks": session.ranks, "variant": variant}
        row["tflops"] = round(1e-6 * shape.operations() / session.ranks / timing["microseconds"], 2)
        if variant == "torch_compute":
            compute_us = timing["trials_us"]
        else:
            row["screened_us"] = screened
        if variant == "torch_nccl" and compute_us:
            row.update(common.ratio_fields("ratio", timing["trials_us"], compute_us))
            row["ratio_to"] = "torch_compute"
        row["verified"] = f"{len(layer.rows)} rows of every rank, {verified_with(variant)}"
        yield {**row, **timing}


def verified_with(variant):
    layer = "the layer without sharding" if variant == "torch_nccl" else "the same operations"
    return f"with {layer} in fp32 on one GPU"


def line_of(shape, row):
    ratio = f", ratio {row['ratio']:.3f}" if "ratio" in row else ""
    return (
        f"{shape.text():10}R={row['ranks']} {row['variant']:14}{row['microseconds']:9.1f} us "
        f"[{row['p5']:.1f}, {row['p95']:.1f}] {row['tflops']:6.1f} TFLOP/s, eager {row['eager_us']:.1f} us{ratio}, "
        f"{row['algorithm']}"
    )


def header(options, failures):
    head = {**attention.header(options, failures), "bench": "ulysses-baselines"}
    head["timing"] += "; a call is the whole layer"
    return head


def arena_bytes(shapes, ranks):
    """Q, K and V and attention's result, each sent and received."""
    return max(8 * 2 * shape.tokens * shape.hidden() // ranks for shape in shapes) + 4 * common.ALIGNMENT


def work(rank, ranks, port, limit, options):
    """One rank: every cell in turn. Rank 0 writes the file, anew after each cell."""
    session = common.Session(rank, ranks, port, limit, arena_bytes(options.cells, ranks) if ranks > 1 else 0, 0)
    head, rows = header(options, session.failures) if rank == 0 else {}, []
    for shape in options.cells:
        try:
            for row in rows_of_cell(session, shape, options.trials):
                session.say(line_of(shape, row))
                rows.append(row)
        except common.CandidateFailed as error:
            session.fail(f"ulysses {shape.text()}: {error}")
        session.release()
        if rank == 0:
            common.write_results(options.output, head, rows)
    common.finish(session, rows)


def parsed_shape(text):
    match = re.fullmatch(r"([1-9]\d{0,8})x([1-9]\d{0,8})", text)
    if not match:
        raise ValueError(f"--shapes: '{text}' is not table or TOKENSxHEADS")
    return Shape(int(match[1]), int(match[2]))


def parsed_cells(shapes, ranks):
    """Shapes, none twice; ValueError says which rule is broken. Of the table, what the ranks can share."""
    if shapes == "table":
        cells = [Shape(*extents) for extents in TABLE if math.gcd(*extents, ranks) == ranks]
        if not cells:
            raise ValueError(f"--shapes: the table has no shape that {ranks} ranks can share")
        return cells
    cells = list(map(parsed_shape, shapes.split(",")))
    for shape in cells:
        for name in ("tokens", "heads"):
            if getattr(shape, name) % ranks:
                raise ValueError(f"--shapes: {shape.text()}: {name} is not a multiple of the {ranks} ranks")
    return list(dict.fromkeys(cells))


def main():
    gpus = torch.cuda.device_count()
    parser = argparse.ArgumentParser(description="PyTorch baselines of a layer of sequence-parallel attention.")
    parser.add_argument("--shapes", default="table", help="table or TOKENSxHEADS,...; default: %(default)s")
    common.add_run_options(parser, gpus, 400.0)
    options = common.checked_options(parser, gpus)
    try:
        options.cells = parsed_cells(options.shapes, options.ranks)
    except ValueError as error:
        parser.error(str(error))
    common.run(work, options)


if __name__ == "__main__":
    main()
