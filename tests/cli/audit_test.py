"""xstage audit: what it prints can be typed back, and its exit code says what it knows."""

import json
import os
import random
import re
import subprocess

import tool
from tool import ToolTest, run

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROFILE = os.path.join(ROOT, "profiles", "h200x2.json")
WORKLOADS = os.path.join(ROOT, "examples", "workloads")
# A value that passes, as the report words it, and the option that takes it.
PASSES = (
    (r"A gap of at least (\S+) microseconds passes", "--gap"),
    (r"A gap of (\S+) microseconds still passes", "--gap"),
    (r"A tile of at most (\d+) remote bytes passes", "--bytes"),
    (r"At most (\d+) CTAs that store remote tiles pass", "--producers"),
    (r"Passes if at most (\d+) reach their tile boundary together", "--coincident"),
)


def audit(options, *more, platform=PROFILE):
    words = [str(word) for option in options.items() for word in option]
    return run("audit", "--platform", platform, *words, *more)


def random_options(source):
    producers = source.randint(1, 132)
    options = {"--producers": producers, "--bytes": 16 * source.randint(64, 8192),
               "--gap": repr(round(10 ** source.uniform(-1, 2.5), source.randint(0, 6))),
               "--path": source.choice(["store4", "store8", "store16", "bulk"])}
    if source.random() < 0.4:
        options["--coincident"] = source.randint(1, producers)
    return options


class TypedBack(ToolTest):
    def test_sixty_random_audits(self):
        source = random.Random(20)
        typed = 0
        for _ in range(60):
            options = random_options(source)
            for regime in ("free-running", "aligned"):
                result = audit(options, "--regime", regime)
                self.assertIn(result.returncode, (0, 1, 5), result.stderr)
                part = re.search(rf"of {regime} producers, one knob.*?(?=\n\n)", result.stdout, re.DOTALL)
                for pattern, option in PASSES:
                    for value in re.findall(pattern, part[0] if part else ""):
                        changed = {**options, option: value}
                        if int(changed.get("--coincident", 0)) > int(changed["--producers"]):
                            changed["--coincident"] = changed["--producers"]
                        with self.subTest(options=options, regime=regime, option=option, value=value):
                            typed += 1
                            self.assert_code(audit(changed, "--regime", regime), 0)
        self.assertGreater(typed, 100)


class Report(ToolTest):
    OPTIONS = {"--producers": 132, "--bytes": "32KiB", "--gap": "5.5"}

    def test_a_margin_that_rounds_to_zero_keeps_its_sign(self):
        recovery = json.loads(audit(self.OPTIONS, "--json").stdout)["operating_point"]["recovery_gap_us"]
        for difference, sign, word in ((-1e-4, "-", "VIOLATED"), (1e-4, "+", "holds")):
            shown = audit({**self.OPTIONS, "--gap": repr(recovery + difference)}, "--regime", "free-running").stdout
            line = re.search(r"rate bound: gap beyond .*", shown)[0]
            self.assertRegex(line, rf"\{sign}0\.0001\d* {word}")
            self.assertNotRegex(shown, r"-0\.?0* ")


class ExitCodes(ToolTest):
    def undecided_profile(self):
        """The shipped profile without capacities: Q is not known."""
        with open(PROFILE, encoding="utf-8") as file:
            profile = json.load(file)
        for path in profile["paths"]:
            path["capacity"] = []
        return self.write("p.json", json.dumps(profile))

    def test_fails_and_cannot_decide_differ(self):
        profile = self.undecided_profile()
        options = {"--producers": 132, "--bytes": "32KiB", "--gap": 104}
        undecided = audit(options, platform=profile)
        self.assert_code(undecided, 5)
        self.assertIn("Test (both regimes): cannot decide", undecided.stdout)
        document = self.json_of(audit(options, "--json", platform=profile), 5)
        self.assertEqual((document["passed"], document["outcome"]), (False, "cannot decide"))
        self.assert_code(audit(options, "--regime", "free-running", platform=profile), 0)
        # The rate bound fails whatever Q is.
        self.assert_code(audit({**options, "--gap": 1}, platform=profile), 1)
        # What the capacity costs is not known, so a tolerance that the rate's price keeps decides nothing.
        self.assert_code(audit({**options, "--gap": 10.9}, "--max-stall", "50%", platform=profile), 5)
        self.assert_code(audit({**options, "--gap": 1}, "--max-stall", "50%", platform=profile), 1)

    def test_help_names_the_code(self):
        self.assertIn("5 audit", run("--help").stdout)


class Undecided(ToolTest):
    RANGE = r"The profile cannot decide (\d+)(?: to (\d+))?\. Not known: (.+?)\. Measure it: xstage (measure .+?)(?= The profile|$)"

    def test_ranges_have_both_ends_a_reason_and_a_measurement(self):
        options = {"--producers": 132, "--bytes": 98304, "--gap": 100, "--regime": "aligned"}
        shown = audit(options).stdout
        ranges = re.findall(r"coincident producers.*", shown)
        found = re.findall(self.RANGE, ranges[0])
        self.assertTrue(found, shown)
        for low, high, reason, command in found:
            self.assertIn("Q(", reason)
            for count in {low, high or low}:
                self.assert_code(audit({**options, "--coincident": count}), 5)
            self.assertIn(f"--producers {high or low} --bytes 98304 --gap-us 100 --path store16 --regime aligned", command)

    def test_the_measurement_runs(self):
        document = self.json_of(audit({"--producers": 16, "--bytes": "96KiB", "--gap": 100}, "--json"), 5)
        self.assertIsNone(document["free_running"]["measurement"])
        command = document["aligned"]["measurement"].split()
        self.assertEqual(command[:2], ["xstage", "measure"])
        self.assert_code(run(*("simulated:h200x2" if word == "NODE" else word for word in command[1:])), 0)


class FedBack(ToolTest):
    def test_json_is_a_workload(self):
        for options in ({"--producers": 132, "--bytes": "32KiB", "--gap": "5.5", "--staging-slots": "2.5"},
                        {"--producers": 100, "--bytes": 20000, "--gap": "0.1", "--coincident": 40, "--path": "bulk"}):
            first = audit(options, "--json")
            self.assertIn(first.returncode, (0, 1, 5), first.stderr)
            again = run("audit", "--platform", PROFILE, self.write("out.json", first.stdout), "--json")
            self.assertEqual((again.returncode, again.stdout), (first.returncode, first.stdout), again.stderr)
            with open(self.path("out.json"), encoding="utf-8") as file:
                piped = subprocess.run([tool.TOOL, "audit", "--platform", PROFILE, "-", "--json"], stdin=file,
                                       capture_output=True, text=True, check=False)
            self.assertEqual((piped.returncode, piped.stdout), (first.returncode, first.stdout), piped.stderr)

    def test_a_damaged_one_names_the_place(self):
        document = json.loads(audit({"--producers": 1, "--bytes": 32, "--gap": 1}, "--json").stdout)
        document["workload"]["gap_us"] = -1
        self.assert_fails(run("audit", "--platform", PROFILE, self.write("w.json", json.dumps(document))), 3,
                          "workload", "gap_us", "-1")


class Names(ToolTest):
    def test_control_characters_in_profiles_and_samples_are_refused(self):
        with open(PROFILE, encoding="utf-8") as file:
            profile = json.load(file)
        with open(os.path.join(ROOT, "profiles", "h200x2-samples.csv"), encoding="utf-8") as file:
            samples = file.read()
        for character in ("\x1b", "\x7f", "\u009b"):
            profile["node"]["name"] = f"a{character}2J"
            file = self.write("p.json", json.dumps(profile))
            self.assert_fails(audit(Report.OPTIONS, platform=file), 3, "name", "control characters")
            file = self.write("s.csv", re.sub(r"(?m)^# name: .*$", f"# name: a{character}2J", samples))
            self.assert_fails(run("fit", file, "-o", "-"), 3, "name", "control characters")


class Tolerance(ToolTest):
    def test_the_shipped_attention_tile_passes_with_five_percent(self):
        words = ("audit", "--platform", PROFILE, os.path.join(WORKLOADS, "attention-tile-h200.json"))
        self.assert_code(run(*words), 1)
        self.assert_code(run(*words, "--max-stall", "4%"), 1)
        for share in ("5%", "0.05"):
            result = run(*words, "--max-stall", share)
            self.assert_code(result, 0)
            self.assertIn("stalls of at most 5% of the tile time): passed", result.stdout)

    def test_bad_shares_are_refused(self):
        for share in ("-1%", "five", "0x1"):
            self.assert_fails(audit({"--producers": 1, "--bytes": 16, "--gap": 1}, f"--max-stall={share}"), 2,
                              "--max-stall", share)


if __name__ == "__main__":
    tool.main()
