"""`xstage bench` on a machine without GPUs: a device error, and no file."""

import tool
from tool import ToolTest, run

BENCHMARKS = ("gemm", "attention", "ulysses", "moe")


class WithoutGpus(ToolTest):
    def setUp(self):
        super().setUp()
        cuda = self.json_of(run("devices", "--json"))["cuda"]
        if cuda["node"]["devices"]:
            self.skipTest("this machine has GPUs")
        self.reason = cuda["reason"]

    def test_every_benchmark_says_what_is_missing(self):
        for name in BENCHMARKS:
            for words in ([], ["--json", "--verify"], ["--devices", "0", "-o", self.path("result.json")]):
                with self.subTest(name, words=words):
                    result = run("bench", name, *words)
                    self.assert_fails(result, 4)
                    self.assertEqual(result.stderr, f"xstage: {self.reason}\n")
        self.assert_files()

    def test_mistakes_come_first(self):
        for name in BENCHMARKS:
            with self.subTest(name):
                self.assert_fails(run("bench", name, "--trials", "0"), 2, "--trials 0: from 1 to 10000")
                self.assert_fails(run("bench", name, "--devices", "first"), 2, "--devices")


if __name__ == "__main__":
    tool.main()
