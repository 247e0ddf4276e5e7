"""What the tool says before it touches a file: help, version, usage errors, devices."""

import tool
from tool import ToolTest, run

VERBS = (("devices",), ("calibrate",), ("fit",), ("predict",), ("validate",), ("audit",), ("bench", "gemm"))


class Usage(ToolTest):
    def test_help_lists_every_verb_and_the_exit_codes(self):
        result = run("--help")
        self.assert_code(result, 0)
        for verb in VERBS:
            self.assertIn(verb[0], result.stdout)
            verb_help = run(*verb, "--help")
            self.assert_code(verb_help, 0)
            self.assertIn("--json", verb_help.stdout)
        self.assertIn("Exit codes", result.stdout)

    def test_help_of_bench_lists_what_can_be_measured(self):
        result = run("bench", "--help")
        self.assert_code(result, 0)
        self.assertIn("gemm", result.stdout)

    def test_version_names_the_commit(self):
        result = run("--version")
        self.assert_code(result, 0)
        self.assertRegex(result.stdout, r"^xstage \d+\.\d+\.\d+ \(commit ([0-9a-f]{40}(-dirty)?|unknown)\)\n$")

    def test_usage_errors(self):
        for words in ([], ["fly"], ["predict"], ["fit", "s.csv"], ["calibrate", "--node", "cuda", "-o", "p.json"],
                      ["predict", "--platform", "p", "--producers", "8", "--bytes", "32KB", "--gap", "1"],
                      ["predict", "--platform", "p", "--producers", "8", "--bytes", "32", "--gap", "2:1:1"],
                      ["audit", "--platform", "p", "--gap", "1"], ["devices", "--unknown"],
                      ["bench"], ["bench", "gemm", "--ops", "broadcast"], ["bench", "gemm", "--shapes", "8192"],
                      ["bench", "gemm", "--plan", "windows=2"], ["bench", "attention", "--plan", "window=2"]):
            with self.subTest(words):
                self.assert_fails(run(*words), 2)

    def test_devices_answers_without_gpus(self):
        document = self.json_of(run("devices", "--json"))
        self.assertIn("h200x2", document["simulated_presets"])
        self.assertEqual(document["cuda"]["usable"], document["cuda"]["reason"] == "")
        self.assertIn("simulated:h200x2", run("devices").stdout)


if __name__ == "__main__":
    tool.main()
