#!/usr/bin/env python3
"""write_output.py: documents show what the tool prints, and the check sees it when they do not."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "scripts"))

import write_output  # noqa: E402

DOCUMENT = "# Title\n<!-- output: audit -->\n<!-- end output -->\nText.\n"
TOOL = """#!/bin/sh
echo "called with $*"
echo "verdict  reshape"
echo "details that nobody shows"
echo "gap  11.01 passes"
echo "gap  of the second regime"
exit 1
"""
EXAMPLES = {"audit": ("audit --gap 5.5", ("gap ", "verdict "))}


class Output(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs").mkdir()
        self.readme = self.root / "README.md"
        self.readme.write_text(DOCUMENT, encoding="utf-8")
        self.tool = self.root / "tool"
        self.write_tool(TOOL)

    def write_tool(self, text):
        self.tool.write_text(text, encoding="utf-8")
        self.tool.chmod(0o755)

    def run_script(self, *arguments, examples=None):
        """(exit code, what it said)."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = write_output.main([str(self.tool), *arguments, "--repository", str(self.root)], examples or EXAMPLES)
        return code, said.getvalue()

    def test_what_was_written_passes_the_check(self):
        self.assertEqual(self.run_script("--check")[0], 1)
        self.assertEqual(self.run_script()[0], 0)
        self.assertEqual(
            self.readme.read_text(encoding="utf-8"),
            "# Title\n<!-- output: audit -->\n```\n$ xstage audit --gap 5.5\nverdict  reshape\ngap  11.01 passes\n```\n"
            "<!-- end output -->\nText.\n",
        )
        self.assertEqual(self.run_script("--check"), (0, ""))

    def test_another_number_fails_the_check(self):
        self.run_script()
        self.write_tool(TOOL.replace("11.01", "11.02"))
        code, said = self.run_script("--check")
        self.assertEqual(code, 1)
        self.assertIn("README.md", said)

    def test_a_line_that_the_tool_no_longer_prints_is_named(self):
        self.write_tool(TOOL.replace("verdict", "outcome"))
        code, said = self.run_script()
        self.assertEqual(code, 1)
        self.assertIn("'verdict '", said)
        self.assertEqual(self.readme.read_text(encoding="utf-8"), DOCUMENT)

    def test_a_tool_that_prints_nothing_is_quoted(self):
        self.write_tool("#!/bin/sh\necho 'no such profile' >&2\nexit 3\n")
        code, said = self.run_script()
        self.assertEqual(code, 1)
        self.assertIn("no such profile", said)

    def test_wrong_markers_are_refused(self):
        for text, complaint in (
            (DOCUMENT.replace("audit", "unknown"), "no output is named 'unknown'"),
            (DOCUMENT + "<!-- output: audit -->\n", "needs its"),
            (DOCUMENT + "<!-- end output -->\n", "needs its"),
        ):
            with self.subTest(complaint):
                self.readme.write_text(text, encoding="utf-8")
                code, said = self.run_script()
                self.assertEqual(code, 1)
                self.assertIn(complaint, said)
                self.assertEqual(self.readme.read_text(encoding="utf-8"), text)


if __name__ == "__main__":
    unittest.main()
