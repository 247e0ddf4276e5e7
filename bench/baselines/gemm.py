#!/usr/bin/env python3
"""GEMM fused with collectives, as a PyTorch user can have it: the baselines of bench/results/gemm-*.json.

    python3 bench/baselines/gemm.py --ops reduce_scatter,all_gather --shapes all --commit HASH --output FILE

One process a GPU, bf16, weights as nn.Linear stores them ([N, K]). M, N, K are of the whole problem on R ranks:

    reduce_scatter  A[M, K/R] x W[N, K/R]^T, summed over ranks, M/R rows to each rank
    all_gather      A[M/R, K] gathered to [M, K], x W[N/R, K]^T
    all_reduce      A[M, K/R] x W[N, K/R]^T, summed over ranks, all of it to every rank
    all_to_all      A[M/R, K] x W[N, K]^T is q, k, v of all heads (N = 3 x heads x 128); [M, heads/R, 128] to every rank

Variants: `cublas` (op "gemm": one rank's product alone), `nccl_serial` (product and NCCL one after the other),
`torch_fused` (torch's symmetric-memory operations). Where a variant can be had in several ways, the fastest is
reported: `algorithm` names it, `algorithms_us` has all. NCCL: on plain buffers, or registered as symmetric windows.
"""

import argparse
import datetime
import functools
import re
import shlex
import sys

import common
import torch
import torch.distributed as dist

HEAD_DIMENSION = 128
SAMPLED_ROWS = 16
TENSOR_PARALLEL_SHAPES = [
    *((2048, 4096, 4096), (4096, 4096, 8192), (8192, 8192, 8192)),
    *((8192, 8192, 28672), (16384, 5120, 13824), (32768, 5120, 13824)),
]
HEAD_SHAPES = [(m, 3 * hidden, hidden) for m, hidden in ((4096, 3072), (4096, 5120), (16384, 3072), (16384, 5120))]
SHAPES = {  # the first two of each are `small`
    "reduce_scatter": TENSOR_PARALLEL_SHAPES,
    "all_gather": TENSOR_PARALLEL_SHAPES,
    "all_reduce": [(m, 8192, 8192) for m in (16, 64, 256, 1024)],
    "all_to_all": [*HEAD_SHAPES, (65536, 15360, 5120)],
}


# Rows that the README shows: see in_readme of src/ops/gemm/bench/rows.cpp.
SUSTAINED_CELLS = [(op, shape) for op in ("reduce_scatter", "all_gather") for shape in TENSOR_PARALLEL_SHAPES[3:]]
SUSTAINED_VARIANTS = ("nccl_serial", "torch_fused")


class Reference:
    """Some rows of the result in fp32, the first and the last of the M rows among them."""

    def __init__(self, session, m):
        rows = torch.linspace(0, m - 1, min(m, SAMPLED_ROWS), dtype=torch.float64).round().long().unique()
        self.rows, self.ranks, block = rows.to(session.device), session.ranks, max(m // session.ranks, 1)
        self.owned = self.rows // block == session.rank  # when the M rows are cut into one block a rank
        self.local = self.rows[self.owned] - session.rank * block

    def summed(self, a, w):
        """Rows of the sum of all ranks' products."""
        partial = a[self.rows].float() @ w.float().t()
        dist.all_reduce(partial)
        return partial

    def gathered(self, a, w):
        """Rows of the product of w and the matrix whose blocks are the ranks' a."""
        rows = torch.zeros(len(self.rows), a.shape[1], device=a.device)
        rows[self.owned] = a[self.local].float()
        dist.all_reduce(rows)
        return rows @ w.float().t()

    def check(self, expected, rows):
        return lambda result: common.expect_close(result[rows], expected, self.ranks)


def gemm_alone(session, a, w):
    y = torch.empty(a.shape[0], w.shape[0], dtype=a.dtype, device=a.device)
    reference = Reference(session, a.shape[0])
    check = reference.check(a[reference.rows].float() @ w.float().t(), reference.rows)
    return common.Candidate("cublas", "matmul", lambda: torch.mm(a, w.t(), out=y), check)


def nccl(session, call, check, *shapes, form=""):
    """call(*buffers) with buffers of these shapes in each kind of memory that NCCL tells apart."""
    for kind, arena in session.arenas.items():
        buffers = [arena.take(*shape) for shape in shapes]
        yield common.Candidate("nccl_serial", kind + form, functools.partial(call, *buffers), check, buffers)


def reduce_scatter(session, m, n, k):
    a = session.randn(m, k // session.ranks)
    w = session.randn(n, k // session.ranks, scale=k**-0.5)
    reference = Reference(session, m)
    check = reference.check(reference.summed(a, w)[reference.owned], reference.local)

    def serial(partial, out):
        torch.mm(a, w.t(), out=partial)
        dist.reduce_scatter_tensor(out, partial)
        return out

    def fused():
        return torch.ops.symm_mem.fused_matmul_reduce_scatter(a, w.t(), "sum", 0, session.group)

    yield gemm_alone(session, a, w)
    yield from nccl(session, serial, check, (m, n), (m // session.ranks, n))
    yield common.Candidate("torch_fused", "fused_matmul_reduce_scatter", fused, check)


def all_gather(session, m, n, k):
    a = session.randn(m // session.ranks, k)
    w = session.randn(n // session.ranks, k, scale=k**-0.5)
    reference = Reference(session, m)
    check = reference.check(reference.gathered(a, w), reference.rows)
    y = torch.empty(m, n // session.ranks, dtype=a.dtype, device=a.device)

    def serial(gathered):
        dist.all_gather_into_tensor(gathered, gathered.chunk(session.ranks)[session.rank])
        return torch.mm(gathered, w.t(), out=y)

    def fused():
        # Inference has no use for the gathered A; asking for it would cost one more copy.
        return torch.ops.symm_mem.fused_all_gather_matmul(a, [w.t()], 0, session.group, return_A=False)[1][0]

    yield gemm_alone(session, session.randn(m, k), w)
    for candidate in nccl(session, serial, check, (m, k)):
        # In place: the layer before would have written this rank's rows where they are gathered.
        blocks = list(candidate.overwritten[0].chunk(session.ranks))
        blocks.pop(session.rank).copy_(a)
        candidate.overwritten = blocks
        yield candidate
    yield common.Candidate("torch_fused", "fused_all_gather_matmul", fused, check)


def all_reduce(session, m, n, k):
    a = session.randn(m, k // session.ranks)
    w = session.randn(n, k // session.ranks, scale=k**-0.5)
    reference = Reference(session, m)
    check = reference.check(reference.summed(a, w), reference.rows)
    symmetric = session.symmetric.take(m, n)

    def serial(partial):
        torch.mm(a, w.t(), out=partial)
        dist.all_reduce(partial)
        return partial

    def fused(reduce):
        return reduce(torch.mm(a, w.t(), out=symmetric), "sum", session.group)

    yield gemm_alone(session, a, w)
    yield from nccl(session, serial, check, (m, n))
    for name in ("one_shot_all_reduce", "two_shot_all_reduce_"):
        call = functools.partial(fused, getattr(torch.ops.symm_mem, name))
        yield common.Candidate("torch_fused", name, call, check, [symmetric])


def all_to_all(session, m, n, k):
    ranks, block = session.ranks, m // session.ranks
    heads = (3, ranks, n // (3 * HEAD_DIMENSION * ranks), HEAD_DIMENSION)
    a = session.randn(block, k)
    w = session.randn(n, k, scale=k**-0.5, shared=True)
    w_of_rank = w.view(3, ranks, -1, k).transpose(0, 1).reshape(ranks, n // ranks, k)
    reference = Reference(session, m)
    expected = reference.gathered(a, w).view(-1, *heads)[:, :, session.rank]
    check = reference.check(expected, reference.rows)
    y = torch.empty(block, n, dtype=a.dtype, device=a.device)

    def exchange(send, received):
        dist.all_to_all_single(received, send)
        # q, k and v are slices of this: attention takes a stride between rows, so this side needs no copy.
        return received.view(m, 3, heads[2], HEAD_DIMENSION)

    def packed(send, received):
        """One product as it is in a model, then a copy that puts the heads of each destination together."""
        by_rank = torch.mm(a, w.t(), out=y).view(block, *heads).permute(2, 0, 1, 3, 4)
        send.view(by_rank.shape).copy_(by_rank)
        return exchange(send, received)

    def split(send, received):
        """Weights sorted by destination ahead of time: one product for each, straight into its block."""
        for destination in range(ranks):
            torch.mm(a, w_of_rank[destination].t(), out=send[destination])
        return exchange(send, received)

    yield gemm_alone(session, a, w)
    for form in (packed, split):
        blocks = (ranks, block, n // ranks)
        yield from nccl(session, form, check, blocks, blocks, form=f" {form.__name__}")


# Operation: its name in result files, its candidates, which dimensions it cuts into one part a rank, and which of them
# the product of one rank alone has cut.
OPS = {
    "reduce_scatter": ("gemm_reduce_scatter", reduce_scatter, "MK", "K"),
    "all_gather": ("all_gather_gemm", all_gather, "MN", "N"),
    "all_reduce": ("gemm_all_reduce", all_reduce, "K", "K"),
    "all_to_all": ("gemm_all_to_all", all_to_all, "MN", "M"),
}


def rows_of_cell(op, shape, ranks, candidates):
    """One row a variant."""
    name, _, _, cut = OPS[op]
    for variant in dict.fromkeys(candidate.variant for candidate in candidates):
        timing = common.timing_fields([candidate for candidate in candidates if candidate.variant == variant])
        key = (name, *shape, ranks, variant)
        if variant == "cublas":
            alone = (size // ranks if dimension == cut else size for dimension, size in zip("MNK", shape))
            key = ("gemm", *alone, 1, variant)
            timing = {"of": name, "of_shape": shape, "of_ranks": ranks, **timing}
        tflops = 2e-6 * shape[0] * shape[1] * shape[2] / ranks / timing["microseconds"]
        keys = dict(zip(("op", "m", "n", "k", "ranks", "variant"), key))
        yield {**keys, "dtype": "bf16", "tflops": round(tflops, 2), **timing}


def line_of(row):
    return (
        f"{row['op']:20}{row['m']:6} {row['n']:6} {row['k']:6} R={row['ranks']} {row['variant']:12}"
        f"{row['microseconds']:9.1f} us [{row['p5']:.1f}, {row['p95']:.1f}] {row['tflops']:6.1f} TFLOP/s,"
        f" eager {row['eager_us']:.1f} us, {row['algorithms_us']}"
    )


def header(options, failures):
    return {
        "schema": "xstage.bench/1",
        "bench": "gemm-baselines",
        "hardware": common.hardware(options.ranks),
        "commit": options.commit,
        "command": shlex.join(["python3", *sys.argv]),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "software": {"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version()))},
        **common.TIMING,
        "failed": failures,
    }


def work(rank, ranks, port, limit, options):
    """One rank: every cell in turn. Rank 0 writes the file, anew after each cell."""
    # Bytes: communication buffers hold at most 1.5 x M x max(N, K) elements; those of all_to_all's forms 2 x M x N.
    arena = max((4 if op == "all_to_all" else 3) * m * max(n, k) for op, (m, n, k) in options.cells)
    symmetric = max((2 * m * n for op, (m, n, k) in options.cells if op == "all_reduce"), default=0)
    session = common.Session(
        rank, ranks, port, limit, arena + 4 * common.ALIGNMENT, symmetric + common.ALIGNMENT
    )
    head, rows = header(options, session.failures) if rank == 0 else {}, {}
    for op, shape in options.cells:
        name = f"{OPS[op][0]} {'x'.join(map(str, shape))}"
        session.say(name)
        try:
            candidates = session.agreed(lambda: list(OPS[op][1](session, *shape)))
            sustained = SUSTAINED_VARIANTS if options.sustained and (op, shape) in SUSTAINED_CELLS else ()
            measured = common.measure(session, name, candidates, options.trials, sustained)
            for row in rows_of_cell(op, shape, ranks, measured):
                session.say(line_of(row))
                # A product that two operations have in common stays one row: keys are unique.
                rows.setdefault(tuple(row[name] for name in ("op", "m", "n", "k", "ranks", "variant")), row)
        except common.CandidateFailed as error:
            session.fail(f"{name}: {error}")
        candidates = None
        session.release()
        if rank == 0:
            common.write_results(options.output, head, rows.values())
    common.finish(session, rows)


def parsed_shape(text):
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){2}", text):
        raise ValueError(f"--shapes: '{text}' is not small, all or MxNxK")
    return tuple(map(int, text.split("x")))


def parsed_cells(ops, shapes, ranks):
    """[(operation, (m, n, k))]; ValueError says which rule is broken."""
    cells = []
    for op in ops.split(","):
        if op not in OPS:
            raise ValueError(f"--ops: '{op}' is not one of {', '.join(OPS)}")
        named = {"small": SHAPES[op][:2], "all": SHAPES[op]}
        for shape in named.get(shapes) or map(parsed_shape, shapes.split(",")):
            for dimension, size in zip("MNK", shape):
                divisor = ranks * (3 * HEAD_DIMENSION if (op, dimension) == ("all_to_all", "N") else 1)
                if dimension in OPS[op][2] and size % divisor:
                    raise ValueError(f"{op} on {ranks} ranks: {dimension} = {size} is not a multiple of {divisor}")
            cells.append((op, shape))
    return cells


def main():
    gpus = torch.cuda.device_count()
    parser = argparse.ArgumentParser(description="PyTorch baselines of GEMM fused with collectives.")
    parser.add_argument("--ops", default=",".join(OPS), help="%(default)s")
    parser.add_argument("--shapes", default="small", help="small, all, or MxNxK,...")
    common.add_run_options(parser, gpus, 200.0)
    options = common.checked_options(parser, gpus, 2)
    try:
        options.cells = parsed_cells(options.ops, options.shapes, options.ranks)
    except ValueError as error:
        parser.error(str(error))
    common.run(work, options)


if __name__ == "__main__":
    main()
