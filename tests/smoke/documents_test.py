#!/usr/bin/env python3
"""The documents: links lead somewhere, and words are the field's."""

import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").rglob("*.md")),
             *sorted((SOURCE / "src").rglob("README.md"))]  # fmt: skip
LINK = re.compile(r"!?\[[^\]]*\]\((?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
# A word of our own, and the field's in its place.
WORDS = {"under way": "in flight", "phase-shifted": "free-running"}


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def anchor_of(heading):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class Documents(unittest.TestCase):
    def test_links_lead_to_files_and_headings(self):
        for document in DOCUMENTS:
            for link in LINK.finditer(without_code(document.read_text(encoding="utf-8"))):
                if "://" in link["path"]:
                    continue
                target = document.parent / link["path"] if link["path"] else document
                with self.subTest(document=document.relative_to(SOURCE), link=link[0]):
                    self.assertTrue(target.exists())
                    if link["anchor"] and target.suffix == ".md":
                        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
                        self.assertIn(link["anchor"], [anchor_of(heading) for heading in headings])

    def test_every_page_is_reachable_from_the_readme(self):
        text = (SOURCE / "README.md").read_text(encoding="utf-8")
        linked = {link["path"] for link in LINK.finditer(text)}
        for page in sorted((SOURCE / "docs").glob("*.md")):
            with self.subTest(page=page.name):
                self.assertIn(f"docs/{page.name}", linked)

    def test_words_are_those_of_the_field(self):
        for document in DOCUMENTS:
            lines = without_code(document.read_text(encoding="utf-8")).splitlines()
            for word, instead in WORDS.items():
                with self.subTest(document=document.relative_to(SOURCE), word=word, instead=instead):
                    self.assertEqual([line for line in lines if word in line.lower()], [])


if __name__ == "__main__":
    unittest.main()
