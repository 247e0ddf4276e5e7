"""Numbers are decimal, on the command line and in files: 010 is ten, 0x10 is refused with the rule."""

import json
import os
import re

import tool
from tool import ToolTest, run

PROFILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "profiles")
PROFILE = os.path.join(PROFILES, "h200x2.json")
SAMPLES = os.path.join(PROFILES, "h200x2-samples.csv")
PREDICT = {"--producers": "132", "--bytes": "32000", "--gap": "1"}
AUDIT = {**PREDICT, "--coincident": "40", "--staging-slots": "2"}
TRIALS = ("gemm", "attention", "ulysses", "moe")


def words_of(verb, options):
    return [*verb, "--platform", PROFILE, *(word for option in options.items() for word in option)]


# verb, its other options, option, ten in decimal with a leading zero, the same number as C would write it
ANSWERS = (
    (("predict",), PREDICT, "--producers", "010", "0xA"),
    (("predict",), PREDICT, "--producers", "4,010", "4,0xA"),
    (("predict",), PREDICT, "--producers", "08:010:01", "8:0xA:1"),
    (("predict",), PREDICT, "--bytes", "0160", "0xA0"),
    (("predict",), PREDICT, "--bytes", "010k", "0xAk"),
    (("predict",), PREDICT, "--gap", "010", "0xA"),
    (("predict",), PREDICT, "--gap", "0:010:02", "0:0xA:2"),
    (("predict",), PREDICT, "--gap", "1:010:x02", "1:10:x0x2"),
    (("predict",), PREDICT, "--bursts", "010", "0xA"),
    (("audit",), AUDIT, "--producers", "0100", "0x64"),
    (("audit",), AUDIT, "--bytes", "0160", "0xA0"),
    (("audit",), AUDIT, "--gap", "010", "0xA"),
    (("audit",), AUDIT, "--coincident", "010", "0xA"),
    (("audit",), AUDIT, "--staging-slots", "010", "0xA"),
    (("audit",), AUDIT, "--staging-slots", "02.5", "nan"),
)


def decimal(text):
    return re.sub(r"\b0+(?=\d)", "", text).replace("x02", "x2")


class CommandLine(ToolTest):
    def test_leading_zeros_mean_nothing(self):
        for verb, others, option, padded, _ in ANSWERS:
            with self.subTest(verb, option=option, value=padded):
                plain = run(*words_of(verb, {**others, option: decimal(padded)}), "--json")
                zeros = run(*words_of(verb, {**others, option: padded}), "--json")
                self.assertNotIn(plain.returncode, (2, 3, 4), plain.stderr)
                self.assertEqual((zeros.returncode, zeros.stdout), (plain.returncode, plain.stdout), zeros.stderr)

    def test_hexadecimal_is_refused(self):
        for verb, others, option, _, hexadecimal in ANSWERS:
            with self.subTest(verb, option=option, value=hexadecimal):
                self.assert_fails(run(*words_of(verb, {**others, option: hexadecimal})), 2, option, "must be")

    def test_hexadecimal_is_refused_before_anything_is_measured(self):
        outputs = ("-o", self.path("p.json"), "--samples", self.path("s.csv"))
        for verb, others in (("measure", ()), ("calibrate", outputs)):
            own = ("--bursts", "--repetitions") if verb == "measure" else ()
            for option in ("--producers", "--bytes", "--gap-us", "--source", "--destination", *own):
                with self.subTest(verb, option=option):
                    self.assert_fails(run(verb, "--node", "simulated:h200x2", option, "0x10", *others), 2, option,
                                      "must be")
        self.assert_files()

    def test_numbers_of_the_benchmarks(self):
        for name in TRIALS:
            with self.subTest(name):
                # In octal 020000 would be 8192, a number of trials that is allowed.
                self.assert_fails(run("bench", name, "--trials", "020000"), 2, "--trials 20000: from 1 to 10000")
                for option, value in (("--trials", "0x10"), ("--devices", "0,0x1"), ("--shapes", "0x10x0x10")):
                    self.assert_fails(run("bench", name, "--list", option, value), 2, option)
                self.assert_code(run("bench", name, "--list", "--trials", "08", "--devices", "00,01"), 0)
        rows = self.json_of(run("bench", "moe", "--list", "--tokens", "010", "--shapes", "DeepSeek-V3"))["rows"]
        self.assertEqual({row["tokens"] for row in rows}, {10})
        self.assert_fails(run("bench", "moe", "--list", "--tokens", "0x10"), 2, "0x10")

    def test_no_other_option_reads_numbers(self):
        """Every number that the help shows is one of the tables here; a new one has to be added to them."""
        known = {"--bursts", "--producers", "--coincident", "--staging-slots", "--trials", "--devices"}
        verbs = re.findall(r"^  ([a-z]+) ", run("--help").stdout.split("Subcommands:")[1], re.MULTILINE)
        self.assertIn("predict", verbs)
        for verb in (*((verb,) for verb in verbs), *(("bench", name) for name in TRIALS)):
            shown = re.findall(r"^ +(?:-\w,)?(--[\w-]+) (?:U?INT|FLOAT)\b", run(*verb, "--help").stdout, re.MULTILINE)
            self.assertLessEqual(set(shown), known, verb)


class InFiles(ToolTest):
    def fails_with(self, name, text, words, *parts):
        self.assert_fails(run(*(self.write(name, text) if word == "FILE" else word for word in words)), 3, *parts)

    def test_samples(self):
        with open(SAMPLES, encoding="utf-8") as file:
            text = file.read()
        lines = text.splitlines()
        names = next(index for index, line in enumerate(lines) if not line.startswith("#"))
        column = lines[names].split(",").index("producers")

        def with_producers(change):
            cells = lines[names + 1].split(",")
            cells[column] = change(cells[column])
            return "\n".join([*lines[:names + 1], ",".join(cells), *lines[names + 2:]]) + "\n"

        fit = ("fit", "FILE", "-o", "-")
        plain = run("fit", SAMPLES, "-o", "-")
        zeros = run("fit", self.write("zeros.csv", with_producers(lambda cell: "0" + cell)), "-o", "-")
        self.assertEqual((zeros.returncode, zeros.stdout), (0, plain.stdout), zeros.stderr)
        self.fails_with("hex.csv", with_producers(lambda cell: hex(int(cell))), fit, "producers", "decimal integer")
        rows = re.search(r"^# rows: (\d+)$", text, re.MULTILINE)
        self.fails_with("rows.csv", text.replace(rows[0], f"# rows: {int(rows[1]):#x}"), fit, "rows", "decimal")

    def test_json(self):
        """JSON has neither form; both are refused, with the place."""
        workload = json.dumps({"schema": "xstage.workload/1", "name": "a", "store_path": "store16", "producers": 10,
                               "bytes_per_producer": 32768, "gap_us": 1})
        for number in ("010", "0xA", '"10"'):
            with self.subTest(number):
                self.fails_with("w.json", workload.replace('"producers": 10', f'"producers": {number}'),
                                ("audit", "--platform", PROFILE, "FILE"), "w.json")


if __name__ == "__main__":
    tool.main()
