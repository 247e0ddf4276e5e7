"""The tables of docs/*.md that hold measured numbers: one function a table, from bench/results and profiles."""

import json

from results import (
    MISSING,
    Results,
    how_measured,
    microseconds,
    number,
    percent,
    quotient,
    software,
    table,
    with_note,
)

NODE = "h200x2"
PATHS = {"store4": "4-byte stores", "store8": "8-byte stores", "store16": "16-byte stores", "bulk": "bulk copies"}


def profile(repository):
    """What the profile of the node says of each store path."""
    platform = json.loads((repository / f"profiles/{NODE}.json").read_text(encoding="utf-8"))
    paths = {path["store_path"]: path for path in platform["paths"]}
    producers = platform["node"]["devices"][0]["multiprocessors"]

    def of(path, value):
        return value(paths[path]) if path in paths else MISSING

    def floor(path):
        return next((number(p["issue_us"], 2) for p in path["issue_floor"] if p["bytes_per_producer"] == 32768), MISSING)

    def capacity(path, value):
        return next((value(point) for point in path["capacity"] if point["producers"] == producers), MISSING)

    def mebibytes(point):
        value = point["capacity_bytes"]["value"]
        return number(None if value is None else value / 2**20, 2)

    quantities = {
        "drain rate R (GB/s)": lambda path: number(path["drain_gb_per_s"]["value"], 1),
        "one SM's own rate (GB/s)": lambda path: number(path["producer_drain_gb_per_s"]["value"], 1),
        "issue time without back-pressure, 32 KiB a CTA (µs)": floor,
        f"outstanding capacity Q, {producers} CTAs (MiB)": lambda path: capacity(path, mebibytes),
        f"knee of an aligned burst, {producers} CTAs (KiB a CTA)": lambda path: capacity(
            path, lambda point: number(point["knee_bytes_per_producer"] / 1024, 1)
        ),
    }
    rows = [[name] + [of(path, value) for path in PATHS] for name, value in quantities.items()]
    counted = platform["link_counter_ratio"]["value"]
    return (
        table(["", *PATHS.values()], rows)
        + f"\n\nThe link counters (NVML) saw {number(counted, 4)} bytes for each byte stored."
    )


def error_text(error, value):
    if value is None:
        return MISSING
    return f"{value:g}" if error["unit"] == "bursts" else percent(value)


def errors_of(error, prefix):
    """`median, worst of SAMPLES`, of the law or (`corrected_`) of the corrected prediction."""
    if not error:
        return MISSING
    median, worst = (error_text(error, error[f"{prefix}{name}_error"]) for name in ("median", "worst"))
    return MISSING if MISSING in (median, worst) else f"{median}, {worst} of {error[f'{prefix}samples']}"


def held_out(repository):
    """Every held-out quantity: the paper's law beside what corrects it."""
    results = Results(repository, f"calibration-{NODE}")
    paths = ("16-byte stores", "bulk copies")
    errors = {(error["group"], error["quantity"]): error for error in results.document["held_out_errors"]}
    kinds = dict.fromkeys((group.split(", ", 1)[1], quantity) for group, quantity in errors if group.startswith(paths))
    rows = []
    for of, quantity in kinds:
        both = [errors.get((f"{path}, {of}", quantity), {}) for path in paths]
        corrections = [error["correction"] for error in both if error.get("correction")]
        unit = " (bursts)" if any(error.get("unit") == "bursts" for error in both) else ""
        cells = [errors_of(error, prefix) for error in both for prefix in ("", "corrected_")]
        rows.append([of, quantity + unit, *cells, corrections[0] if corrections else MISSING])
    headings = [f"{path}: {which}" for path in paths for which in ("law", "corrected")]
    return (
        "The errors are on samples that the fit did not see. A cell has the median, the worst and the number of samples. *Law* means the "
        "paper's equations,\n*corrected* what this library adds to them where it adds something. "
        f"File: {results.source()}.\n\n"
        + table(["samples of", "error of", *headings, "corrected for"], rows)
    )


def regimes(repository):
    """One sentence: the same bursts, aligned and free-running."""
    results = Results(repository, f"calibration-{NODE}")
    key = {"variant": "remote", "path": "store16", "mode": "periodic", "producers": 132, "bytes": 65536, "held_out": True}
    aligned = [row for row in results.select(regime="aligned", **key) if row["requested_gap_us"] > 0]
    pairs = [(row, results.row(regime="free_running", requested_gap_us=row["requested_gap_us"], **key)) for row in aligned]
    pairs = [(one, other) for one, other in pairs if other]
    if not pairs:
        return MISSING
    together, apart = max(pairs, key=lambda pair: pair[0]["requested_gap_us"])
    return (
        "Producers that start together fill the X-Stage at once: "
        f"132 × 64 KiB issue in {number(together['issue_us'], 1)} µs aligned and in {number(apart['issue_us'], 1)} µs free-running,\n"
        f"both with a gap of {number(together['requested_gap_us'], 1)} µs. Both regimes are measured, predicted and audited."
    )


def simulated(repository):
    """How far the simulated preset is from the node that it stands for: fitted and held-out samples, mean and slowest."""
    results = Results(repository, f"calibration-{NODE}")
    distances = results.document["simulated"]["distances"]
    quantities = list(dict.fromkeys(distance["quantity"] for distance in distances))
    text = (
        "A cell has the median distance, the worst one and the number of samples. "
        f"File: {results.source()}, rows `simulated` beside `remote`."
    )
    for part, name in (("fitted", "samples that it was tuned on"), ("held_out", "held-out samples")):
        by_group = {}
        for distance in distances:
            if distance[f"{part}_samples"]:
                errors = f"{percent(distance[f'{part}_median'])}, {percent(distance[f'{part}_worst'])}"
                cell = f"{errors} of {distance[f'{part}_samples']}"
                by_group.setdefault(distance["group"], {})[distance["quantity"]] = cell
        rows = [[group, *(cells.get(quantity, MISSING) for quantity in quantities)] for group, cells in by_group.items()]
        text += "\n\n" + table([name, *quantities], rows)
    return text


GEMM_OPERATIONS = {
    "gemm_reduce_scatter": "`reduce_scatter`",
    "gemm_all_gather": "`all_gather`",
    "all_gather_gemm": "`all_gather`",
    "gemm_all_reduce": "`all_reduce`",
    "gemm_all_to_all": "`all_to_all` (Q, K, V)",
}


def gemm(repository):
    """Fused operations, over the GEMM alone, beside PyTorch's."""
    ours = Results(repository, f"gemm-{NODE}")
    baselines = Results(repository, f"gemm-baselines-{NODE}")

    def baseline(cell, variant):
        row = baselines.row(variant=variant, **cell)
        shape = [cell["m"], cell["n"], cell["k"]]
        product = baselines.row(variant="cublas", of=cell["op"], of_shape=shape, of_ranks=cell["ranks"])
        ratio = quotient(row.get("microseconds"), product.get("microseconds"))
        return with_note(microseconds(row), number(ratio, 2))

    rows = []
    for operation, name in GEMM_OPERATIONS.items():
        for row in ours.select(op=operation, variant="fused"):
            cell = {field: row[field] for field in ("op", "m", "n", "k", "ranks")}
            cells = [name, f"{row['m']} × {row['n']} × {row['k']}", with_note(microseconds(row), number(row.get("ratio"), 2))]
            rows.append(cells + [baseline(cell, variant) for variant in ("torch_fused", "nccl_serial")])
            name = ""
    text = (
        "A cell has the µs of one call, and in brackets their ratio to the GEMM alone: for `xstage` the faster of cuBLAS and its own GEMM, "
        f"for the baselines\nPyTorch's `matmul`. The baselines are those of {software(baselines)}: the fused operations of `symm_mem`, and `matmul`, then "
        "NCCL on plain or registered buffers, whichever is faster.\n"
    )
    headings = ["operation", "M × N × K of the whole problem", "xstage, fused", "PyTorch, fused", "`matmul`, then NCCL"]
    return text + how_measured(ours, baselines) + "\n\n" + table(headings, rows)


def gemm_alone(repository):
    """The product by itself against cuBLAS."""
    ours = Results(repository, f"gemm-{NODE}")
    rows = []
    for row in ours.select(op="gemm", variant="alone"):
        cublas = ours.row(op="gemm", variant="cublas", **{field: row[field] for field in ("m", "n", "k", "ranks")})
        if row["m"] == row["n"] == row["k"]:
            speed = quotient(cublas.get("microseconds"), row["microseconds"])
            rows.append([f"{row['m']}³", microseconds(row), microseconds(cublas), number(speed, 2)])
    version = ours.document.get("cublas", "")
    return how_measured(ours) + "\n\n" + table(["M × N × K", "xstage, alone (µs)", f"cuBLAS {version} (µs)", "cuBLAS over xstage"], rows)


def attention(repository):
    """Attention alone and fused with its all-to-all."""
    ours = Results(repository, f"attention-{NODE}")
    baselines = Results(repository, f"attention-baselines-{NODE}")
    names = {"cudnn": "cuDNN", "flash3": "FlashAttention-3"}
    compared = set()
    rows = []
    for alone in ours.select(variant="attention"):
        cell = {f: alone[f] for f in ("sequence", "heads", "kv_heads", "head_dim", "causal", "dtype", "ranks")}
        if alone["heads"] != 12 * alone["ranks"]:
            continue
        of = {variant: ours.row(variant=variant, **cell) for variant in ("fused", "fused_arrived", "local_twin", "serial")}
        fused = of["fused_arrived"] or of["fused"]
        paired = baselines.row(variant="xstage_attention", **cell)
        over_ours = {name: quotient(1, paired.get(f"ratio_to_{name}")) for name in names}
        compared |= {name for name in names if over_ours[name]}
        label = str(alone["sequence"])
        label += "" if alone["head_dim"] == 128 else f", d {alone['head_dim']}"
        label += ", causal" if alone["causal"] else ""
        label += "" if alone["kv_heads"] == alone["heads"] else f", {alone['kv_heads'] // alone['ranks']} key heads"
        rows.append(
            [
                label,
                microseconds(alone),
                number(alone.get("tflops"), 0),
                number(over_ours["cudnn"], 2),
                number(over_ours["flash3"], 2),
                with_note(microseconds(fused), number(fused.get("ratio"), 3)),
                number(of["local_twin"].get("ratio"), 3),
                microseconds(of["serial"]),
                microseconds(baselines.row(variant="cudnn_nccl", **cell)),
            ]
        )
    text = (
        "Every GPU has 12 heads in bf16; the head dimension is 128 and attention is full unless the row says otherwise. Times are µs of one call.\n"
        f"- {' and '.join(names[name] for name in names if name in compared) or 'others'}: the library's time divided by ours, from trials that alternate in one process.\n"
        "- fused: a call ends when the peers' results have arrived; the ratio to attention alone stands in brackets.\n"
        "- twin: the fused kernel with all its stores into local memory, divided by attention alone.\n"
        "- serial: our attention, then our all-to-all.\n"
        f"- cuDNN + NCCL: attention, layout copy and all-to-all, with {software(baselines)}.\n\n"
    )
    headings = ["sequence", "attention alone", "TFLOP/s", "cuDNN", "FlashAttention-3", "fused", "twin", "serial", "cuDNN + NCCL"]
    return text + how_measured(ours, baselines) + "\n\n" + table(headings, rows)


def ulysses(repository):
    """The whole layer."""
    ours = Results(repository, f"ulysses-{NODE}")
    baselines = Results(repository, f"ulysses-baselines-{NODE}")
    rows = []
    for compute in ours.select(variant="compute"):
        cell = {field: compute[field] for field in ("tokens", "heads", "head_dim", "dtype", "ranks")}
        of = {v: ours.row(variant=v, **cell) for v in ("qkv_projection", "attention", "output_projection", "fused", "flags")}
        torch = baselines.row(variant="torch_nccl", **cell)
        cells = [f"{cell['tokens']} × {cell['heads']}"]
        cells += [microseconds(of[variant]) for variant in ("qkv_projection", "attention", "output_projection")]
        cells += [microseconds(compute)]
        cells += [with_note(microseconds(of[variant]), number(of[variant].get("ratio"), 3)) for variant in ("fused", "flags")]
        rows.append(cells + [with_note(microseconds(torch), number(torch.get("ratio"), 3))])
    text = (
        "Times are µs of one call; a row names the tokens and heads of both ranks together.\n"
        "- compute: the three operations without any communication. The ratio to it stands in brackets.\n"
        "- flags: the attention begins on the arrival flags of the projection's tiles.\n"
        f"- PyTorch, NCCL: the fastest of its forms, with {software(baselines)}. The ratio to PyTorch's own compute stands in brackets.\n\n"
    )
    headings = ["tokens × heads", "QKV", "attention", "output", "compute", "fused", "flags", "PyTorch, NCCL"]
    return text + how_measured(ours, baselines) + "\n\n" + table(headings, rows)


def moe(repository):
    """The layer and its parts with many tokens."""
    ours = Results(repository, f"moe-bf16-{NODE}")
    local = Results(repository, f"moe-bf16-local-{NODE}")
    baselines = Results(repository, f"moe-bf16-baselines-{NODE}")
    rows = []
    for layer in ours.select(variant="unfused", tokens=8192, routing="balanced", remote_share="1/2"):
        cell = {field: layer[field] for field in ("shape", "tokens", "routing", "remote_share", "dtype", "ranks")}

        def exchange(variant, file=ours):
            row = file.row(variant=variant, **cell)
            return with_note(microseconds(row, 0), percent(row.get("drain_share")))

        def product(variant):
            row = ours.row(variant=variant, **cell)
            return with_note(microseconds(row, 0), number(row.get("tflops"), 0))

        torch = baselines.row(variant="torch_nccl", **cell)
        torch_rates = [number(baselines.row(variant=f"torch_linear{n}", **cell).get("tflops"), 0) for n in (1, 2)]
        slower = number(quotient(torch.get("microseconds"), layer["microseconds"]), 2)
        rows.append(
            [
                cell["shape"],
                exchange("dispatch"),
                microseconds(local.row(variant="dispatch_local", **cell), 0),
                product("linear1"),
                product("linear2"),
                exchange("combine"),
                microseconds(layer, 0),
                exchange("combine_rows"),
                microseconds(ours.row(variant="unfused_rows", **cell), 0),
                MISSING if MISSING in torch_rates else ", ".join(torch_rates),
                with_note(microseconds(torch, 0), MISSING if slower == MISSING else f"{slower}×"),
            ]
        )
    text = (
        "Every GPU has 8192 tokens, the routing is balanced, and half of the choices are remote. Times are µs of one call.\n"
        "- dispatch, combine: the share of the drain rate stands in brackets.\n"
        "- Linear-1, Linear-2: TFLOP/s stand in brackets.\n"
        f"- PyTorch's two products: TFLOP/s of `torch._grouped_mm` alone, with {software(baselines)}.\n"
        "- PyTorch, whole: the layer with NCCL, the faster of split sizes and fixed sizes in a graph; PyTorch's time divided by ours stands in "
        "brackets.\n\n"
    )
    headings = [
        "model", "dispatch", "its local twin", "Linear-1", "Linear-2", "combine", "whole layer", "combine of rows",
        "whole layer, rows", "PyTorch's two products", "PyTorch, whole",
    ]  # fmt: skip
    return text + how_measured(ours, local, baselines) + "\n\n" + table(headings, rows)


def moe_ranges(repository):
    """How much longer PyTorch takes, over all shapes, tokens and routings that both have."""
    ours = Results(repository, f"moe-bf16-{NODE}")
    rows = []
    for share, name in (("1/2", "moe-bf16-baselines"), ("7/8", "moe-bf16-baselines-7of8")):
        baselines = Results(repository, f"{name}-{NODE}")
        cells = [share, f"`{baselines.name}`"]
        for variant in ("unfused", "unfused_rows"):
            ratios = []
            for torch in baselines.select(variant="torch_nccl", remote_share=share):
                cell = {field: torch[field] for field in ("shape", "tokens", "routing", "remote_share", "dtype", "ranks")}
                ratio = quotient(torch["microseconds"], ours.row(variant=variant, **cell).get("microseconds"))
                ratios += [ratio] if ratio else []
            cells.append(f"{min(ratios):.2f} to {max(ratios):.2f} ({len(ratios)} cells)" if ratios else MISSING)
        rows.append(cells)
    return table(["remote choices", "baselines", "with partial sums", "with rows"], rows)


RESULT_TABLES = {
    "profile": profile,
    "held-out": held_out,
    "regimes": regimes,
    "simulated": simulated,
    "gemm": gemm,
    "gemm-alone": gemm_alone,
    "attention": attention,
    "ulysses": ulysses,
    "moe": moe,
    "moe-ranges": moe_ranges,
}
