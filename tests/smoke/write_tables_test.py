#!/usr/bin/env python3
"""write_tables.py: documents say what the result files say, and the check sees it when they do not."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "scripts"))

import result_tables  # noqa: E402
import results  # noqa: E402
import summary_tables  # noqa: E402
import write_tables  # noqa: E402

DOCUMENT = "# Title\n<!-- table: gemm -->\n<!-- end -->\nText.\n"


def gemm_row(variant, microseconds, **more):
    return {"op": "gemm_reduce_scatter", "m": 2048, "n": 4096, "k": 8192, "ranks": 2, "variant": variant,
            "microseconds": microseconds, **more}  # fmt: skip


class Repository(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("docs", "bench/results"):
            (self.root / name).mkdir(parents=True)
        (self.root / "README.md").write_text(DOCUMENT, encoding="utf-8")
        self.put("gemm-h200x2", [gemm_row("fused", 55.52, ratio=1.18)])

    def put(self, name, rows, **header):
        document = {"hardware": {"gpus": ["NVIDIA H200"] * 2}, "command": f"bench {name} -o {name}.json --limit 5 --verify",
                    **header, "rows": rows}  # fmt: skip
        (self.root / f"bench/results/{name}.json").write_text(json.dumps(document), encoding="utf-8")


class Tables(Repository):
    def run_script(self, *arguments):
        """(exit code, what it said)."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = write_tables.main([*arguments, "--repository", str(self.root)], {"gemm": result_tables.gemm})
        return code, said.getvalue()

    def written(self):
        code, said = self.run_script()
        self.assertEqual(code, 0, said)
        return (self.root / "README.md").read_text(encoding="utf-8")

    def test_what_was_written_passes_the_check(self):
        self.assertEqual(self.run_script("--check")[0], 1)
        text = self.written()
        self.assertIn("| `reduce_scatter` | 2048 × 4096 × 8192 | 55.5 (1.18) |", text)
        self.assertTrue(text.startswith("# Title\n") and text.endswith("\nText.\n"))
        self.assertEqual(self.run_script("--check"), (0, ""))

    def test_a_number_typed_by_hand_fails_the_check(self):
        text = self.written()
        (self.root / "README.md").write_text(text.replace("55.5", "54.5"), encoding="utf-8")
        code, said = self.run_script("--check")
        self.assertEqual(code, 1)
        self.assertIn("README.md", said)

    def test_a_new_measurement_fails_the_check(self):
        self.written()
        self.put("gemm-h200x2", [gemm_row("fused", 54.4, ratio=1.16)])
        self.assertEqual(self.run_script("--check")[0], 1)
        self.assertIn("54.4 (1.16)", self.written())

    def test_missing_rows_are_dashes_and_columns_of_dashes_are_left_out(self):
        self.assertNotIn("PyTorch, fused |", self.written())
        other = {**gemm_row("torch_fused", 70.0), "m": 1}
        self.put("gemm-baselines-h200x2", [other])
        self.assertNotIn("70.0", self.written())
        self.put("gemm-baselines-h200x2", [gemm_row("torch_fused", 70.0)])
        text = self.written()
        self.assertIn("| 55.5 (1.18) | 70.0 |", text)
        self.assertNotIn("`matmul`, then NCCL |", text)

    def test_the_sustained_time_stands_beside_the_rested_one(self):
        self.assertNotIn("sustained", self.written())
        self.put("gemm-h200x2", [gemm_row("fused", 55.52, ratio=1.18, sustained_us=61.26)], rest_ms=15)
        text = self.written()
        self.assertIn("| 55.5 / 61.3 (1.18) |", text)
        self.assertIn("the sustained time, without rests for at least 2 s", text)

    def test_rests_multicast_file_and_command_are_named(self):
        text = self.written()
        self.assertIn("Trials follow each other without a rest.", text)
        self.put("gemm-h200x2", [gemm_row("fused", 55.52)], rest_ms=15)
        text = self.written()
        self.assertIn("Every trial starts on a rested GPU (15 ms without work)", text)
        self.assertIn("multicast is off for all", text)
        self.assertIn("`bench/results/gemm-h200x2.json` (`bench gemm-h200x2 --verify`)", text)
        self.put("gemm-baselines-h200x2", [], timing="trials alternate")
        self.assertIn("but those of `bench/results/gemm-baselines-h200x2.json` follow each other", self.written())

    def test_wrong_markers_are_refused(self):
        for text, complaint in (
            (DOCUMENT + "<!-- table: unknown -->\n<!-- end -->\n", "no table is named 'unknown'"),
            (DOCUMENT + "<!-- table: gemm -->\n", "needs its"),
            (DOCUMENT + "<!-- end -->\n", "needs its"),
            ("# Title\n", "no document shows the table gemm"),
        ):
            with self.subTest(complaint):
                (self.root / "README.md").write_text(text, encoding="utf-8")
                code, said = self.run_script()
                self.assertEqual(code, 1)
                self.assertIn(complaint, said)
                self.assertEqual((self.root / "README.md").read_text(encoding="utf-8"), text)

    def test_two_rows_for_one_cell_are_refused(self):
        self.put("gemm-baselines-h200x2", [gemm_row("torch_fused", 70.0), gemm_row("torch_fused", 71.0)])
        code, said = self.run_script()
        self.assertEqual(code, 1)
        self.assertIn("2 rows", said)


class Summary(Repository):
    """The README's tables: one row a kernel family, and what a rate counts."""

    def row(self, family):
        text = summary_tables.families(self.root)
        rows = [line for line in text.splitlines() if line.startswith(f"| {family} |")]
        self.assertEqual(len(rows), 1, text)
        return rows[0]

    def test_a_family_without_results_is_dashes_and_never_zero(self):
        self.assertTrue(self.row("Ulysses layer").endswith(f"| {results.MISSING} |"))
        self.assertNotIn("0.00", summary_tables.families(self.root))

    def test_the_faster_baseline_of_each_shape_counts(self):
        self.put("gemm-h200x2", [gemm_row("fused", 50.0, ratio=1.1), {**gemm_row("fused", 50.0, ratio=1.3), "m": 4096}])
        baselines = [gemm_row("torch_fused", 60.0), gemm_row("nccl_serial", 90.0), {**gemm_row("torch_fused", 100.0), "m": 4096}]
        self.put("gemm-baselines-h200x2", baselines, software={"torch": "2.11.0+cu130"})
        row = self.row("GEMM with its collective")
        self.assertIn("1.60 (1.20 to 2.00), 2 shapes", row)
        self.assertIn("1.20 (1.10 to 1.30), 2 shapes", row)
        self.assertIn("Baselines: PyTorch 2.11.0.", summary_tables.families(self.root))

    def test_shapes_that_only_the_baseline_has_do_not_count(self):
        layer = {"tokens": 8, "heads": 2, "head_dim": 128, "dtype": "bf16", "ranks": 2}
        self.put("ulysses-h200x2", [{**layer, "variant": "fused", "microseconds": 10.0, "ratio": 1.05}])
        others = [{**layer, "variant": "torch_nccl", "microseconds": 15.0},
                  {**layer, "variant": "torch_nccl", "microseconds": 99.0, "tokens": 16}]  # fmt: skip
        self.put("ulysses-baselines-h200x2", others)
        self.assertIn("1.50 (1.50 to 1.50), 1 shape", self.row("Ulysses layer"))

    def test_files_of_older_code_are_counted(self):
        self.assertNotIn("The code has changed", summary_tables.families(self.root))
        (self.root / "bench/stale.json").write_text('{"gemm-h200x2": "hash"}', encoding="utf-8")
        self.assertIn("The code has changed since 1 of the", summary_tables.families(self.root))

    def test_the_raw_link_rate_is_that_of_all_links(self):
        (self.root / "profiles").mkdir()
        node = {"links": "18 NVLink, 26.56 GB/s each", "devices": [{"name": "NVIDIA H200", "multiprocessors": 132}] * 2}
        paths = [{"store_path": "store16", "drain_gb_per_s": {"value": 373.42}}]
        profile = self.root / "profiles/h200x2.json"
        profile.write_text(json.dumps({"node": node, "paths": paths}), encoding="utf-8")
        text = summary_tables.units(self.root)
        self.assertIn("| raw link rate | 478 |", text)
        self.assertIn("| drain rate R, 16-byte stores | 373.4 | payload that all 132 CTAs", text)
        self.assertIn("| drain rate R, bulk copies | – |", text)
        node["links"] = "unknown"
        profile.write_text(json.dumps({"node": node, "paths": paths}), encoding="utf-8")
        self.assertIn("| raw link rate | – |", summary_tables.units(self.root))


class Formats(unittest.TestCase):
    def test_a_missing_number_is_never_zero(self):
        for text in (results.number(None, 2), results.percent(None), results.microseconds({}),
                     results.with_note("–", "1.2")):  # fmt: skip
            self.assertEqual(text, results.MISSING)
        self.assertEqual(results.with_note("1.0", results.MISSING), "1.0")
        self.assertEqual(results.number(0, 1), "0.0")


if __name__ == "__main__":
    unittest.main()
