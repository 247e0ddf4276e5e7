#!/usr/bin/env python3
"""docs/gap-sweep.svg: a held-out gap sweep, measured against the Burst-Gap law and its completion-coupled counterfactual.

    plot_gap_sweep.py [RESULTS.json] [-o FIGURE.svg]

Needs matplotlib.
"""

import argparse
import json

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "xstage"  # the same figure for the same data
import matplotlib.pyplot as pyplot  # noqa: E402  (the backend comes first)

KIBIBYTE = 1024


def sweep(rows, path, size):
    """Held-out free-running rows of one path and tile size, by measured gap."""
    chosen = [
        row
        for row in rows
        if row["variant"] == "remote"
        and row["held_out"]
        and row["mode"] == "periodic"
        and row["regime"] == "free_running"
        and row["path"] == path
        and row["bytes"] == size
    ]
    return sorted(chosen, key=lambda row: row["gap_us"])


def draw(axes, rows, measured, predicted, label):
    gaps = [row["gap_us"] for row in rows]
    axes.plot(gaps, [row[predicted] for row in rows], color="black", label="Burst-Gap law")
    axes.plot(gaps, [row[measured] for row in rows], "o", color="tab:red", label="measured")
    axes.set_xlabel("gap between bursts (microseconds)")
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="?", default="bench/results/calibration-h200x2.json")
    parser.add_argument("-o", "--output", default="docs/gap-sweep.svg")
    parser.add_argument("--path", default="store16")
    parser.add_argument("--bytes", type=int, default=48 * KIBIBYTE)
    arguments = parser.parse_args()
    with open(arguments.results, encoding="utf-8") as file:
        rows = sweep(json.load(file)["rows"], arguments.path, arguments.bytes)
    if not rows:
        raise SystemExit(f"{arguments.results}: no held-out sweep of {arguments.path} with {arguments.bytes} bytes")

    figure, (period, issue) = pyplot.subplots(1, 2, figsize=(9, 3.4), constrained_layout=True)
    draw(period, rows, "period_us", "predicted_period_us", "period (microseconds)")
    period.plot(
        [row["gap_us"] for row in rows],
        [row["completion_coupled_us"] for row in rows],
        "--",
        color="tab:gray",
        label="completion-coupled",
    )
    period.legend()
    draw(issue, rows, "issue_us", "predicted_issue_us", "issue time (microseconds)")
    for axes in (period, issue):
        axes.set_ylim(bottom=0)
    figure.suptitle(f"{rows[0]['producers']} producers x {arguments.bytes // KIBIBYTE} KiB to the peer GPU, not used by the fit")
    figure.savefig(arguments.output, metadata={"Date": None})


if __name__ == "__main__":
    main()
