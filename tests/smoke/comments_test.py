#!/usr/bin/env python3
"""Comments of the sources use the field's words, as the documents do (documents_test.py)."""

import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "scripts"))
import cpp_code  # noqa: E402

FILES = [file for folder in ("include", "src") for file in sorted((SOURCE / folder).rglob("*"))
         if file.suffix in cpp_code.SUFFIXES]  # fmt: skip
# Words of our own, and the field's in their place.
WORDS = {
    r"under way": "in flight",
    r"(tell|tells|told) (the |its |all |other )*(peers?|owners?|ranks?)\b": "signal",
    r"looks? at (the |a |its |these )*(flags?|counters?|abort word)\b": "poll",
    r"work(s|ed)? off\b": "compute or process",
}


def comments_of(text):
    """Its comments; one that goes on over several lines is one text."""
    text = "".join(piece.group() if piece.group("comment") or piece.group("space") else "\0"
                   for piece in cpp_code.PIECES.finditer(text))  # fmt: skip
    return [" ".join(re.sub(r"^\s*//[/!<]*", "", line) for line in block.splitlines())
            for block in re.split(r"\0+", text) if "//" in block]  # fmt: skip


class Comments(unittest.TestCase):
    def test_comments_are_found_as_a_whole(self):
        text = 'int a;  // one\n/// two\n/// three "four"\nconst char* b = "// five";\n'
        self.assertEqual([comment.split() for comment in comments_of(text)], [["one", "two", "three", '"four"']])

    def test_words_are_those_of_the_field(self):
        self.assertGreater(len(FILES), 400)
        for file in FILES:
            comments = " ".join(comments_of(file.read_text(encoding="utf-8")))
            for word, instead in WORDS.items():
                with self.subTest(file=file.relative_to(SOURCE), word=word, instead=instead):
                    found = re.search(rf".{{0,60}}{word}.{{0,40}}", re.sub(r"\s+", " ", comments), re.IGNORECASE)
                    self.assertIsNone(found)


if __name__ == "__main__":
    unittest.main()
