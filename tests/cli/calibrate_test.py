"""calibrate, fit and validate on the simulated and the recorded node: the loop closes, and a failed run leaves nothing."""

import json
import os
import shutil
import signal
import tempfile
import unittest

import tool
from tool import OnTerminal, ToolTest, run

SIMULATED = "simulated:h200x2"


class Calibrated(ToolTest):
    """One quick calibration of the simulated node, shared by the tests that read its files."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="xstage_cli_shared_")
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.profile = os.path.join(cls.shared, "profile.json")
        cls.samples = os.path.join(cls.shared, "samples.csv")
        cls.result = run("calibrate", "--node", SIMULATED, "--quick", "-o", cls.profile, "--samples", cls.samples,
                         "--json")

    def test_reports_json_and_nothing_else(self):
        document = self.json_of(self.result)
        self.assertEqual(self.result.stderr, "", "no progress bar in a pipe")
        self.assertEqual(document["schema"], "xstage.calibration/1")
        self.assertGreater(document["samples"], 0)
        self.assertEqual(sorted(os.listdir(self.shared)), ["profile.json", "samples.csv"])

    def test_files_say_how_they_were_made(self):
        with open(self.samples, encoding="utf-8") as file:
            self.assertIn(f"calibrate --node {SIMULATED} --quick", file.read())

    def test_fit_of_the_samples_is_the_same_profile(self):
        self.assert_code(run("fit", self.samples, "-o", self.path("again.json")), 0)
        with open(self.profile, encoding="utf-8") as file:
            self.assertEqual(self.read("again.json"), file.read())
        self.assert_files("again.json")

    def test_recorded_node_replays_the_samples(self):
        document = self.json_of(run("calibrate", "--node", f"recorded:{self.samples}", "-o", self.path("p.json"),
                                    "--samples", self.path("s.csv"), "--json"))
        paths = document["profile"]["paths"]
        self.assertEqual(paths, self.json_of(self.result)["profile"]["paths"])

    def test_validate_compares_the_held_out_samples(self):
        document = self.json_of(run("validate", "--platform", self.profile, "--samples", self.samples, "--json"))
        self.assertTrue(document["rows"])
        self.assertTrue(all(row["held_out"] for row in document["rows"]))
        every = self.json_of(run("validate", "--platform", self.profile, "--samples", self.samples, "--all", "--json"))
        self.assertGreater(len(every["rows"]), len(document["rows"]))
        table = run("validate", "--platform", self.profile, "--samples", self.samples, "--rows")
        self.assert_code(table, 0)
        self.assertIn("median", table.stdout)
        group = self.json_of(run("validate", "--platform", self.profile, "--samples", self.samples, "--group",
                                 "periodic, aligned", "--json"))
        self.assertEqual({(row["mode"], row["regime"]) for row in group["rows"]}, {("periodic", "aligned")})
        self.assert_fails(run("validate", "--platform", self.profile, "--samples", self.samples, "--group", "nothing"),
                          3, "'nothing'")
        self.assertIn("microseconds", table.stdout)

    def test_validate_shows_the_law_beside_its_correction(self):
        errors = self.json_of(run("validate", "--platform", self.profile, "--samples", self.samples,
                                  "--json"))["errors"]
        by_name = {(error["group"], error["quantity"]): error for error in errors}
        train = by_name["16-byte stores, train, free-running", "issue time, share of the drain time"]
        self.assertEqual(train["correction"], "uneven drain")
        self.assertEqual(train["corrected_samples"], train["samples"])
        self.assertNotEqual(train["corrected_worst_error"], train["worst_error"])
        slowest = by_name["16-byte stores, periodic, aligned", "slowest producer's issue time, share of the drain time"]
        self.assertIsNone(slowest["correction"])
        self.assertIsNone(slowest["corrected_median_error"])
        for text in ("law:", "corrected:", "tail of fixed work", "uneven drain", "slowest producer's issue time"):
            self.assertIn(text, run("validate", "--platform", self.profile, "--samples", self.samples).stdout)

    def test_validate_compares_a_simulated_node_with_the_samples(self):
        result = run("validate", "--samples", self.samples, "--simulated", "h200x2", "--json")
        simulated = self.json_of(result)["simulated"]
        overall = [distance for distance in simulated["distances"] if distance["group"] == "all"]
        self.assertEqual([distance["quantity"] for distance in overall[:2]],
                         ["mean issue time", "slowest producer's issue time"])
        for distance in overall:  # the samples come from the same preset
            self.assertEqual((distance["fitted_worst"] or 0, distance["held_out_worst"] or 0), (0, 0))
        self.assertTrue(all(distance["fitted_samples"] and distance["held_out_samples"] for distance in overall))
        self.assert_fails(run("validate", "--samples", self.samples), 2, "--platform", "--simulated")
        self.assert_fails(run("validate", "--samples", self.samples, "--simulated", "h200x2", "--rows"), 2, "--rows")

    def test_results_file_can_be_had_again_from_the_samples(self):
        arguments = ("calibrate", "--node", f"recorded:{self.samples}", "-o", self.path("p.json"), "--samples",
                     self.path("s.csv"), "--simulated", "h200x2", "--results", self.path("r.json"))
        self.assert_code(run(*arguments), 0)
        first = json.loads(self.read("r.json"))
        rows = {variant: [row for row in first["rows"] if row["variant"] == variant]
                for variant in ("remote", "local", "simulated")}
        self.assertTrue(rows["remote"] and rows["local"])
        # The samples are of the same preset, so that its rows are the remote ones once more.
        self.assertEqual([{**row, "variant": "remote"} for row in rows["simulated"]], rows["remote"])
        self.assertTrue(first["held_out_errors"])
        self.assertEqual(first["simulated"]["node"], "h200x2")
        self.assert_code(run(*arguments), 0)
        self.assertEqual(json.loads(self.read("r.json")), first)

    def test_predict_and_audit_use_the_profile(self):
        prediction = self.json_of(run("predict", "--platform", self.profile, "--producers", 132, "--bytes", "32KiB",
                                      "--gap", "0:16:4", "--json"))
        periods = [row["period_us"] for row in prediction["rows"]]
        self.assertEqual(periods, sorted(periods))
        short = run("audit", "--platform", self.profile, "--producers", 132, "--bytes", "32KiB", "--gap", 1, "--json")
        self.assertEqual(self.json_of(short, 1)["free_running"]["verdict"], "reshape")
        long = run("audit", "--platform", self.profile, "--producers", 132, "--bytes", "32KiB", "--gap", 100,
                   "--regime", "free-running", "--json")
        self.assertEqual(self.json_of(long)["free_running"]["verdict"], "piggyback")

    def test_damaged_samples_leave_no_profile(self):
        with open(self.samples, encoding="utf-8") as file:
            text = file.read()
        damaged = {"truncated.csv": text[:len(text) - 20], "empty.csv": "", "binary.csv": "\x00\x01\x02",
                   "header_only.csv": "\n".join(line for line in text.splitlines() if line.startswith("#"))}
        for name, content in damaged.items():
            with self.subTest(name):
                file = self.write(name, content)
                self.assert_fails(run("fit", file, "-o", self.path("p.json")), 3, file)
        self.assert_files(*damaged)

    def test_damaged_profile_is_bad_input(self):
        with open(self.profile, encoding="utf-8") as file:
            text = file.read()
        for name, content in {"truncated": text[:len(text) // 2], "array": "[]", "nan": "NaN", "deep": "[" * 100000,
                              "negative": text.replace('"multiprocessors": 132', '"multiprocessors": -132')}.items():
            with self.subTest(name):
                file = self.write(name, content)
                result = run("predict", "--platform", file, "--producers", 4, "--bytes", "32KiB", "--gap", 1)
                self.assert_fails(result, 3, file)


class Failing(ToolTest):
    def calibrate(self, node=SIMULATED, profile="p.json", samples="s.csv"):
        return run("calibrate", "--node", node, "--quick", "-o", self.path(profile), "--samples", self.path(samples))

    def test_unwritable_output_is_found_before_the_measurement(self):
        # /proc refuses new files from everyone, the superuser included.
        for profile, samples in (("/proc/p.json", "s.csv"), ("p.json", "/proc/s.csv"), ("missing/p.json", "s.csv"),
                                 ("p.json", "missing/s.csv"), (self.folder, "s.csv")):
            with self.subTest(profile=profile, samples=samples):
                result = self.calibrate(profile=profile, samples=samples)
                self.assert_fails(result, 3)
                self.assertTrue("/proc/" in result.stderr or "missing" in result.stderr or self.folder in result.stderr)
                self.assert_files()

    def test_profile_and_samples_must_differ(self):
        self.assert_fails(self.calibrate(profile="same", samples="same"), 2, "named twice")
        self.assert_files()

    def test_results_need_measured_and_simulated_samples(self):
        def results(*more, node="recorded:s.csv"):
            return run("calibrate", "--node", node, "-o", self.path("p.json"), "--samples", self.path("s.csv"), *more)
        self.assert_fails(results("--results", self.path("r.json")), 2, "--simulated")
        self.assert_fails(results("--simulated", "h200x2"), 2, "--results")
        both = ("--results", self.path("r.json"), "--simulated", "h200x2")
        self.assert_fails(results(*both, node=SIMULATED), 2, SIMULATED)
        self.assert_fails(results("--results", self.path("p.json"), "--simulated", "h200x2"), 2, "named twice")
        self.assert_fails(results("--results", self.path("r.json"), "--simulated", "no-such-preset"), 3,
                          "no-such-preset")
        self.assert_files()

    def test_unknown_nodes(self):
        self.assert_fails(self.calibrate(node="quantum"), 2, "quantum", "simulated:PRESET")
        self.assert_fails(self.calibrate(node="simulated:"), 2)
        self.assert_fails(self.calibrate(node="simulated:no-such-preset"), 3, "no-such-preset")
        self.assert_fails(self.calibrate(node="recorded:" + self.path("none.csv")), 3, "none.csv")
        self.assert_files()

    def test_full_disk_behind_stdout_is_reported(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = run("devices", stdout=full)
        self.assertEqual(result.returncode, 3)
        self.assertIn("standard output", result.stderr)

    def test_node_without_gpus_is_a_device_error(self):
        cuda = self.json_of(run("devices", "--json"))["cuda"]
        if cuda["usable"]:
            self.skipTest("this machine has usable GPUs")
        self.assert_fails(self.calibrate(node="cuda"), 4, cuda["reason"])
        self.assert_files()


class Interrupted(ToolTest):
    """A signal after the first experiment has begun; the terminal's progress bar says when."""

    def interrupt(self, number):
        run_ = OnTerminal("calibrate", "--node", SIMULATED, "-o", self.path("p.json"), "--samples", self.path("s.csv"))
        run_.wait_until_shown("0/")
        run_.process.send_signal(number)
        return run_.finish()

    def test_nothing_is_written(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                code, output, shown = self.interrupt(number)
                self.assertEqual(code, 4)
                self.assertEqual(output, "")
                self.assertIn("interrupted; nothing was written", shown)
                self.assert_files()

    def test_old_files_stay(self):
        self.write("p.json", "old profile")
        self.write("s.csv", "old samples")
        self.assertEqual(self.interrupt(signal.SIGINT)[0], 4)
        self.assertEqual(self.read("p.json"), "old profile")
        self.assertEqual(self.read("s.csv"), "old samples")
        self.assert_files("p.json", "s.csv")


if __name__ == "__main__":
    tool.main()
