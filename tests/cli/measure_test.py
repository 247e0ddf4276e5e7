"""measure, and the choices of calibrate: one point of a simulated or recorded node, its files, and what is refused."""

import csv
import io
import json
import os
import signal
import unittest

import tool
from tool import OnTerminal, ToolTest, run

SIMULATED = "simulated:h200x2"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROFILE = os.path.join(ROOT, "profiles", "h200x2.json")
SAMPLES = os.path.join(ROOT, "profiles", "h200x2-samples.csv")
NODE = ("measure", "--node", SIMULATED)
POINT = (*NODE, "--bytes", "32KiB", "--bursts", 16, "--repetitions", 2)


class Measure(ToolTest):
    def test_will_it_stall(self):
        held = run(*POINT, "--gap-us", 1)
        self.assert_code(held, 0)
        self.assertIn("Held back by the drain", held.stdout)
        free = run(*POINT, "--gap-us", 40)
        self.assert_code(free, 0)
        self.assertIn("Free-runs", free.stdout)

    def test_predictions_stand_beside_the_measurement(self):
        document = self.json_of(run(*POINT, "--gap-us", 5, "--platform", PROFILE, "--json"))
        self.assertEqual(document["schema"], "xstage.measurement/1")
        self.assertEqual((document["producers"], document["regime"], document["back_pressure"]),
                         (132, "free_running", "held_back"))
        issue = document["bursts"][0]["issue_us"]
        self.assertEqual(issue["repetitions"], 2)
        self.assertLess(issue["low"], issue["high"], "repetitions of a simulated node draw anew")
        self.assertAlmostEqual(issue["law"], issue["value"], delta=0.15 * issue["value"])
        self.assertIsNone(issue["corrected"])
        self.assertEqual(document, self.json_of(run(*POINT, "--gap-us", 5, "--profile", PROFILE, "--json")))
        table = run(*POINT, "--gap-us", 5, "--platform", PROFILE).stdout
        for text in ("95% interval", "law", "completion of one burst alone", "rate", "GB/s"):
            self.assertIn(text, table)
        self.assertNotIn("corrected", table, "nothing is corrected in the steady state")
        self.assertIn("corrected", run(*POINT, "--gap-us", 5, "--mode", "fixed_work", "--platform", PROFILE).stdout)
        fixed = self.json_of(run(*POINT, "--gap-us", 5, "--mode", "fixed_work", "--platform", PROFILE, "--json"))
        self.assertIsNotNone(fixed["bursts"][0]["period_us"]["corrected"])

    def test_one_repetition_has_no_interval(self):
        document = self.json_of(run(*POINT[:-1], 1, "--json"))
        self.assertEqual((document["bursts"][0]["issue_us"]["low"], document["stall_us"]["high"]), (None, None))

    def test_a_train_is_shown_burst_by_burst(self):
        words = ("measure", "--node", SIMULATED, "--bytes", "16KiB", "--gap-us", 2, "--mode", "train", "--repetitions", 2)
        document = self.json_of(run(*words, "--platform", PROFILE, "--json"))
        self.assertEqual([row["burst_index"] for row in document["bursts"]], list(range(12)))
        self.assertIsNotNone(document["bursts"][11]["issue_us"]["corrected"])
        self.assertRegex(run(*words).stdout, r"Held back by the drain, from burst \d+ on")

    def test_csv_has_a_line_for_each_quantity(self):
        result = run(*POINT, "--csv")
        self.assert_code(result, 0)
        rows = {row["quantity"]: row for row in csv.DictReader(io.StringIO(result.stdout))}
        self.assertEqual(rows["rate"]["unit"], "gb_per_s")
        self.assertGreater(float(rows["issue"]["measured"]), 0)
        self.assertEqual(rows["issue"]["law"], "")

    def test_samples_are_written_and_added_to(self):
        samples = self.path("s.csv")
        self.assert_code(run(*POINT, "-o", samples, "--append"), 0)
        first = self.read("s.csv")
        self.assertIn("# sweep: one point", first)
        self.assertIn("# rows: 6", first)
        self.assert_code(run(*POINT, "--gap-us", 9, "--held-out", "-o", samples, "--append"), 0)
        self.assertIn("# rows: 12", self.read("s.csv"))
        self.assertTrue(set(first.splitlines()[1:]) - {"# rows: 6"} <= set(self.read("s.csv").splitlines()))
        self.assert_code(run("fit", samples, "-o", self.path("p.json")), 0)
        rows = self.json_of(run("validate", "--platform", PROFILE, "--samples", samples, "--json"))["rows"]
        self.assertEqual(len(rows), 6, "those that were held out")
        self.assert_code(run(*POINT, "-o", samples), 0)
        self.assertIn("# rows: 6", self.read("s.csv"), "without --append the file is a new one")
        self.assert_files("s.csv", "p.json")

    def test_samples_of_another_node_are_not_mixed(self):
        samples = self.path("s.csv")
        self.assert_code(run(*POINT, "-o", samples), 0)
        before = self.read("s.csv")
        other = run("measure", "--node", "simulated:paper-8x148", "--producers", 8, "--bursts", 8, "--repetitions", 1,
                    "-o", samples, "--append")
        self.assert_fails(other, 3, "--append", "h200x2", "paper-8x148")
        self.assertEqual(self.read("s.csv"), before)

    def test_any_pair_of_devices(self):
        node = ("measure", "--node", "simulated:paper-8x148", "--producers", 8, "--bursts", 8, "--repetitions", 1)
        document = self.json_of(run(*node, "--source", 5, "--destination", 3, "-o", self.path("s.csv"), "--json"))
        self.assertEqual((document["source"], document["destination"]), (5, 3))
        rows = [line.split(",") for line in self.read("s.csv").splitlines() if not line.startswith("#")]
        column = rows[0].index
        self.assertEqual({(row[column("source_device")], row[column("destination_devices")]) for row in rows[1:]},
                         {("5", "3")})
        self.assertEqual(self.json_of(run(*node, "--destination", 0, "--json"))["source"], 1)

    def test_standard_output_is_one_thing(self):
        result = run(*POINT, "-o", "-")
        self.assert_code(result, 0)
        self.assertTrue(result.stdout.startswith("# schema: xstage.samples/1"))
        self.assertNotIn("Held back", result.stdout)
        self.assert_fails(run(*POINT, "-o", "-", "--json"), 2, "-o -")
        self.assert_fails(run(*POINT, "--csv", "--json"), 2, "--csv")
        self.assert_fails(run(*POINT, "--append"), 2, "-o")

    def test_recorded_samples_answer(self):
        recorded = ("measure", "--node", f"recorded:{SAMPLES}", "--producers", 132, "--bytes", "24KiB")
        document = self.json_of(run(*recorded, "--gap-us", 0, "--platform", PROFILE, "--json"))
        self.assertEqual(document["back_pressure"], "held_back")
        self.assertEqual(document["bursts"][0]["issue_us"]["repetitions"], 1)
        missing = run(*recorded, "--gap-us", 7)
        self.assert_fails(missing, 3, "do not hold --producers 132 --bytes 24576 --gap-us 7", "nearest first")
        nearest = missing.stderr.split("\n")[1].split()
        again = self.json_of(run("measure", "--node", f"recorded:{SAMPLES}", *nearest, "--json"))
        self.assertEqual(again["bytes_per_producer"], 24576)

    def test_what_breaks_a_rule_is_refused_with_the_value(self):
        for words, code, parts in (
                (("--producers", 0), 2, ("--producers '0'", "from 1")),
                (("--producers", 133), 3, ("producers 133", "132 multiprocessors")),
                (("--bytes", 100), 3, ("bytes 100", "16")),
                (("--bytes", "32KB"), 2, ("--bytes '32KB'",)),
                (("--gap-us", -1), 2, ("--gap-us '-1'",)),
                (("--path", "store32"), 2, ("store32", "store16")),
                (("--regime", "both"), 2, ("--regime 'both'", "aligned or free-running")),
                (("--mode", "isolated"), 2, ("--mode 'isolated'", "train")),
                (("--destination", 7), 3, ("destination 7", "2 device")),
                (("--source", 1, "--destination", 1), 2, ("--source 1", "two devices")),
                (("--repetitions", 0), 2, ("--repetitions '0'",)),
                (("--bursts", 0), 2, ("--bursts '0'",)),
                (("--platform", self.path("none.json")), 3, ("none.json",)),
                (("--platform", os.path.join(ROOT, "profiles", "paper-8x148.json")), 3, ("one machine",))):
            with self.subTest(words):
                self.assert_fails(run(*NODE, *words, "-o", self.path("s.csv")), code, *parts)
                self.assert_files()

    def test_inputs_are_not_overwritten(self):
        self.write("s.csv", "old")
        self.assert_fails(run("measure", "--node", "recorded:" + self.path("s.csv"), "-o", self.path("s.csv")), 2, "twice")
        self.assertEqual(self.read("s.csv"), "old")

    def test_an_interrupt_leaves_nothing_and_old_files_as_they_were(self):
        for old in ((), ("-o", self.path("s.csv"), "--append")):
            with self.subTest(old):
                if old:
                    self.assert_code(run(*POINT, *old), 0)
                before = self.read("s.csv") if old else ""
                measurement = OnTerminal(*NODE, "--repetitions", 1000, *(old or ("-o", self.path("s.csv"))))
                measurement.wait_until_shown("/3000")
                measurement.process.send_signal(signal.SIGINT)
                code, output, shown = measurement.finish()
                self.assertEqual((code, output), (4, ""))
                self.assertIn("interrupted", shown)
                self.assert_files(*(["s.csv"] if old else []))
                self.assertEqual(self.read("s.csv") if old else "", before)

    def test_cuda_is_the_default_node(self):
        cuda = self.json_of(run("devices", "--json"))["cuda"]
        if cuda["usable"]:
            self.skipTest("this machine has usable GPUs")
        self.assert_code(run("measure", "--producers", 4), 4)


class Choices(ToolTest):
    def calibrate(self, *words, node=SIMULATED):
        return run("calibrate", "--node", node, "-o", self.path("p.json"), "--samples", self.path("s.csv"), *words)

    def test_a_chosen_count_decides_what_the_audit_could_not(self):
        audit = ("audit", "--producers", 16, "--bytes", "96KiB", "--gap", 100, "--json")
        before = json.loads(run(*audit, "--platform", PROFILE).stdout)
        self.assertEqual(before["aligned"]["verdict"], "cannot decide")
        self.assert_code(self.calibrate("--quick", "--producers", 16, "--bytes", "32KiB,64KiB,96KiB,128KiB,192KiB,256KiB",
                                        "--gap-us", "0,20", "--regime", "aligned"), 0)
        self.assertIn("# sweep: chosen", self.read("s.csv"))
        after = json.loads(run(*audit, "--platform", self.path("p.json")).stdout)
        self.assertIn(after["aligned"]["verdict"], ("piggyback", "reshape"))
        rows = [line.split(",") for line in self.read("s.csv").splitlines() if not line.startswith("#")]
        column = rows[0].index
        held_out = [row for row in rows[1:] if row[column("held_out")] == "true"]
        self.assertEqual({row[column("regime")] for row in held_out}, {"aligned"})
        self.assertEqual({float(row[column("requested_gap_us")]) for row in held_out}, {0, 20})

    def test_choices_that_break_a_rule(self):
        for words, code, parts in ((("--producers", "48,133"), 3, ("producers 133",)),
                                   (("--producers", "48,,64"), 2, ("48,,64",)),
                                   (("--bytes", "100"), 3, ("bytes 100",)),
                                   (("--path", "bulk", "--quick"), 3, ("bulk", "quick")),
                                   (("--destination", "2"), 3, ("destination 2",)),
                                   (("--source", "1", "--destination", "1"), 2, ("two devices",)),
                                   (("--regime", "both"), 2, ("both",))):
            with self.subTest(words):
                self.assert_fails(self.calibrate(*words), code, *parts)
                self.assert_files()
        self.assert_fails(self.calibrate("--producers", "48", "--results", self.path("r.json"), "--simulated", "h200x2",
                                         node=f"recorded:{SAMPLES}"), 2, "--results")
        self.assert_fails(self.calibrate("--producers", "47", node=f"recorded:{SAMPLES}"), 3, "producers 47", "132")
        self.assert_files()

    def test_recorded_samples_are_narrowed(self):
        self.assert_code(self.calibrate("--path", "bulk", node=f"recorded:{SAMPLES}"), 0)
        rows = [line for line in self.read("s.csv").splitlines() if not line.startswith("#")][1:]
        self.assertTrue(rows and all(row.startswith("bulk,") for row in rows))


if __name__ == "__main__":
    tool.main()
