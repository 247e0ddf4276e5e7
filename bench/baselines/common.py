"""What the PyTorch baselines share: one process a GPU under a watchdog, NCCL and symmetric memory, fair timing."""

import dataclasses
import datetime
import faulthandler
import gc
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable

# NVLink multicast stays off unless the user has asked for it; both libraries read this before their first use.
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

import numpy  # noqa: E402  (after the environment)
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed._symmetric_memory as symmetric_memory  # noqa: E402  (defines torch.ops.symm_mem.fused_*)
import torch.multiprocessing  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import fingerprints  # noqa: E402

EAGER_CALLS = 10
REST_SECONDS = 0.015  # before each trial, as `xstage bench` does
TRIAL_US = 4000.0
REPLAYS = (2, 400)  # least and most calls in a graph; a trial is one graph
ESTIMATE_CALLS = 3
SUSTAINED_SECONDS = 2.0
PIECE_US = 50000.0  # of sustained replays: the host waits for one such piece while the next one runs
HEAD_START_CYCLES = 600_000  # about 0.3 ms of a Hopper GPU
PATIENCE_SECONDS = 30.0  # of one rank for another
ALIGNMENT = 2 << 20


class CandidateFailed(RuntimeError):
    """One candidate cannot be measured; the others can."""


@dataclasses.dataclass
class Candidate:
    """One way to do an operation. The fastest candidate of a variant is the one that is reported."""

    variant: str
    algorithm: str
    call: Callable[[], torch.Tensor]  # enqueues the whole operation on the current stream
    check: Callable[[torch.Tensor], None]  # raises if the result is wrong; no collectives
    overwritten: list = dataclasses.field(default_factory=list)  # buffers that the call fills: NaN before the check
    captured: bool = True  # False: a call needs the host, no graph can have it; it returns the same buffer each time
    eager_us: float = 0.0
    replays: int = REPLAYS[0]  # calls in one graph
    sustained_us: float | None = None
    trials_us: list = dataclasses.field(default_factory=list)


def _first_line(error):
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"


class Arena:
    """Buffers cut from one allocation that outlives every graph: NCCL keeps the addresses that it registered for one,
    and symmetric memory needs equal offsets on all ranks, which an allocator that reuses blocks does not promise."""

    def __init__(self, memory):
        self.memory, self.used = memory, 0

    def take(self, *shape):
        end = self.used + 2 * math.prod(shape)  # bf16
        if end > self.memory.numel():
            raise RuntimeError(f"buffer {shape} ends at {end}, but the arena has {self.memory.numel()} bytes")
        taken = self.memory[self.used : end].view(torch.bfloat16).view(shape)
        self.used = math.ceil(end / ALIGNMENT) * ALIGNMENT
        return taken


class Session:
    """One rank: its GPU, process group and buffers, and agreement with the other ranks through a key-value store."""

    def __init__(self, rank, ranks, port, limit, arena_bytes, symmetric_bytes):
        faulthandler.dump_traceback_later(max(limit - 5, 1))  # where a rank hangs, before the watchdog ends it
        self.rank, self.ranks, self._round, self.failures = rank, ranks, 0, []
        self.device = torch.device("cuda", rank)
        torch.cuda.set_device(self.device)
        torch.set_float32_matmul_precision("highest")  # references are plain fp32
        timeout = datetime.timedelta(seconds=limit)
        store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timeout, wait_for_workers=False)
        self._store = dist.PrefixStore("agreement", store)
        # With device_id the communicator exists from the start, which the registration of windows requires.
        dist.init_process_group(
            "nccl", store=store, rank=rank, world_size=ranks, timeout=timeout, device_id=self.device
        )
        # A rank that failed alone leaves the others in an endless collective: the run then ends well before its limit.
        self._store.set_timeout(datetime.timedelta(seconds=min(limit, PATIENCE_SECONDS)))
        self.group = dist.group.WORLD.group_name
        self._own = torch.Generator(self.device).manual_seed(1 + rank)
        self._shared = torch.Generator(self.device).manual_seed(1000)
        self._token = torch.zeros(1, device=self.device)
        self.barrier()
        torch.cuda.synchronize()
        self.arenas = {"plain": Arena(torch.empty(arena_bytes, dtype=torch.uint8, device=self.device))}
        if ranks > 1:  # NCCL moves nothing within one rank
            try:
                self.arenas["window"] = Arena(self.agreed(lambda: self._registered_window(arena_bytes)))
            except CandidateFailed as error:
                self.fail(f"registered windows for NCCL: {error}")
        self.symmetric = Arena(self._symmetric_memory(symmetric_bytes)) if symmetric_bytes > 0 else None

    def _registered_window(self, size):
        backend = dist.group.WORLD._get_backend(self.device)
        self._pool = torch.cuda.MemPool(backend.mem_allocator)  # ncclMemAlloc
        with torch.cuda.use_mem_pool(self._pool):
            memory = torch.empty(size, dtype=torch.uint8, device=self.device)
        backend.register_mem_pool(self._pool, symm=True)
        return memory

    def _symmetric_memory(self, size):
        memory = symmetric_memory.empty(size, dtype=torch.uint8, device=self.device)
        symmetric_memory.rendezvous(memory, self.group)
        return memory

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def fail(self, text):
        self.failures.append(text)
        self.say(f"failed: {text}")

    def gather(self, value):
        """The values of all ranks in rank order; also a barrier of the hosts."""
        self._round += 1
        self._store.set(f"{self._round}/{self.rank}", json.dumps(value))
        return [json.loads(self._store.get(f"{self._round}/{rank}")) for rank in range(self.ranks)]

    def agreed(self, action):
        """The action's value if it succeeds on every rank, else CandidateFailed on every rank."""
        value, reason = None, None
        try:
            value = action()
            torch.cuda.synchronize()
        except Exception as error:  # whatever a library raises: the other ranks must learn of it
            reason = _first_line(error)
            while error.__context__ is not None:  # a failed capture hides its cause behind a second error
                error = error.__context__
                reason = f"{_first_line(error)}, then {reason}"
        try:
            reasons = self.gather(reason)
        except RuntimeError as error:
            raise RuntimeError(f"rank {self.rank}: {reason or 'no failure here'}; another rank is stuck") from error
        if any(reasons):
            raise CandidateFailed("; ".join(f"rank {rank}: {why}" for rank, why in enumerate(reasons) if why))
        return value

    def barrier(self):
        """Of the GPUs: what is enqueued after it starts on all ranks together."""
        dist.all_reduce(self._token)

    def randn(self, *shape, scale=1.0, shared=False):
        """Random bf16; `shared` means the same values on all ranks."""
        generator = self._shared if shared else self._own
        return torch.randn(shape, dtype=torch.bfloat16, device=self.device, generator=generator).mul_(scale)

    def release(self):
        """After the last reference to graphs and tensors; all ranks together, as peers read each other's memory."""
        gc.collect()
        self.barrier()  # NCCL lets go of destroyed graphs when it is called next
        torch.cuda.synchronize()
        self.gather(None)
        torch.cuda.empty_cache()
        for arena in (*self.arenas.values(), self.symmetric):
            if arena is not None:
                arena.used = 0


def expect_close(result, expected, ranks):
    """Bf16 against fp32, both of unit variance: every rank's partial sum and every addition may be rounded once."""
    if expected.numel() == 0:
        return  # none of the sampled rows is here
    difference = result.float() - expected
    relative = (difference.square().mean() / expected.square().mean()).sqrt().item()
    largest = difference.abs().max().item()
    if not (relative <= 0.003 * (ranks + 1) and largest <= 0.04 * (ranks + 1)):  # this way round, NaN fails
        raise ValueError(f"wrong result: relative RMS error {relative:.3g}, largest error {largest:.3g}")


def _elapsed_us(session, call, count):
    """Microseconds a call on this rank, all ranks starting together."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    session.barrier()
    start.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1000.0 / count


def _replay_us(session, graph):
    """Microseconds of one replay."""
    # Long products are bound by power, and the clock should not depend on what ran before.
    time.sleep(REST_SECONDS)
    torch.cuda._sleep(HEAD_START_CYCLES)  # meanwhile the host enqueues, so that no replay waits for its launch
    return _elapsed_us(session, graph.replay, 1)


def _sustained_us(session, candidate, graph):
    """Microseconds of a call on this rank, in the second half of replays back to back, without rests."""
    graph_us = max(session.gather(float(numpy.median(candidate.trials_us)) * candidate.replays))
    replays = max(1, round(PIECE_US / graph_us))
    pieces = max(4, math.ceil(SUSTAINED_SECONDS * 1e6 / (graph_us * replays)))
    ends = []
    session.barrier()
    for piece in range(pieces):
        for _ in range(replays):
            graph.replay()
        ends.append(torch.cuda.Event(enable_timing=True))
        ends[-1].record()
        if piece > 0:
            ends[piece - 1].synchronize()
    ends[-1].synchronize()
    half = pieces // 2
    return ends[half].elapsed_time(ends[-1]) * 1000.0 / ((pieces - half - 1) * replays * candidate.replays)


def _capture(call, calls):
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        # thread_local: NCCL's watchdog thread may query its events meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(calls):
                result = call()
    finally:
        torch.cuda.set_stream(stream)  # a failed capture leaves its own stream current
    return graph, result


class _Calls:
    """In place of a graph, for calls that need the host."""

    def __init__(self, call, calls):
        self.call, self.calls = call, calls

    def replay(self):
        for _ in range(self.calls):
            self.call()


def _recorded(candidate, calls):
    """(what replays so many of the candidate's calls, their result)"""
    if candidate.captured:
        return _capture(candidate.call, calls)
    return _Calls(candidate.call, calls), candidate.call()


def _prepare(session, candidate):
    """(graph, its result), warm and checked: as many calls as make a trial. Sets that number and the eager time."""
    # Eager calls first: libraries connect and allocate in them, which they cannot do in a capture.
    session.agreed(lambda: [candidate.call() for _ in range(2)])
    candidate.eager_us = max(session.gather(_elapsed_us(session, candidate.call, EAGER_CALLS)))
    graph, result = session.agreed(lambda: _recorded(candidate, ESTIMATE_CALLS))
    session.agreed(graph.replay)
    estimate = max(session.gather(_replay_us(session, graph))) / ESTIMATE_CALLS
    candidate.replays = min(max(round(TRIAL_US / estimate), REPLAYS[0]), REPLAYS[1])
    del graph, result  # its memory serves the next one
    session.barrier()  # NCCL lets go of destroyed graphs when it is called next
    graph, result = session.agreed(lambda: _recorded(candidate, candidate.replays))
    session.agreed(lambda: [buffer.fill_(float("nan")) for buffer in (*candidate.overwritten, result)])
    session.agreed(graph.replay)
    session.agreed(lambda: candidate.check(result))
    return graph, result


def fastest(candidates):
    """Of one variant's candidates."""
    return min(candidates, key=lambda candidate: float(numpy.median(candidate.trials_us)))


def measure(session, name, candidates, trials, sustained=()):
    """The candidates that work, with their trials: these alternate, and each is the maximum over ranks. The fastest
    candidate of each variant in `sustained` has a sustained figure, too."""
    prepared = []
    for candidate in candidates:
        try:
            prepared.append((candidate, *_prepare(session, candidate)))
        except CandidateFailed as error:
            session.fail(f"{name} {candidate.variant} {candidate.algorithm}: {error}")
            torch.cuda.synchronize()  # raises if the CUDA context is lost: nothing can follow then
    for trial in range(trials + 1):  # the first warms up
        first = trial % max(len(prepared), 1)
        for candidate, graph, _ in prepared[first:] + prepared[:first]:
            candidate.trials_us.append(_replay_us(session, graph) / candidate.replays)
    for candidate, _, _ in prepared:
        of_ranks = session.gather(candidate.trials_us[1:])
        candidate.trials_us = [round(max(of_trial), 3) for of_trial in zip(*of_ranks)]
    working = [candidate for candidate, _, _ in prepared]
    for variant in sustained:
        of_variant = [candidate for candidate in working if candidate.variant == variant]
        if of_variant:  # trials are the same on all ranks, so that all choose the same
            best = fastest(of_variant)
            graph = next(graph for candidate, graph, _ in prepared if candidate is best)
            best.sustained_us = round(max(session.gather(_sustained_us(session, best, graph))), 3)
    return working


def timing_fields(candidates):
    """Of one variant's candidates: the times of the fastest, and the medians of all."""
    medians = {candidate.algorithm: round(float(numpy.median(candidate.trials_us)), 3) for candidate in candidates}
    best = fastest(candidates)
    p5, p95 = (round(float(value), 3) for value in numpy.percentile(best.trials_us, (5, 95)))
    return {
        **{"algorithm": best.algorithm, "microseconds": medians[best.algorithm], "p5": p5, "p95": p95},
        **({} if best.sustained_us is None else {"sustained_us": best.sustained_us}),
        **{"eager_us": round(best.eager_us, 3), "replays": best.replays, "algorithms_us": medians},
        **{"trials": len(best.trials_us), "trials_us": best.trials_us},
    }


TIMING = {
    "timing": f"one CUDA graph of `replays` calls, or as many eager calls where `algorithm` says so, on the same buffers "
    f"(what fits stays in L2); trials of a cell alternate, each on a GPU that has rested for {1000 * REST_SECONDS:g} ms",
    "rest_ms": 1000 * REST_SECONDS,
    "multicast": "off",
    "sustained": f"sustained_us, of chosen rows: the same graphs back to back without rests for {SUSTAINED_SECONDS:g} s, "
    "the second half of them",
}


def paired_ratio(numerators, denominators):
    """(ratio, low, high): the median of what each round says, and the sign test's 95% interval of that median.

    Value i of both comes from round i, so that what clocks and power did in that round cancels. The interval holds for
    any distribution; fewer than 6 rounds have none (None). As paired_ratio in src/bench/statistics.cpp.
    """
    if len(numerators) != len(denominators) or not numerators:
        raise ValueError(f"{len(numerators)} numerators, {len(denominators)} denominators: as many, at least one")
    ratios = sorted(numerator / denominator for numerator, denominator in zip(numerators, denominators))
    cut, below = 0, 0.0
    while cut < len(ratios):  # the most values that can be cut off at either end: 2 P(X < cut) <= 5% for coin tosses
        below += math.comb(len(ratios), cut) / 2 ** len(ratios)
        if 2 * below > 0.05:
            break
        cut += 1
    median = float(numpy.median(ratios))
    return (median, ratios[cut - 1], ratios[-cut]) if cut else (median, None, None)


def ratio_fields(name, numerators, denominators):
    """Of a row: the paired ratio of two variants' trials."""
    values = paired_ratio(numerators, denominators)
    return {name + end: value and round(value, 5) for end, value in zip(("", "_low", "_high"), values)}


def _nvidia_smi(*arguments):
    try:
        return subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def hardware(ranks):
    links = re.findall(r"Link \d+: ([\d.]+) GB/s", _nvidia_smi("nvlink", "--status", "-i", "0"))
    fields = _nvidia_smi("--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader,nounits", "-i", "0")
    known = re.fullmatch(r"([\d.]+), (\d+)", fields)
    return {
        "gpus": [torch.cuda.get_device_name(rank) for rank in range(ranks)],
        "links": f"{len(links)} NVLink, {float(links[0]):.2f} GB/s each" if links else "unknown",
        "driver": known[1] if known else "unknown",
        "cuda": torch.version.cuda,
        "clocks_mhz": float(known[2]) if known else None,
    }


def code_of_kernels(source):
    """Of a file that measures a kernel of this library, too: tokens of that kernel's source, which the header's `code`
    then has."""
    tokens = fingerprints.source_tokens(pathlib.Path(__file__).resolve().parents[2])
    return {"kernel_tokens": {source: next(tokens[path] for path in tokens if path.endswith(f"/{source}"))}}


def write_results(path, header, rows):
    """One row a line; never half a file. Adds what scripts/check_results.py compares."""
    rows = json.loads(json.dumps(list(rows)))  # as a reader will see them
    code = {"baseline": fingerprints.script_tokens(pathlib.Path(sys.argv[0])), **header.get("code", {})}
    header = {**header, "code": code, "complete": False, "rows_hash": fingerprints.rows_hash(rows)}
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    head = json.dumps(header, indent=1).removesuffix("\n}")
    temporary = path.with_name(path.name + ".temporary")
    temporary.write_text(f'{head},\n "rows": [\n  {lines}\n ]\n}}\n', encoding="utf-8")
    os.replace(temporary, path)


def launch(worker, ranks, limit, options):
    """Runs worker(rank, ranks, port, limit, options) in one process a rank. Raises if one fails or time runs out."""
    timeout = datetime.timedelta(seconds=limit)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=timeout, wait_for_workers=False)
    deadline = time.monotonic() + limit
    workers = torch.multiprocessing.spawn(worker, (ranks, store.port, limit, options), nprocs=ranks, join=False)
    try:
        while not workers.join(timeout=0.5, grace_period=3):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not finished after {limit:g} s (--limit)")
    finally:
        for process in workers.processes:
            if process.is_alive():
                process.kill()


def add_run_options(parser, gpus, limit):
    """What every baseline takes; `checked_options` reads them."""
    parser.add_argument("--trials", type=int, default=7, help="at least 6 for intervals")
    parser.add_argument("--sustained", action="store_true", help="also figures without rests, of the README's rows")
    parser.add_argument("--ranks", type=int, default=gpus, help="default: all GPUs")
    parser.add_argument("--limit", type=float, default=limit, help="seconds until all is stopped, %(default)s")
    parser.add_argument("--commit", default="unknown", help="of the tree that the baselines stand beside")
    parser.add_argument("--output", type=pathlib.Path, required=True)


def checked_options(parser, gpus, least_ranks=1):
    options = parser.parse_args()
    if not least_ranks <= options.ranks <= gpus:
        least = f"at least {least_ranks} and " if least_ranks > 1 else ""
        parser.error(f"--ranks {options.ranks}: needs {least}a GPU for each; {gpus} are visible")
    if options.trials < 1 or options.limit <= 0 or not options.output.resolve().parent.is_dir():
        parser.error("--trials and --limit must be positive, and the folder of --output must exist")
    return options


def run(worker, options):
    """launch(), whose failure ends the program with its reason. A file of a run that came to its end says so."""
    try:
        launch(worker, options.ranks, options.limit, options)
        text = options.output.read_text(encoding="utf-8")
        options.output.write_text(text.replace('"complete": false', '"complete": true', 1), encoding="utf-8")
    except Exception as error:  # of a worker, with its traceback, or of the watchdog
        sys.exit(f"error: {error}\nfinished cells, if any, are in {options.output}")


def finish(session, rows):
    """The end of a worker. All is on disk: to take NCCL and the mappings of peers' memory down in order gains nothing,
    and it can hang."""
    session.gather(None)
    os._exit(0 if rows else 1)
