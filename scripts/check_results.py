#!/usr/bin/env python3
"""Measurements must be those of the code in the tree.

    check_results.py [--repository FOLDER] [--build FOLDER]

bench/measurements.json names the files that bench/results must have, and the command of each. Every file carries hashes of
what it measured (docs/results-format.md). The check compares them with the build and fails if a file or row is missing, if
rows were edited, or if since then a kernel's machine code, a plan, the timing code or a baseline script has changed. Where
the file's compiler is not the build's, tokens of the kernels' sources take the place of machine code. It catches
accidents; it is no seal against forgery.

bench/stale.json names files that are known not to belong to the tree, while no machine is there to measure again: each with
its SHA-256, so that it stays as it was measured. They are reported and pass.
"""

import argparse
import hashlib
import json
import math
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import fingerprints

# Options that do not change what is measured, each with its value.
FREE_OPTIONS = ("-o", "--output", "--trace", "--commit", "--limit", "--cublas", "--tool")
FREE_OPTIONS += ("--samples", "--results", "--simulated")  # of a calibration, whose simulated rows are made again
TOOL_SECONDS = 600


class Stale(Exception):
    """Why a results file does not belong to this tree."""


def git(repository, *arguments):
    """(exit status, standard output) of git."""
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    return done.returncode, done.stdout.strip()


def is_own_repository(repository):
    """True if the folder is the top of a git work tree, not an export that lies inside some other repository."""
    try:
        status, top = git(repository, "rev-parse", "--show-toplevel")
    except FileNotFoundError:
        return False
    return status == 0 and pathlib.Path(top).resolve() == repository.resolve()


def check_commit(repository, content):
    """A note if the history cannot answer. The commit is of this history: a measurement can be looked up and repeated."""
    commit = content.get("commit")
    if not isinstance(commit, str) or not re.fullmatch(r"[0-9a-f]{7,40}", commit):
        raise Stale(f"{commit!r} is no commit; measure with a binary that was built from a committed tree")
    if not is_own_repository(repository):
        return "commit not checked: this is no git repository, or git is missing"
    shallow = git(repository, "rev-parse", "--is-shallow-repository")[1] == "true"
    if git(repository, "cat-file", "-e", commit + "^{commit}")[0] != 0:
        if shallow:
            return f"commit not checked: this shallow clone lacks {commit}"
        raise Stale(f"commit {commit} is not in this repository")
    if not shallow and git(repository, "merge-base", "--is-ancestor", commit, "HEAD")[0] != 0:
        raise Stale(f"commit {commit} is not in the history of HEAD")
    return None


def arguments_of(command):
    """[program, argument...] of a command line without free options and folders of the program."""
    words = shlex.split(command)
    words = words[1:] if pathlib.PurePath(words[0]).name.startswith("python") else words
    words[0] = pathlib.PurePath(words[0]).name
    free = [index for index, word in enumerate(words) if word in FREE_OPTIONS]
    return [word for index, word in enumerate(words) if index not in free and index - 1 not in free]


def check_command(content, command):
    measured, wanted = arguments_of(content["command"]), arguments_of(command)
    if measured != wanted:
        raise Stale(f"made by '{shlex.join(measured)}', but bench/measurements.json says '{shlex.join(wanted)}'")


def check_kernels(code, table):
    """Machine code, or the sources' tokens where another compiler makes other machine code of the same sources."""
    if not code["kernels"]:
        raise Stale("names no kernel that ran")
    if any(code[part] != table[part] for part in ("nvcc", "cutlass")):
        check_sources(code["kernels"], code, table)
        return
    built = {kernel["name"]: kernel["code"] for kernel in table["kernels"]}
    changed = [name for name, machine_code in code["kernels"].items() if built.get(name) != machine_code]
    if changed:
        raise Stale(f"these kernels have changed, or are gone: {', '.join(changed)}")


def check_sources(kernels, code, table):
    known = set(table["sources"].values())
    changed = [name for name in kernels if code["kernel_tokens"].get(name) not in known]
    if changed:
        raise Stale(f"sources of these kernels have changed: {', '.join(changed)}")


def difference_of(one, other, place=""):
    """Where two JSON values differ by more than rounding, or None."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(name, one.get(name), other.get(name)) for name in {**one, **other}]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = list(zip(range(len(one)), one, other))
    elif any(isinstance(value, (dict, list, str, bool, type(None))) for value in (one, other)):
        return None if one == other else f"{place}: {one!r}, now {other!r}"
    else:
        return None if math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9) else f"{place}: {one!r}, now {other!r}"
    return next(filter(None, (difference_of(*values, f"{place}.{name}".strip(".")) for name, *values in pairs)), None)


def run(repository, *command):
    """Standard output of a program of the build."""
    done = subprocess.run(
        list(map(str, command)), cwd=repository, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
    )
    if done.returncode != 0:
        raise Stale(f"'{shlex.join(map(str, command))}' failed with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def check_rows_of_bench(repository, build, content):
    """The rows are those that the same command would measure today, with the plans of today's rules."""
    listed = json.loads(run(repository, build / "xstage", *arguments_of(content["command"])[1:], "--list"))["rows"]
    indices, matched = {}, set()
    for row in listed:
        keys = tuple(sorted(set(row) - {"plan"}))
        if keys not in indices:
            indices[keys] = {}
            for measured in content["rows"]:
                indices[keys].setdefault(key_of(measured, keys), []).append(measured)
        found = indices[keys].get(key_of(row, keys), [])
        if len(found) != 1:
            raise Stale(f"{len(found)} rows instead of one have {json.dumps({name: row[name] for name in keys})}")
        matched.add(id(found[0]))
        difference = difference_of(found[0].get("plan"), row["plan"], "plan") if "plan" in row else None
        if difference:
            raise Stale(f"{difference}, in the row {json.dumps({name: row[name] for name in keys})}")
    if len(matched) != len(content["rows"]):
        raise Stale(f"{len(content['rows']) - len(matched)} rows more than today's table has")


def key_of(row, keys):
    return fingerprints.canonical([row.get(name) for name in keys])


def findings_of(calibration):
    """Its rows and what was computed from them."""
    distances = calibration.get("simulated", {}).get("distances")
    return {"rows": calibration["rows"], "held_out_errors": calibration.get("held_out_errors"), "distances": distances}


def check_rows_of_calibration(repository, build, name, content):
    """A calibration's rows follow from recorded samples and the simulated preset: all are made again."""
    machine = name.removeprefix("calibration-")
    with tempfile.TemporaryDirectory() as folder:
        profile, samples, results = (f"{folder}/{file}" for file in ("profile.json", "samples.csv", "results.json"))
        recorded = ("--node", f"recorded:profiles/{machine}-samples.csv", "-o", profile, "--samples", samples)
        run(repository, build / "xstage", "calibrate", *recorded, "--simulated", machine, "--results", results)
        made = json.loads(pathlib.Path(results).read_text(encoding="utf-8"))
    if len(made["rows"]) != len(content["rows"]):
        raise Stale(f"{len(content['rows'])} rows, but samples and preset give {len(made['rows'])}")
    difference = difference_of(findings_of(content), findings_of(made))
    if difference:
        raise Stale(f"samples and preset give other rows or errors: {difference}")


def check_measurement(repository, build, table, name, content):
    """Code and rows of a file that `xstage` has measured."""
    code, bench = content["code"], content["bench"]
    check_kernels(code, table)
    if code["timing"] != table["timing"].get(bench) or not code["timing"]:
        raise Stale(f"the code that times '{bench}' has changed")
    if bench == "calibration":
        check_rows_of_calibration(repository, build, name, content)
    else:
        check_rows_of_bench(repository, build, content)


def check_baseline(repository, table, content):
    """Code of a file that a script below bench/baselines has measured; it may have used kernels of ours."""
    script = repository / "bench" / "baselines" / arguments_of(content["command"])[0]
    if not script.is_file():
        raise Stale(f"{script.relative_to(repository)} is gone")
    if content["code"]["baseline"] != fingerprints.script_tokens(script):
        raise Stale(f"{script.relative_to(repository)}, or what it imports, has changed")
    if not content.get("complete"):
        raise Stale("the baseline did not come to its end")
    check_sources(content["code"].get("kernel_tokens", {}), content["code"], table)


def check_file(repository, build, table, file, command):
    """A note or None. Stale if the file does not belong to the tree."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Stale(f"not JSON ({error})") from error
    if not isinstance(content, dict) or not content.get("code") or "rows_hash" not in content:
        raise Stale("old schema: it does not say which code it measured")
    if content["rows_hash"] != fingerprints.rows_hash(content["rows"]):
        raise Stale("rows were edited: they do not have the hash that the program wrote")
    note = check_commit(repository, content)
    check_command(content, command)
    if "baseline" in content["code"]:
        check_baseline(repository, table, content)
    else:
        check_measurement(repository, build, table, file.stem, content)
    return note


def check_stale(file, digest):
    """A note on a file that is known to be of other code."""
    if hashlib.sha256(file.read_bytes()).hexdigest() != digest:
        raise Stale("is not the file that bench/stale.json names: take it from there if it was measured anew")
    commit = json.loads(file.read_text(encoding="utf-8")).get("commit")
    return f"STALE, as bench/stale.json says: it is of commit {commit}; measure again"


def stale_files(repository):
    """{name: SHA-256}"""
    file = repository / "bench" / "stale.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def check(repository, build):
    """(complaints, notes) of all results files."""
    table_file, commands_file = build / "fingerprints.json", repository / "bench" / "measurements.json"
    if not table_file.is_file():
        return [f"{table_file} is missing: build first"], []
    table, commands = (json.loads(file.read_text(encoding="utf-8")) for file in (table_file, commands_file))
    files = {file.stem: file for file in sorted((repository / "bench" / "results").glob("*.json"))}
    complaints = [f"bench/results/{name}.json is missing: {commands[name]}" for name in sorted(set(commands) - set(files))]
    notes = []
    stale = stale_files(repository)
    for name, file in files.items():
        try:
            if name not in commands:
                raise Stale("bench/measurements.json does not name it")
            if name in stale:
                notes.append(f"{file.name}: {check_stale(file, stale[name])}")
                continue
            note = check_file(repository, build, table, file, commands[name])
            notes.append(f"{file.name}: {note or 'is of this code'}")
        except Stale as reason:
            complaints.append(f"{file.name}: {reason}; measure again")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            complaints.append(f"{file.name}: not as a results file is ({error!r}); measure again")
    return complaints, notes


def main(arguments):
    parser = argparse.ArgumentParser(description="Check that measurements are those of the code in the tree.")
    repository = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--repository", type=pathlib.Path, default=repository)
    parser.add_argument("--build", type=pathlib.Path, help="default: build/release of the repository")
    options = parser.parse_args(arguments)
    build = options.build or options.repository / "build" / "release"
    complaints, notes = check(options.repository.resolve(), build.resolve())
    for note in notes:
        print(f"check_results: {note}")
    for complaint in complaints:
        print(f"check_results: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
