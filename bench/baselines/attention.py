#!/usr/bin/env python3
"""Attention and the all-to-all of its results, as a PyTorch user can have them: the baselines of
bench/results/attention-*.json.

    python3 bench/baselines/attention.py --shapes table --commit HASH --output FILE

One process a GPU, bf16. Shapes are SEQUENCExHEADS[:d64][:causal][:kvHEADS], heads of all R ranks together, as in
`xstage bench attention`. A rank has [S, H/R, D] of queries, keys and values, and computes all rows of its own heads; a
row's owner, one of S/R rows, wants all heads of it: [S/R, H, D].

Variants: `cudnn` and `flash2` (FlashAttention 2, as PyTorch has it) are the attention alone. `nccl_all_to_all` brings
its results to their owners and puts the heads of all ranks side by side, which takes a copy; `cudnn_nccl` is one after
the other. On one rank there are the first two. Where a variant can be had in several ways, the fastest is reported:
`algorithm` names it, `algorithms_us` has all. NCCL: on plain buffers, or registered as symmetric windows, into which
the attention cannot write itself.

With `--xstage` (the package on PYTHONPATH, docs/python.md) this library's kernel for a rank's own heads is one more
variant, `xstage_attention`, in the same alternating trials: `ratio_to_cudnn` is its time against cuDNN's, paired by
round, with the sign test's 95% interval.
"""

import argparse
import datetime
import functools
import re
import shlex
import sys
import typing

import common
import torch
import torch.distributed as dist
from torch.nn.attention import SDPBackend, sdpa_kernel

SAMPLED_ROWS = 16
SEQUENCES = [1024 << step for step in range(7)]
EXTRA_SEQUENCES = [4096, 8192, 16384]
HEADS_OF_A_RANK = [12, 24]
SUSTAINED_SEQUENCES = (4096, 16384, 65536)  # with 12 heads a rank: see in_readme of src/ops/attention/bench/rows.cpp
SUSTAINED_VARIANTS = ("cudnn", "cudnn_nccl")
SHAPES_HELP = "table, full, extra or SEQUENCExHEADS[:d64][:causal][:kvHEADS]"
RATIO = "ratio_to_cudnn"
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash2": SDPBackend.FLASH_ATTENTION}


class Shape(typing.NamedTuple):
    """Heads are of all ranks together."""

    sequence: int
    heads: int
    kv_heads: int
    head_dim: int = 128
    causal: bool = False

    def text(self):
        head_dim = "" if self.head_dim == 128 else f":d{self.head_dim}"
        kv_heads = "" if self.kv_heads == self.heads else f":kv{self.kv_heads}"
        return f"{self.sequence}x{self.heads}{head_dim}{':causal' if self.causal else ''}{kv_heads}"

    def operations(self):
        return (2 if self.causal else 4) * self.sequence**2 * self.head_dim * self.heads


class Inputs:
    """One rank's operands, and what some rows of the result must be."""

    def __init__(self, session, shape):
        self.session, self.shape = session, shape
        self.heads, self.key_heads = shape.heads // session.ranks, shape.kv_heads // session.ranks
        # [S, heads, D] in memory, as the projections before it leave them, and seen by PyTorch as [1, heads, S, D].
        self.q, self.k, self.v = (
            session.randn(shape.sequence, heads, shape.head_dim).transpose(0, 1).unsqueeze(0)
            for heads in (self.heads, self.key_heads, self.key_heads)
        )
        count = min(shape.sequence, SAMPLED_ROWS)
        rows = torch.linspace(0, shape.sequence - 1, count, dtype=torch.float64).round().long().unique()
        self.rows = rows.to(session.device)
        self.expected = self._attend()  # [rows, heads, D]

    def _attend(self):
        """The sampled rows in fp32, head by head: those of all heads at once would not fit beside the operands."""
        places = torch.arange(self.shape.sequence, device=self.session.device)
        heads = []
        for head in range(self.heads):
            key_head = head // (self.heads // self.key_heads)
            scores = self.q[0, head, self.rows].float() @ self.k[0, key_head].float().t()
            scores *= self.shape.head_dim**-0.5
            if self.shape.causal:
                scores.masked_fill_(places > self.rows[:, None], float("-inf"))
            heads.append(scores.softmax(-1) @ self.v[0, key_head].float())
        return torch.stack(heads, 1)

    def check(self, result):
        """Of [S, its heads, D] on the rank that computed it."""
        expect_close(result[self.rows], self.expected)

    def check_of_owner(self, computed):
        """Of [S/R, all heads, D] on the rank that owns the rows, if each rank has computed these [rows, its heads, D].
        Collective."""
        session = self.session
        of_ranks = [torch.empty_like(computed) for _ in range(session.ranks)]
        dist.all_gather(of_ranks, computed.contiguous())
        block = self.shape.sequence // session.ranks
        owned = self.rows // block == session.rank
        expected, rows = torch.cat(of_ranks, 1)[owned], self.rows[owned] - session.rank * block
        return lambda result: expect_close(result[rows], expected)


def expect_close(result, expected):
    """Rows with many keys have small values: every row is brought to unit variance first."""
    scale = expected.square().mean((1, 2), keepdim=True).rsqrt()
    common.expect_close(result.float() * scale, expected * scale, 1)


def attention(backend, q, k, v, causal, grouped):
    """[S, heads, D], without a copy where the library's result is laid out like its queries."""
    with sdpa_kernel([backend]):
        result = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
    return result[0].transpose(0, 1)


def repeated(inputs, backend):
    """Grouped-query by a copy of keys and values for each head of queries: for libraries that cannot do without."""
    group = inputs.heads // inputs.key_heads
    k, v = (tensor.repeat_interleave(group, 1) for tensor in (inputs.k, inputs.v))
    return attention(backend, inputs.q, k, v, inputs.shape.causal, False)


def ways_to_attend(inputs, variant):
    """{algorithm: call}"""
    shape, backend = inputs.shape, BACKENDS[variant]
    grouped = shape.kv_heads != shape.heads
    operands = (inputs.q, inputs.k, inputs.v)
    ways = {"sdpa": functools.partial(attention, backend, *operands, shape.causal, grouped)}
    if grouped:
        ways["sdpa repeated keys"] = functools.partial(repeated, inputs, backend)
    return ways


def side_by_side(received, out):
    """[R, S/R, H/R, D], as NCCL leaves it, to [S/R, R, H/R, D]: the layout that the next projection reads."""
    out.copy_(received.transpose(0, 1))
    return out.view(out.shape[0], -1, out.shape[3])


def exchange(send, received, out):
    dist.all_to_all_single(received, send)
    return side_by_side(received, out)


def attend_and_exchange(attend, send, received, out):
    """Results are blocks of consecutive rows already; only a registered window (`send`) needs them copied."""
    result = attend()
    if send is None:
        return exchange(result.contiguous().view(received.shape), received, out)
    send.view(result.shape).copy_(result)
    return exchange(send, received, out)


def exchanges(session, inputs):
    """Candidates that communicate, in each kind of memory that NCCL tells apart."""
    shape, ranks = inputs.shape, session.ranks
    blocks = (ranks, shape.sequence // ranks, inputs.heads, shape.head_dim)
    ready = session.randn(*blocks)
    check_moved = inputs.check_of_owner(ready.view(-1, *blocks[2:])[inputs.rows].float())
    check = inputs.check_of_owner(inputs.expected)
    out = torch.empty(blocks[1], ranks, *blocks[2:], dtype=torch.bfloat16, device=session.device)
    for kind, arena in session.arenas.items():
        send, received = arena.take(*blocks), arena.take(*blocks)
        send.copy_(ready)
        call = functools.partial(exchange, send, received, out)
        yield common.Candidate("nccl_all_to_all", kind, call, check_moved, [received, out])
        packed = arena.take(*blocks) if kind == "window" else None
        for algorithm, attend in ways_to_attend(inputs, "cudnn").items():
            call = functools.partial(attend_and_exchange, attend, packed, received, out)
            yield common.Candidate("cudnn_nccl", f"{kind}, {algorithm}", call, check, [received, out])


def xstage_problem(shape, ranks):
    """What one rank computes; it knows of no other."""
    return {
        **{"rows": shape.sequence, "heads": shape.heads // ranks, "kv_heads": shape.kv_heads // ranks},
        **{"head_dim": shape.head_dim, "causal": shape.causal},
    }


def xstage_attention(session, inputs):
    """This library's kernel, on a heap of one rank."""
    import xstage

    problem = xstage_problem(inputs.shape, session.ranks)
    heap = xstage.PeerAccessHeap([session.rank], xstage.Attention.heap_bytes(1, **problem))
    attend = xstage.Attention(heap, 0, **problem)
    q, k, v = (tensor.transpose(1, 2) for tensor in (inputs.q, inputs.k, inputs.v))  # as they are in memory
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    return common.Candidate("xstage_attention", "xstage", lambda: attend(q, k, v, out)[0], inputs.check, [out])


def candidates_of(session, shape, with_xstage):
    inputs = Inputs(session, shape)
    for variant in BACKENDS:
        for algorithm, call in ways_to_attend(inputs, variant).items():
            yield common.Candidate(variant, algorithm, call, inputs.check)
    if with_xstage:
        yield xstage_attention(session, inputs)
    if session.ranks > 1:
        yield from exchanges(session, inputs)


def rows_of_cell(shape, ranks, candidates):
    """One row a variant."""
    cudnn_us = None
    for variant in dict.fromkeys(candidate.variant for candidate in candidates):
        timing = common.timing_fields([candidate for candidate in candidates if candidate.variant == variant])
        row = {**shape._asdict(), "dtype": "bf16", "ranks": ranks, "variant": variant}
        if variant != "nccl_all_to_all":  # which computes nothing
            row["tflops"] = round(1e-6 * shape.operations() / ranks / timing["microseconds"], 2)
        if variant == "cudnn":
            cudnn_us = timing["trials_us"]
        if variant == "xstage_attention" and cudnn_us:
            row.update(common.ratio_fields(RATIO, timing["trials_us"], cudnn_us))
        yield {**row, **timing}


def in_readme(shape, ranks):
    return shape.sequence in SUSTAINED_SEQUENCES and shape == Shape(shape.sequence, 12 * ranks, 12 * ranks)


def line_of(shape, row):
    rate = f"{row['tflops']:6.1f} TFLOP/s" if "tflops" in row else " " * 14
    return (
        f"{shape.text():22}R={row['ranks']} {row['variant']:16}{row['microseconds']:9.1f} us "
        f"[{row['p5']:.1f}, {row['p95']:.1f}] {rate}, eager {row['eager_us']:.1f} us, {row['algorithms_us']}"
    )


def ratio_line(shape, row):
    low, high = row[RATIO + "_low"], row[RATIO + "_high"]
    interval = "no interval" if low is None else f"[{low:.3f}, {high:.3f}]"
    return f"{shape.text():22}R={row['ranks']} {row['variant']} / cudnn {row[RATIO]:.3f} {interval}"


def header(options, failures):
    return {
        "schema": "xstage.bench/1",
        "code": common.code_of_kernels("attention.cu") if options.xstage else {},
        "bench": "attention-baselines",
        "hardware": common.hardware(options.ranks),
        "commit": options.commit,
        "command": shlex.join(["python3", *sys.argv]),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "software": {
            "torch": torch.__version__,
            "cudnn": torch.backends.cudnn.version(),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        },
        **common.TIMING,
        "failed": failures,
    }


def work(rank, ranks, port, limit, options):
    """One rank: every cell in turn. Rank 0 writes the file, anew after each cell."""
    # Bytes: what is sent twice, once packed by the attention, and what is received.
    arena = 3 * max(2 * shape.sequence * shape.heads * shape.head_dim // ranks for shape in options.cells)
    session = common.Session(rank, ranks, port, limit, arena + 3 * common.ALIGNMENT if ranks > 1 else 0, 0)
    head, rows = header(options, session.failures) if rank == 0 else {}, []
    for shape in options.cells:
        name = f"attention {shape.text()}"
        try:
            candidates = session.agreed(lambda: list(candidates_of(session, shape, options.xstage)))
            sustained = SUSTAINED_VARIANTS if options.sustained and in_readme(shape, ranks) else ()
            measured = common.measure(session, name, candidates, options.trials, sustained)
            for row in rows_of_cell(shape, ranks, measured):
                session.say(line_of(shape, row))
                if RATIO in row:
                    session.say(ratio_line(shape, row))
                rows.append(row)
        except common.CandidateFailed as error:
            session.fail(f"{name}: {error}")
        candidates = None
        session.release()
        if rank == 0:
            common.write_results(options.output, head, rows)
    common.finish(session, rows)


def table(shapes, ranks):
    """The shapes of "full", "extra" or, both, "table"."""
    full = [Shape(s, h * ranks, h * ranks) for h in HEADS_OF_A_RANK for s in SEQUENCES]
    extra = []
    for heads in (of_a_rank * ranks for of_a_rank in HEADS_OF_A_RANK):
        for sequence in EXTRA_SEQUENCES:
            extra.append(Shape(sequence, heads, heads, head_dim=64))
            extra.append(Shape(sequence, heads, heads, causal=True))
            extra.append(Shape(sequence, heads, heads // 4))
    return {"full": full, "extra": extra, "table": full + extra}[shapes]


def parsed_shape(text):
    number = r"[1-9]\d{0,8}"
    match = re.fullmatch(rf"({number})x({number})((?::d{number}|:causal|:kv{number})*)", text)
    words = match[3].split(":")[1:] if match else []
    kinds = [re.sub(r"\d", "", word) for word in words]
    if not match or len(set(kinds)) < len(kinds):
        raise ValueError(f"--shapes: '{text}' is not {SHAPES_HELP}")
    numbers = {kind: int(word.removeprefix(kind)) for kind, word in zip(kinds, words) if kind != "causal"}
    sequence, heads = int(match[1]), int(match[2])
    return Shape(sequence, heads, numbers.get("kv", heads), numbers.get("d", 128), "causal" in kinds)


def parsed_cells(shapes, ranks):
    """Shapes, none twice; ValueError says which rule is broken."""
    named = shapes in ("table", "full", "extra")
    cells = table(shapes, ranks) if named else list(map(parsed_shape, shapes.split(",")))
    for shape in cells:
        for name in ("sequence", "heads", "kv_heads"):
            if getattr(shape, name) % ranks:
                raise ValueError(f"{shape.text()}: {name} is not a multiple of the {ranks} ranks")
        if shape.heads % shape.kv_heads:
            raise ValueError(f"{shape.text()}: heads is not a multiple of kv_heads")
    return list(dict.fromkeys(cells))


def check_xstage(cells, ranks):
    """ImportError without the package; ValueError for a shape that its attention does not have."""
    import xstage

    for shape in cells:
        try:
            xstage.Attention.heap_bytes(1, **xstage_problem(shape, ranks))
        except ValueError as error:
            raise ValueError(f"--xstage: {shape.text()}: {error}") from error


def main():
    gpus = torch.cuda.device_count()
    parser = argparse.ArgumentParser(description="PyTorch baselines of attention and its all-to-all.")
    parser.add_argument("--shapes", default="table", help=f"{SHAPES_HELP},...; default: %(default)s")
    parser.add_argument("--xstage", action="store_true", help="measure this library's attention, too")
    common.add_run_options(parser, gpus, 400.0)
    options = common.checked_options(parser, gpus)
    try:
        options.cells = parsed_cells(options.shapes, options.ranks)
        if options.xstage:
            check_xstage(options.cells, options.ranks)
    except ValueError as error:
        parser.error(str(error))
    except ImportError as error:
        parser.error(f"--xstage needs the package xstage on PYTHONPATH (python/build_module.sh): {error}")
    common.run(work, options)


if __name__ == "__main__":
    main()
