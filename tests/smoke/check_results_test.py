"""Tests of scripts/check_results.py: each way in which results and tree can come apart, on a small repository with a tool
that only says what it is told to."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_results  # noqa: E402
import fingerprints  # noqa: E402

# Neither the user's configuration nor a surrounding git command may reach these repositories.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
CLEAN |= {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "test",
    "GIT_AUTHOR_EMAIL": "test@example.org",
    "GIT_COMMITTER_NAME": "test",
    "GIT_COMMITTER_EMAIL": "test@example.org",
}
SOURCES = {
    "src/kernels/gemm/gemm.cu": '#include "kernels/gemm/tile.hpp"\n__global__ void gemm_kernel() { tile(); }\n',
    "src/kernels/gemm/tile.hpp": "#pragma once\n__device__ void tile() {}\n",
    "src/node/cuda/burst_kernel.cu": "__global__ void burst_kernel() {}\n",
    "src/node/cuda/burst_launch.cpp": "void launch() {}\n",
    "src/calibrate/sweep.cpp": "int sweep() { return 1; }\n",
    "src/bench/cuda/timing.cpp": "int trials() { return 3; }\n",
    "src/bench/gemm_variants.cpp": "int gemm_variants() { return 2; }\n",
    "src/bench/moe_variants.cpp": "int moe_variants() { return 7; }\n",
    "src/bench/gemm_verify.cpp": "bool right() { return true; }\n",
    "bench/baselines/gemm.py": '"""Times torch."""\nimport common\n\n\ndef work():\n    return common.median([1, 2])\n',
    "bench/baselines/common.py": "def median(values):\n    return values[len(values) // 2]\n",
}
COMMANDS = {
    "gemm-h200x2": "xstage bench gemm --shapes table --trials 3",
    "gemm-baselines-h200x2": "python3 bench/baselines/gemm.py --shapes all",
    "calibration-h200x2": "xstage calibrate --node cuda",
}
# Prints what `xstage bench --list` would; a calibration leaves rows in its results file.
FAKE_TOOL = """#!/bin/sh
here=$(dirname "$0")
case "$*" in
  *--list) cat "$here/listed.json" ;;
  calibrate*) for last; do :; done; cp "$here/calibration.json" "$last" ;;
esac
"""


def git(folder, *arguments):
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=CLEAN, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.repository, self.build = (pathlib.Path(folder.name) / name for name in ("repository", "build"))
        self.build.mkdir()
        for path, text in SOURCES.items():
            self.write(path, text)
        self.write("bench/measurements.json", json.dumps(COMMANDS))
        git(self.repository, "init", "--quiet", "--initial-branch=main")
        self.commit()
        self.machine_code = {"gemm_kernel": "aaaa", "burst_kernel": "bbbb"}
        self.nvcc = "13.0.88"
        self.rows = [
            {"m": 512, "variant": "alone", "microseconds": 3.0, "plan": {"tile": 128}},
            {"m": 512, "variant": "fused", "microseconds": 4.0, "plan": {"tile": 256}},
        ]
        self.simulated = [{"variant": "simulated", "issue_us": 1.25}]
        self.tool_lists([{name: row[name] for name in ("m", "variant", "plan")} for row in self.rows])
        (self.build / "xstage").write_text(FAKE_TOOL)
        (self.build / "xstage").chmod(0o755)
        self.tool_simulates(self.simulated)
        self.make()
        self.measure()

    def write(self, path, text):
        file = self.repository / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self):
        git(self.repository, "add", "--all")
        git(self.repository, "commit", "--quiet", "--allow-empty", "--message", "change")
        return git(self.repository, "rev-parse", "HEAD")

    def tool_lists(self, rows):
        (self.build / "listed.json").write_text(json.dumps({"rows": rows}))

    def tool_simulates(self, rows):
        (self.build / "calibration.json").write_text(json.dumps({"rows": rows}))

    def make(self):
        """A build of the tree as it is."""
        table = fingerprints.table_of(self.repository, [], self.nvcc, None)
        tokens = {pathlib.Path(path).stem: value for path, value in table["sources"].items()}
        table["kernels"] = [
            {"name": name, "code": code, "tokens": tokens.get(name.removesuffix("_kernel"), tokens.get(name))}
            for name, code in self.machine_code.items()
        ]
        (self.build / "fingerprints.json").write_text(json.dumps(table))
        return table

    def measure(self):
        """All results files, as programs of this build would write them."""
        table = self.make()

        def code(bench, kernel):
            entry = next(one for one in table["kernels"] if one["name"] == kernel)
            versions = {"nvcc": table["nvcc"], "cutlass": table["cutlass"]}
            hashes = {"kernels": {kernel: entry["code"]}, "kernel_tokens": {kernel: entry["tokens"]}}
            return {**versions, **hashes, "timing": table["timing"][bench]}

        script = fingerprints.script_tokens(self.repository / "bench/baselines/gemm.py")
        self.put("gemm-h200x2", {"bench": "gemm", "code": code("gemm", "gemm_kernel"), "rows": self.rows})
        self.put("calibration-h200x2", {"bench": "calibration", "code": code("calibration", "burst_kernel"), "rows": self.simulated})
        self.put("gemm-baselines-h200x2", {"code": {"baseline": script}, "complete": True, "rows": [{"microseconds": 9}]})

    def put(self, name, content):
        head = {"commit": git(self.repository, "rev-parse", "HEAD"), "command": COMMANDS[name] + " -o somewhere.json"}
        content = {**head, "rows_hash": fingerprints.rows_hash(content["rows"]), **content}
        self.write(f"bench/results/{name}.json", json.dumps(content))

    def edit(self, name, change):
        """change(content) of a results file."""
        path = f"bench/results/{name}.json"
        content = json.loads((self.repository / path).read_text())
        change(content)
        self.write(path, json.dumps(content))

    def replace(self, path, old, new):
        text = (self.repository / path).read_text()
        self.assertIn(old, text)
        self.write(path, text.replace(old, new))

    def assert_passes(self):
        self.assertEqual(check_results.check(self.repository, self.build)[0], [])

    def assert_fails(self, *parts):
        """Exactly one complaint, with these words."""
        complaints = check_results.check(self.repository, self.build)[0]
        self.assertEqual(len(complaints), 1, complaints)
        for part in parts:
            self.assertIn(part, complaints[0])

    def test_fresh_results(self):
        self.assert_passes()

    def test_order_of_fields_and_format_of_numbers_do_not_matter(self):
        self.edit("gemm-h200x2", lambda content: content["rows"][0].update(microseconds=3))
        self.edit("gemm-h200x2", lambda content: content["rows"].append(dict(reversed(content["rows"].pop().items()))))
        self.assert_passes()

    # ---- rows and files ----

    def test_times_halved(self):
        self.edit("gemm-h200x2", lambda content: content["rows"][0].update(microseconds=1.5))
        self.assert_fails("gemm-h200x2.json", "rows were edited")

    def test_row_deleted(self):
        self.edit("gemm-h200x2", lambda content: content["rows"].pop())
        self.assert_fails("rows were edited")

    def test_row_never_measured(self):
        self.rows.pop()
        self.measure()
        self.assert_fails("0 rows instead of one", '"variant": "fused"')

    def test_row_that_the_table_lacks(self):
        self.rows.append({"m": 1024, "variant": "fused", "microseconds": 1})
        self.measure()
        self.assert_fails("1 rows more than today's table has")

    def test_baseline_row_deleted(self):
        self.edit("gemm-baselines-h200x2", lambda content: content["rows"].pop())
        self.assert_fails("rows were edited")

    def test_baseline_cut_short(self):
        self.edit("gemm-baselines-h200x2", lambda content: content.update(complete=False))
        self.assert_fails("did not come to its end")

    def test_file_deleted(self):
        (self.repository / "bench/results/gemm-h200x2.json").unlink()
        self.assert_fails("gemm-h200x2.json is missing", COMMANDS["gemm-h200x2"])

    def test_file_that_no_table_names(self):
        self.write("bench/results/gemm-h200x4.json", "{}")
        self.assert_fails("gemm-h200x4.json", "does not name it")

    def test_smaller_command(self):
        self.edit("gemm-h200x2", lambda content: content.update(command="xstage bench gemm --shapes small --trials 3"))
        self.assert_fails("--shapes small", "--shapes table")

    def test_where_programs_and_outputs_lie_does_not_matter(self):
        self.edit("gemm-h200x2", lambda content: content.update(command="build/xstage bench gemm --shapes table --trials 3"))
        command = "python3.12 elsewhere/gemm.py --shapes all --commit 0123 --limit 90"
        self.edit("gemm-baselines-h200x2", lambda content: content.update(command=command))
        self.assert_passes()

    def test_old_schema(self):
        for field in ("code", "rows_hash"):
            with self.subTest(field):
                self.measure()
                self.edit("gemm-h200x2", lambda content: content.pop(field))
                self.assert_fails("old schema", "measure again")

    def test_file_that_waits_to_be_measured_again(self):
        self.machine_code["gemm_kernel"] = "cccc"
        self.make()
        self.assert_fails("gemm-h200x2.json")
        file = self.repository / "bench/results/gemm-h200x2.json"
        self.write("bench/stale.json", json.dumps({"gemm-h200x2": hashlib.sha256(file.read_bytes()).hexdigest()}))
        complaints, notes = check_results.check(self.repository, self.build)
        self.assertEqual(complaints, [])
        self.assertEqual([note.split(":")[0] for note in notes if "STALE" in note], ["gemm-h200x2.json"])
        self.edit("gemm-h200x2", lambda content: content["rows"][0].update(microseconds=1.5))
        self.assert_fails("gemm-h200x2.json", "is not the file that bench/stale.json names")

    def test_broken_file(self):
        self.write("bench/results/gemm-h200x2.json", '{"commit": ')
        self.assert_fails("not JSON")
        self.write("bench/results/gemm-h200x2.json", '{"code": {"kernels": 3}, "rows_hash": "", "rows": {}}')
        self.assert_fails("gemm-h200x2.json")

    # ---- code ----

    def test_kernel_changed(self):
        self.machine_code["gemm_kernel"] = "cccc"
        self.make()
        self.assert_fails("gemm-h200x2.json", "these kernels have changed", "gemm_kernel")

    def test_kernel_gone(self):
        self.machine_code = {"matmul_kernel": "aaaa", "burst_kernel": "bbbb"}
        self.make()
        self.assert_fails("gone", "gemm_kernel")

    def test_commit_typed_into_a_file_of_older_kernels(self):
        self.machine_code["gemm_kernel"] = "cccc"
        self.make()
        commit = self.commit()
        self.edit("gemm-h200x2", lambda content: content.update(commit=commit))
        self.assert_fails("these kernels have changed")

    def test_no_kernel_and_kernel_without_hash(self):
        self.edit("gemm-h200x2", lambda content: content["code"].update(kernels={}))
        self.assert_fails("names no kernel")
        self.edit("gemm-h200x2", lambda content: content["code"].update(kernels={"gemm_kernel": None}))
        self.assert_fails("gemm_kernel")

    def test_plan_rule_changed(self):
        listed = [{name: row[name] for name in ("m", "variant", "plan")} for row in self.rows]
        listed[1]["plan"] = {"tile": 64}
        self.tool_lists(listed)
        self.assert_fails("plan.tile: 256, now 64", '"variant": "fused"')

    def test_plan_missing(self):
        del self.rows[0]["plan"]
        self.measure()
        self.assert_fails("plan", '"variant": "alone"')

    def test_timing_code_changed(self):
        self.replace("src/bench/cuda/timing.cpp", "3", "30")
        self.make()
        self.assert_fails("gemm-h200x2.json", "the code that times 'gemm' has changed")

    def test_variants_changed(self):
        self.replace("src/bench/gemm_variants.cpp", "2", "3")
        self.make()
        self.assert_fails("the code that times 'gemm' has changed")

    def test_code_that_times_something_else(self):
        self.replace("src/bench/moe_variants.cpp", "7", "8")
        self.replace("src/bench/gemm_verify.cpp", "true", "false")
        self.make()
        self.assert_passes()

    def test_baseline_changed(self):
        self.replace("bench/baselines/gemm.py", "[1, 2]", "[1, 3]")
        self.assert_fails("gemm-baselines-h200x2.json", "bench/baselines/gemm.py")

    def test_module_of_a_baseline_changed(self):
        self.replace("bench/baselines/common.py", "// 2", "// 3")
        self.assert_fails("gemm-baselines-h200x2.json", "what it imports")

    def test_kernel_of_ours_in_a_baseline_changed(self):
        tokens = fingerprints.source_tokens(self.repository)["src/kernels/gemm/gemm.cu"]
        self.edit("gemm-baselines-h200x2", lambda content: content["code"].update(kernel_tokens={"gemm.cu": tokens}))
        self.assert_passes()
        self.replace("src/kernels/gemm/tile.hpp", "{}", "{ __syncthreads(); }")
        self.make()
        self.assert_fails("gemm-baselines-h200x2.json", "gemm.cu")

    # ---- what changes nothing ----

    def test_comments_and_layout(self):
        self.write("src/bench/cuda/timing.cpp", "// trials of each variant\nint trials()\n{\n  return 3;  /* odd */\n}\n")
        self.replace("bench/baselines/gemm.py", '"""Times torch."""', '"""Times\ntorch, fairly."""  # and no more')
        self.replace("bench/baselines/common.py", "values[len(values) // 2]", "values[\n        len(values) // 2  # odd\n    ]")
        self.make()
        self.assert_passes()

    def test_files_moved_into_rooms(self):
        for old, new in (
            ("src/bench/gemm_variants.cpp", "src/ops/gemm/bench/variants.cpp"),
            ("src/bench/moe_variants.cpp", "src/ops/moe/bench/moe_variants.cpp"),
            ("src/bench/cuda/timing.cpp", "src/bench/harness.cpp"),
            ("src/kernels/gemm/gemm.cu", "src/ops/gemm/device/product.cu"),
            ("src/kernels/gemm/tile.hpp", "src/tile/gemm_tile.hpp"),
        ):
            (self.repository / new).parent.mkdir(parents=True, exist_ok=True)
            (self.repository / old).rename(self.repository / new)
        self.replace("src/ops/gemm/device/product.cu", "kernels/gemm/tile.hpp", "tile/gemm_tile.hpp")
        self.make()
        self.assert_passes()
        self.nvcc = "13.1.5"  # then the tokens of sources count
        self.make()
        self.assert_passes()

    # ---- another compiler ----

    def test_another_compiler_makes_other_machine_code(self):
        for self.nvcc in ("13.1.5", None):
            self.machine_code = {"gemm_kernel": "dddd", "burst_kernel": "eeee"} if self.nvcc else {}
            self.make()
            self.assert_passes()

    def test_changed_sources_under_another_compiler(self):
        self.nvcc = None
        self.replace("src/kernels/gemm/tile.hpp", "{}", "{ __syncthreads(); }")
        self.make()
        self.assert_fails("gemm-h200x2.json", "sources of these kernels have changed: gemm_kernel")

    # ---- calibration ----

    def test_simulated_rows_of_another_preset(self):
        self.tool_simulates([{"variant": "simulated", "issue_us": 1.26}])
        self.assert_fails("calibration-h200x2.json", "rows.0.issue_us: 1.25, now 1.26")

    def test_errors_edited_in_the_header_of_a_calibration(self):
        self.edit("calibration-h200x2", lambda content: content.update(held_out_errors=[{"median_error": 0.001}]))
        self.assert_fails("calibration-h200x2.json", "held_out_errors")

    def test_rows_that_the_calibration_lacks(self):
        self.tool_simulates([*self.simulated, {"variant": "simulated", "issue_us": 2.0}])
        self.assert_fails("1 rows, but samples and preset give 2")

    def test_rounding_of_the_simulated_node(self):
        self.tool_simulates([{"variant": "simulated", "issue_us": 1.25 * (1 + 1e-9)}])
        self.assert_passes()

    def test_sweep_and_launch_of_the_calibration(self):
        for path, old, new in (("src/calibrate/sweep.cpp", "1", "2"), ("src/node/cuda/burst_launch.cpp", "{}", "{ f(); }")):
            with self.subTest(path):
                self.measure()
                self.replace(path, old, new)
                self.make()
                self.assert_fails("calibration-h200x2.json", "the code that times 'calibration' has changed")

    # ---- history and build ----

    def test_commits_that_are_none_of_this_history(self):
        for commit, words in (
            ("0123456789" * 4, "is not in this repository"),
            (git(self.repository, "rev-parse", "HEAD") + "-dirty", "from a committed tree"),
            (None, "from a committed tree"),
        ):
            with self.subTest(words):
                self.edit("gemm-h200x2", lambda content: content.update(commit=commit))
                self.assert_fails("gemm-h200x2.json", words)

    def test_commit_of_another_branch(self):
        git(self.repository, "checkout", "--quiet", "-b", "other")
        other = self.commit()
        git(self.repository, "checkout", "--quiet", "main")
        git(self.repository, "checkout", "other", "--", ".")
        self.edit("gemm-h200x2", lambda content: content.update(commit=other))
        self.assert_fails("is not in the history of HEAD")

    def test_shallow_clone_and_export_say_that_they_cannot_know(self):
        measured = git(self.repository, "rev-parse", "HEAD")
        self.commit()
        shallow = self.build.parent / "shallow"
        git(self.build.parent, "clone", "--quiet", "--depth=1", self.repository.as_uri(), str(shallow))
        complaints, notes = check_results.check(shallow, self.build)
        self.assertEqual(complaints, [])
        self.assertEqual([f"this shallow clone lacks {measured}" in note for note in notes], [True] * 3)
        (shallow / ".git").rename(self.build.parent / "put_away")
        complaints, notes = check_results.check(shallow, self.build)
        self.assertEqual(complaints, [])
        self.assertEqual(["no git repository" in note for note in notes], [True] * 3)

    def test_no_build(self):
        (self.build / "fingerprints.json").unlink()
        self.assert_fails("fingerprints.json is missing: build first")

    def test_tool_that_fails(self):
        (self.build / "xstage").write_text("#!/bin/sh\necho 'no --list here' >&2\nexit 2\n")
        (self.repository / "bench/results/calibration-h200x2.json").unlink()
        self.write("bench/measurements.json", json.dumps({name: COMMANDS[name] for name in COMMANDS if "calib" not in name}))
        self.assert_fails("failed with 2", "no --list here")


if __name__ == "__main__":
    unittest.main()
