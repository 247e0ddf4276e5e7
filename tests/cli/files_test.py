"""Files that a command reads and writes: inputs stay, standard streams have a name, mistyped options are recognised."""

import os
import shutil
import subprocess
import unittest

import tool
from tool import ToolTest, run

PROFILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "profiles")
SAMPLES = os.path.join(PROFILES, "h200x2-samples.csv")
PROFILE = os.path.join(PROFILES, "h200x2.json")


class Files(ToolTest):
    def test_calibrate_keeps_its_input(self):
        samples = self.path("s.csv")
        shutil.copy(SAMPLES, samples)
        os.symlink(samples, self.path("link"))
        os.link(samples, self.path("hard"))
        before = self.read("s.csv")
        for name in ("s.csv", "link", "hard", "../" + os.path.basename(self.folder) + "/s.csv"):
            for outputs in ((name, "p.json"), ("s2.csv", name)):
                self.assert_fails(run("calibrate", "--node", f"recorded:{samples}", "--samples", self.path(outputs[0]),
                                      "-o", self.path(outputs[1])), 2, "named twice")
        self.assert_fails(run("calibrate", "--node", f"simulated:{samples}", "-o", samples, "--samples",
                              self.path("s2.csv")), 2, "named twice")
        self.assertEqual(self.read("s.csv"), before)

    def test_standard_streams(self):
        with open(SAMPLES, encoding="utf-8") as file:
            fitted = subprocess.run([tool.TOOL, "fit", "-", "-o", "-"], stdin=file, capture_output=True, text=True,
                                    check=True).stdout
        self.assert_code(run("fit", SAMPLES, "-o", self.path("p.json")), 0)
        self.assertEqual(fitted, self.read("p.json"))
        predicted = subprocess.run([tool.TOOL, "predict", "--platform", "-", "--producers", "8", "--bytes", "32KiB",
                                    "--gap", "1"], input=fitted, capture_output=True, text=True, check=False)
        self.assertEqual(predicted.returncode, 0, predicted.stderr)
        self.assert_fails(run("fit", SAMPLES, "-o", "-", "--json"), 2, "-o -")

    def test_validate_judges(self):
        words = ("validate", "--platform", PROFILE, "--samples", SAMPLES, "--group", "periodic, free-running")
        self.assert_code(run(*words, "--max-error", "50%"), 0)
        self.assert_code(run(*words, "--max-error", "0.0001"), 1)
        with open(SAMPLES, encoding="utf-8") as file:
            other = self.write("other.csv", file.read().replace("NVIDIA H200", "NVIDIA B300"))
        self.assert_fails(run("validate", "--platform", PROFILE, "--samples", other), 3, "NVIDIA B300")

    def test_unknown_option_names_the_nearest(self):
        self.assert_fails(run("fit", "s.csv", "--ouput", "p"), 2, "--ouput", "did you mean --output?")

    def test_workload_names_have_no_control_characters(self):
        file = self.write("w.json", '{"schema":"xstage.workload/1","name":"a\\u001b[2J","store_path":"store16",'
                          '"producers":8,"bytes_per_producer":32768,"gap_us":1}')
        self.assert_fails(run("audit", "--platform", PROFILE, file), 3, "control characters")


if __name__ == "__main__":
    tool.main()
