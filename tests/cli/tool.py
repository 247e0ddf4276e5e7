"""Runs the built tool, whose path is the first argument of every test file here."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import unittest

TOOL = ""


def run(*words, stdout=subprocess.PIPE):
    return subprocess.run([TOOL, *map(str, words)], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


class ToolTest(unittest.TestCase):
    """A test with a folder of its own, in which nothing may stay that was not asked for."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="xstage_cli_")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def assert_files(self, *names):
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(names))

    def assert_code(self, result, code):
        self.assertEqual(result.returncode, code, f"{result.args}\nstdout: {result.stdout}\nstderr: {result.stderr}")

    def assert_fails(self, result, code, *parts):
        """Exit code, nothing on stdout, one message with all the parts."""
        self.assert_code(result, code)
        self.assertFalse(result.stdout, result.stdout)
        for part in parts:
            self.assertIn(part, result.stderr)

    def json_of(self, result, code=0):
        self.assert_code(result, code)
        return json.loads(result.stdout, parse_constant=lambda name: self.fail(f"{name} is not JSON"))


class OnTerminal:
    """The tool with a terminal as its standard error, where it shows progress."""

    def __init__(self, *words):
        self.terminal, child_side = pty.openpty()
        # An inherited "ignore" would survive exec and hide the signals that the tests send.
        self.process = subprocess.Popen(
            [TOOL, *map(str, words)], stdout=subprocess.PIPE, stderr=child_side,
            preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM)])
        os.close(child_side)
        self.shown = ""

    def _read_some(self):
        try:
            data = os.read(self.terminal, 65536)
        except OSError:  # Linux: the other side is closed
            data = b""
        self.shown += data.decode()
        return bool(data)

    def wait_until_shown(self, text):
        while text not in self.shown:
            if not self._read_some():
                raise AssertionError(f"ended without showing {text!r}: {self.shown!r}")

    def finish(self):
        """Exit code, stdout, everything shown on the terminal."""
        while select.select([self.terminal], [], [])[0] and self._read_some():
            pass
        output = self.process.stdout.read().decode()
        self.process.stdout.close()
        os.close(self.terminal)
        return self.process.wait(), output, self.shown


def main():
    global TOOL
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} XSTAGE_TOOL [unittest arguments]")
    TOOL = os.path.abspath(sys.argv.pop(1))
    unittest.main(module="__main__")
