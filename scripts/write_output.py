#!/usr/bin/env python3
"""Writes what the tool prints into the documents: the blocks between `<!-- output: NAME -->` and `<!-- end output -->`.

    write_output.py TOOL [--check] [--repository FOLDER]

EXAMPLES says which command each block shows and which lines of its output. With --check nothing is written, and the exit
code is 1 if the tool prints something else than a document shows.
"""

import argparse
import pathlib
import re
import subprocess
import sys

from write_tables import documents, settle

# name: (arguments, patterns). A line is shown if a pattern matches its beginning; each pattern has to match a line.
EXAMPLES = {
    "audit": (
        "audit --platform profiles/h200x2.json --producers 132 --bytes 32KiB --gap 5.5",
        (
            r" {20}.*free-running +aligned",
            r"  verdict ",
            r"  rate bound",
            r"  capacity bound",
            r"  issue time of one tile",
            r"  both prices",
            r"What would change the verdict '[a-z ]+' of (?!aligned)",
            r"  gap \(now",
            r"  tile bytes \(now",
            r"  producers \(now",
        ),
    ),
}

BLOCK = re.compile(r"^<!-- output: (?P<name>[a-z-]+) -->\n.*?^<!-- end output -->$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"^<!-- (output: .*|end output) -->$", re.MULTILINE)


def chosen_lines(name, printed, patterns):
    """The first line for each pattern, in the order of the output. Lines of a second regime do not repeat them."""
    first = {}
    for pattern in patterns:
        for index, line in enumerate(printed):
            if re.match(pattern, line):
                first[index] = line
                break
        else:
            raise ValueError(f"output '{name}': the tool prints no line that begins with '{pattern}'")
    return [first[index] for index in sorted(first)]


def shown(name, examples, tool, repository):
    """What stands between the markers: the command and its lines as a block of code."""
    if name not in examples:
        raise ValueError(f"no output is named '{name}'; there are {', '.join(examples)}")
    arguments, patterns = examples[name]
    done = subprocess.run([tool, *arguments.split()], cwd=repository, capture_output=True, text=True, timeout=60, check=False)
    if not done.stdout:
        raise ValueError(f"output '{name}': '{arguments}' printed nothing: {done.stderr.strip()}")
    lines = chosen_lines(name, done.stdout.splitlines(), patterns)
    return "\n".join([f"<!-- output: {name} -->", "```", f"$ xstage {arguments}", *lines, "```", "<!-- end output -->"])


def stale_documents(repository, examples, tool):
    """{document: text} of documents that differ from what would be written."""
    stale = {}
    for document in documents(repository):
        text = document.read_text(encoding="utf-8")
        new, blocks = BLOCK.subn(lambda block: shown(block["name"], examples, tool, repository), text)
        if len(MARKER.findall(text)) != 2 * blocks:
            raise ValueError(f"{document.name}: each '<!-- output: NAME -->' needs its '<!-- end output -->', on lines of their own")
        if new != text:
            stale[document] = new
    return stale


def main(arguments, examples=None):
    parser = argparse.ArgumentParser(description="Write what the tool prints into the documents.")
    parser.add_argument("tool", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a document would change")
    parser.add_argument("--repository", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args(arguments)
    try:
        stale = stale_documents(options.repository, EXAMPLES if examples is None else examples, options.tool.resolve())
    except (OSError, ValueError) as error:
        print(f"write_output: {error}", file=sys.stderr)
        return 1
    return settle("write_output", stale, options, "is not what the tool prints; run scripts/write_output.py TOOL")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
