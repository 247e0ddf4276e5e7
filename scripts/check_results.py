#!/usr/bin/env python3
"""Measurements must be those of the kernels in the tree.

    check_results.py [--repository FOLDER]

Every bench/results/*.json names the commit that it measured. The check fails if that commit is not in this history, or
if the measured sources have changed since: src/node/cuda for calibrations, for the rest
src/kernels and src/schedule without what belongs to operators that are not used. Comments and layout may change.
A shallow clone or an export without git cannot answer; the check then says so and passes.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

from cpp_code import same_code

CALIBRATION_SOURCES = ("src/node/cuda",)
KERNEL_SOURCES = ("src/kernels", "src/schedule")
# Kernels of one operator do not enter the binaries of another. What is named nowhere here counts for all.
OPERATOR_SOURCES = {
    "gemm": ("src/kernels/gemm", "src/schedule/gemm_schedule.hpp"),
    "attention": (
        "src/kernels/attention",
        "src/kernels/all_to_all",
        "src/schedule/all_to_all_schedule.hpp",
        "src/schedule/attention_schedule.hpp",
        "src/schedule/attention_shares.hpp",
    ),
    "moe": (
        "src/kernels/moe",
        "src/schedule/moe_expert_wave.hpp",
        "src/schedule/moe_interleaved.hpp",
        "src/schedule/moe_lead.hpp",
        "src/schedule/moe_linear_order.hpp",
        "src/schedule/moe_tiles.hpp",
    ),
    "ulysses": (),
}
# Whose kernels an operator includes or launches beside its own.
OPERATOR_USES = {"moe": ("gemm",), "ulysses": ("gemm", "attention")}


def git(repository, *arguments):
    """(exit status, output) of one git command."""
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    return done.returncode, done.stdout.strip()


def measured_sources(result_file):
    """git's path specifications of the code that decides the numbers of a result file."""
    if result_file.name.startswith("calibration"):
        return CALIBRATION_SOURCES
    operator = result_file.name.split("-")[0]
    own = (operator, *OPERATOR_USES.get(operator, ()))
    others = (path for name, paths in OPERATOR_SOURCES.items() if name not in own for path in paths)
    known = operator in OPERATOR_SOURCES
    return KERNEL_SOURCES + (tuple(f":(exclude){path}" for path in others) if known else ())


def commit_of(result_file):
    """The commit that a result file names. ValueError if there is none that can be looked up."""
    try:
        content = json.loads(result_file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{result_file.name}: not JSON ({error})") from error
    commit = content.get("commit") if isinstance(content, dict) else None
    if not isinstance(commit, str):
        raise ValueError(f"{result_file.name}: names no commit")
    if not re.fullmatch(r"[0-9a-f]{7,40}", commit):
        raise ValueError(
            f"{result_file.name}: '{commit}' is no commit; measure with a binary that was built from a committed tree"
        )
    return commit


def has_same_code(repository, commit, path):
    """Whether a file of the working tree differs from that of `commit` in comments and layout at most."""
    file = repository / path
    status, measured = git(repository, "show", f"{commit}:{path}")
    return status == 0 and file.is_file() and same_code(path, measured, file.read_text(encoding="utf-8").strip())


def changed_files(repository, commit, paths):
    """Files of these path specifications in which the working tree's code differs from `commit`, new ones included."""
    _, changed = git(repository, "diff", "--name-only", commit, "--", *paths)
    _, untracked = git(repository, "ls-files", "--others", "--exclude-standard", "--", *paths)
    names = sorted(set(changed.splitlines()) | set(untracked.splitlines()))
    return [name for name in names if not has_same_code(repository, commit, name)]


def check_file(repository, result_file, shallow):
    """(complaint or None, note or None) for one result file."""
    try:
        commit = commit_of(result_file)
    except ValueError as error:
        return str(error), None
    known = git(repository, "cat-file", "-e", commit + "^{commit}")[0] == 0
    if not known and shallow:
        return None, f"{result_file.name}: not checked, this shallow clone lacks commit {commit}"
    if not known:
        return f"{result_file.name}: commit {commit} is not in this repository", None
    if not shallow and git(repository, "merge-base", "--is-ancestor", commit, "HEAD")[0] != 0:
        return f"{result_file.name}: commit {commit} is not in the history of HEAD", None
    changed = changed_files(repository, commit, measured_sources(result_file))
    if changed:
        return f"{result_file.name}: measured at {commit}, but since then changed: {', '.join(changed)}; measure again", None
    return None, f"{result_file.name}: measured code is unchanged since {commit}"


def is_own_repository(repository):
    """True if the folder is the top of a git work tree, not an export that lies inside some other repository."""
    try:
        status, top = git(repository, "rev-parse", "--show-toplevel")
    except FileNotFoundError:
        return False
    return status == 0 and pathlib.Path(top).resolve() == repository.resolve()


def check(repository):
    """(complaints, notes) of all result files."""
    files = sorted((repository / "bench" / "results").glob("*.json"))
    if not files:
        return [], ["no result files in bench/results"]
    if not is_own_repository(repository):
        return [], [f"not checked: {repository} is not a git repository, or git is missing"]
    shallow = git(repository, "rev-parse", "--is-shallow-repository")[1] == "true"
    outcomes = [check_file(repository, file, shallow) for file in files]
    return [complaint for complaint, _ in outcomes if complaint], [note for _, note in outcomes if note]


def main(arguments):
    parser = argparse.ArgumentParser(description="Check that measurements are those of the kernels in the tree.")
    parser.add_argument("--repository", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    complaints, notes = check(parser.parse_args(arguments).repository)
    for note in notes:
        print(f"check_results: {note}")
    for complaint in complaints:
        print(f"check_results: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
