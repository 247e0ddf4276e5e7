"""The built tool as a process: what only the real binary can show. The verbs' own tests are in tests/unit."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

TOOL = os.environ["XSTAGE_TOOL"]
# The C library's own parts; everything else must be inside the binary, which is carried to GPU machines.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}


def run(*arguments):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)


class Tool(unittest.TestCase):
    def test_help_lists_every_verb(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        for verb in ("devices", "calibrate", "fit", "predict", "validate", "audit"):
            self.assertIn(verb, done.stdout)

    def test_version_names_the_commit(self):
        done = run("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"\d+\.\d+\.\d+.*([0-9a-f]{40}|unknown)")

    def test_unknown_verb_is_a_usage_error(self):
        done = run("calibrated")
        self.assertEqual(done.returncode, 2)
        self.assertIn("calibrated", done.stderr)

    def test_no_verb_is_a_usage_error(self):
        self.assertEqual(run().returncode, 2)

    def test_missing_file_is_bad_input_and_leaves_no_output(self):
        with tempfile.TemporaryDirectory() as folder:
            profile = pathlib.Path(folder) / "profile.json"
            done = run("fit", str(pathlib.Path(folder) / "missing.csv"), "-o", str(profile))
            self.assertEqual(done.returncode, 3)
            self.assertIn("missing.csv", done.stderr)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])

    @unittest.skipIf("XSTAGE_SANITIZED" in os.environ, "sanitizers are shared libraries")
    @unittest.skipUnless(shutil.which("readelf"), "readelf is not installed")
    def test_binary_stands_alone(self):
        dynamic = subprocess.run(["readelf", "-d", TOOL], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        self.assertLessEqual(needed, SYSTEM_LIBRARIES)


if __name__ == "__main__":
    unittest.main()
