#!/usr/bin/env python3
"""Writes the measured tables of README.md and docs/*.md from bench/results and profiles.

    write_tables.py [--check] [--repository FOLDER]

A table stands between two lines, `<!-- table: NAME -->` and `<!-- end -->`; whatever stands there is replaced. Names and
contents: result_tables.py, and summary_tables.py for those of the README. With --check nothing is written, and the exit code is 1 if a document is not what would be
written: a number was typed by hand, or results are newer than the documents.
"""

import argparse
import pathlib
import re
import sys

from result_tables import RESULT_TABLES
from summary_tables import SUMMARY_TABLES

TABLES = {**SUMMARY_TABLES, **RESULT_TABLES}

BLOCK = re.compile(r"^<!-- table: (?P<name>[a-z-]+) -->\n(?P<content>.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"^<!-- (table: .*|end) -->$", re.MULTILINE)


def documents(repository):
    return [repository / "README.md", *sorted((repository / "docs").rglob("*.md"))]


def with_tables(text, repository, tables, place):
    """(the text with its tables written anew, names of the tables that it has)."""
    names = []

    def written(block):
        name = block["name"]
        if name not in tables:
            raise ValueError(f"{place}: no table is named '{name}'; there are {', '.join(tables)}")
        names.append(name)
        try:
            content = tables[name](repository)
        except (KeyError, OSError) as error:
            raise ValueError(f"{place}: table '{name}': {error!r} is missing in the results") from error
        return f"<!-- table: {name} -->\n{content}\n\n<!-- end -->"

    new = BLOCK.sub(written, text)
    if len(MARKER.findall(text)) != 2 * len(names):
        raise ValueError(f"{place}: each '<!-- table: NAME -->' needs its '<!-- end -->', on lines of their own")
    return new, names


def stale_documents(repository, tables):
    """{document: text} of documents that differ from what would be written. ValueError for tables that cannot be."""
    stale = {}
    shown = []
    for document in documents(repository):
        text = document.read_text(encoding="utf-8")
        new, names = with_tables(text, repository, tables, document.relative_to(repository))
        shown += names
        if new != text:
            stale[document] = new
    unused = [name for name in tables if name not in shown]
    if unused:
        raise ValueError(f"no document shows the table {', '.join(unused)}")
    return stale


def settle(script, stale, options, complaint):
    """`stale`: document -> its new text. Writes these documents, or with --check says that they are stale. The exit code."""
    for document, text in stale.items():
        name = document.relative_to(options.repository)
        if options.check:
            print(f"{script}: {name} {complaint}", file=sys.stderr)
        else:
            document.write_text(text, encoding="utf-8")
            print(f"{script}: wrote {name}")
    return 1 if stale and options.check else 0


def main(arguments, tables=None):
    parser = argparse.ArgumentParser(description="Write the measured tables of the documents from the result files.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a document would change")
    parser.add_argument("--repository", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args(arguments)
    try:
        stale = stale_documents(options.repository, TABLES if tables is None else tables)
    except ValueError as error:
        print(f"write_tables: {error}", file=sys.stderr)
        return 1
    return settle("write_tables", stale, options, "is not what the results say; run scripts/write_tables.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
