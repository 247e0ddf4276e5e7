"""The tables of README.md: what a rate of this project counts, and one row for each kernel family with its baseline."""

import json
import re
import statistics

from results import MISSING, Results, number, quotient, software, table

NODE = "h200x2"
STORE_PATHS = {"store16": "16-byte stores", "bulk": "bulk copies"}

# GB/s of one cudaMemcpyPeer after the other, in one direction between the same two GPUs. xstage does not measure copy
# engines: the number is that of a separate reading, docs/notes/calibration.md.
COPY_ENGINE_GB_PER_S = 390.7


def units(repository):
    """The raw link rate, a copy engine and the drain rate beside each other."""
    platform = json.loads((repository / f"profiles/{NODE}.json").read_text(encoding="utf-8"))
    links = re.fullmatch(r"(\d+) NVLink, ([\d.]+) GB/s each", platform["node"]["links"])
    raw = number(int(links[1]) * float(links[2]) if links else None, 0)
    device = platform["node"]["devices"][0]
    drains = {path["store_path"]: number(path["drain_gb_per_s"]["value"], 1) for path in platform["paths"]}
    rows = [
        ["raw link rate", raw, f"{platform['node']['links']}: payload, headers and credits"],
        [
            "copy engine",
            number(COPY_ENGINE_GB_PER_S, 1),
            "payload of `cudaMemcpyPeer`: `device_to_device_memcpy_write_ce` of nvbandwidth times such copies",
        ],
    ]
    every_cta = f"payload that all {device['multiprocessors']} CTAs of one GPU store to one peer"
    rows += [[f"drain rate R, {name}", drains.get(path, MISSING), every_cta] for path, name in STORE_PATHS.items()]
    return table([f"{len(platform['node']['devices'])} × {device['name']}", "GB/s", "what it counts"], rows)


def spread(ratios, decimals=2):
    """`median (least to most)`, and of how many shapes."""
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return MISSING
    middle, least, most = (number(value, decimals) for value in (statistics.median(known), min(known), max(known)))
    return f"{middle} ({least} to {most}), {len(known)} shape{'s' if len(known) > 1 else ''}"


def over(baselines, variant, ours, our_variant, key):
    """The baseline's time over ours, for each shape that both have."""
    ratios = []
    for row in baselines.select(variant=variant):
        mine = ours.row(variant=our_variant, **{field: row.get(field) for field in key})
        ratios.append(quotient(row.get("microseconds"), mine.get("microseconds")))
    return ratios


def gemm_rows(ours, baselines):
    shape = ("op", "m", "n", "k", "ranks")
    fused = ours.select(variant="fused")
    ratios = []
    for row in fused:
        cell = {field: row[field] for field in shape}
        times = [baselines.row(variant=variant, **cell).get("microseconds") for variant in ("torch_fused", "nccl_serial")]
        ratios.append(quotient(min((time for time in times if time is not None), default=None), row["microseconds"]))
    alone = [
        quotient(ours.row(variant="cublas", **{field: row[field] for field in shape}).get("microseconds"), row["microseconds"])
        for row in ours.select(op="gemm", variant="alone")
    ]
    cublas = f"cuBLAS {ours.document.get('cublas', '')}".strip()
    library = "PyTorch: the faster of `symm_mem`'s fused operation and of `matmul` followed by NCCL"
    return [
        ["GEMM alone", cublas, spread(alone), MISSING],
        ["GEMM with its collective", library, spread(ratios), spread([row.get("ratio") for row in fused])],
    ]


def attention_rows(ours, baselines):
    shape = ("sequence", "heads", "kv_heads", "head_dim", "causal", "dtype", "ranks")
    paired = baselines.select(variant="xstage_attention")
    rows = []
    for name, label in (("cudnn", "cuDNN"), ("flash3", "FlashAttention-3")):
        ratios = [quotient(1, row.get(f"ratio_to_{name}")) for row in paired]
        if any(ratios):
            rows.append(["attention alone", label, spread(ratios), MISSING])
    arrived = "fused_arrived" if ours.select(variant="fused_arrived") else "fused"
    library = "cuDNN, followed by a layout copy and NCCL's all-to-all"
    rows.append(
        [
            "attention with its all-to-all",
            library,
            spread(over(baselines, "cudnn_nccl", ours, arrived, shape)),
            spread([row.get("ratio") for row in ours.select(variant=arrived)]),
        ]
    )
    return rows


def ulysses_rows(ours, baselines):
    library = "PyTorch: the fastest form with cuBLAS, cuDNN and NCCL"
    ratios = over(baselines, "torch_nccl", ours, "fused", ("tokens", "heads", "head_dim", "dtype", "ranks"))
    return [["Ulysses layer", library, spread(ratios), spread([row.get("ratio") for row in ours.select(variant="fused")])]]


def moe_rows(ours, *baselines):
    key = ("shape", "tokens", "routing", "remote_share", "dtype", "ranks")
    ratios = [ratio for file in baselines for ratio in over(file, "torch_nccl", ours, "unfused", key)]
    many = [row for row in ours.select(variant="unfused") if row["tokens"] >= 1024]
    return [
        [
            "MoE layer, 1024 tokens and more",
            "PyTorch: `torch._grouped_mm` and NCCL",
            spread(ratios),
            spread([row.get("ratio") for row in many]),
        ]
    ]


def families(repository):
    """One row for each kernel family. The baseline is named in the row."""

    def file(name):
        return Results(repository, f"{name}-{NODE}")

    families_of = {
        gemm_rows: ("gemm", "gemm-baselines"),
        attention_rows: ("attention", "attention-baselines"),
        ulysses_rows: ("ulysses", "ulysses-baselines"),
        moe_rows: ("moe-bf16", "moe-bf16-baselines", "moe-bf16-baselines-7of8"),
    }
    rows = []
    files = []
    for rows_of, names in families_of.items():
        used = [file(name) for name in names]
        rows += rows_of(*used)
        files += used
    headings = ["kernel family, bf16", "baseline", "baseline's time ÷ ours", "ours ÷ compute alone"]
    versions = dict.fromkeys(part for one in files if one.document.get("software") for part in software(one).split(", "))
    text = (
        "A cell has the median, the range and the number of shapes. A ratio above 1 in the third column means that the baseline takes longer.\n"
        f"Baselines: {', '.join(versions) or 'PyTorch'}.\n\n" + table(headings, rows)
    )
    old = [one for one in files if one.stale]
    if old:
        which = f"all {len(files)}" if len(old) == len(files) else f"{len(old)} of the {len(files)}"
        text += (
            f"\n\nThe code has changed since {which} files behind this table were measured; [docs/results.md](docs/results.md) "
            "says which."
        )
    return text


SUMMARY_TABLES = {"units": units, "families": families}
