"""`xstage predict` in a shell: a closed pipe, a full disk, and rows that a million-row answer hands out one by one."""

import os
import signal
import subprocess

import tool
from tool import ToolTest, run

PROFILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "profiles", "h200x2.json")
POINT = ("predict", "--platform", PROFILE, "--producers", "132", "--bytes", "32KiB")
MANY = (*POINT, "--gap", "0:99999:1", "--bursts", "10")  # a million rows
FORMS = ((), ("--csv",), ("--json",))


class Streams(ToolTest):
    def test_a_closed_pipe_ends_it_quietly(self):
        for form in FORMS:
            # True: as a shell starts it. False: below a parent that ignores the signal, which a child inherits.
            for restore in (True, False):
                with self.subTest(form, restore=restore):
                    with subprocess.Popen([tool.TOOL, *MANY, *form], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          restore_signals=restore) as process:
                        self.assertTrue(process.stdout.readline())
                        process.stdout.close()
                        self.assertEqual(process.stderr.read(), b"")
                        self.assertEqual(process.wait(), -signal.SIGPIPE)

    def test_a_full_disk_is_an_error(self):
        for form in FORMS:
            with self.subTest(form), open("/dev/full", "w", encoding="utf-8") as full:
                result = run(*MANY, *form, stdout=full)
                self.assertEqual(result.returncode, 3)
                self.assertIn("standard output", result.stderr)

    def test_rows_have_a_limit(self):
        self.assert_fails(run(*POINT, "--gap", "0:99999:1", "--bursts", "10000"), 2, "1000000000 rows", "1000000")
        self.assert_fails(run(*POINT, "--gap", "0:1000000000:1"), 2, "0:1000000000:1", "100000")


class Answers(ToolTest):
    def test_lists(self):
        words = ("predict", "--platform", PROFILE, "--producers", "8,16,32", "--bytes", "16k:256k:x2", "--gap", "0:8:4")
        lines = self.csv(words)
        points = [(int(row["producers"]), int(row["bytes_per_producer"]), int(row["gap_us"])) for row in lines]
        self.assertEqual(points, [(producers, kibibytes * 1024, gap) for producers in (8, 16, 32)
                                  for kibibytes in (16, 32, 64, 128, 256) for gap in (0, 4, 8)])
        self.assertEqual(self.json_of(run(*words, "--json"))["points"][4]["bytes_per_producer"], 256 * 1024)

    def test_beyond_the_largest_fitted_size(self):
        lines = self.csv((*POINT[:-1], "128KiB,256KiB", "--gap", "10"))
        self.assertEqual([row["extrapolated_beyond_bytes"] for row in lines], ["", "131072"])
        table = run(*POINT[:-1], "256KiB", "--gap", "10").stdout
        self.assertIn("the largest fitted size is 128 KiB", table)

    def test_waiting_for_completion_is_never_faster(self):
        for regime in ((), ("--aligned",), ("--bursts", "6")):
            producers = "8:132:4" if not regime else "33:132:9"
            lines = self.csv(("predict", "--platform", PROFILE, "--producers", producers, "--bytes", "64:512k:x4",
                              "--gap", "0,0.5,4,40", *regime))
            for row in lines:
                self.assertGreaterEqual(float(row["completion_coupled_period_us"]) * (1 + 1e-12),
                                        float(row["period_us"]), row)
                if not regime:
                    self.assertGreaterEqual(float(row["fixed_work_completion_coupled_period_us"]),
                                            float(row["fixed_work_period_us"]), row)

    def csv(self, words):
        result = run(*words, "--csv")
        self.assert_code(result, 0)
        names, *rows = [line.split(",") for line in result.stdout.splitlines()]
        return [dict(zip(names, row, strict=True)) for row in rows]


if __name__ == "__main__":
    tool.main()
