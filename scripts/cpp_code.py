"""What the compiler sees of a C++ or CUDA file: code without comments and without the white space that means nothing."""

import re

SUFFIXES = (".cu", ".cuh", ".cpp", ".hpp", ".h")

# Literals first: what looks like a comment inside them is none.
PIECES = re.compile(
    r"""(?P<raw>R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
      | (?P<literal>"(?:\\.|[^"\\\n])*" | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*')
      | (?P<comment>//(?:\\\n|[^\n])* | /\*.*?\*/)
      | (?P<directive>^[ \t]*\#(?:\\\n|(?!//|/\*)[^\n])*)
      | (?P<space>\s+)
      | (?P<word>\w+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def code_of(text):
    """Its tokens, near enough: signs one by one, words, literals, and preprocessor directives each as one. Two files with
    the same list compile to the same code, but for line numbers."""
    tokens = []
    for piece in PIECES.finditer(text):
        if piece.group("directive"):
            tokens.append(" ".join(piece.group().replace("\\\n", " ").split()))
        elif not (piece.group("comment") or piece.group("space")):
            tokens.append(piece.group())
    return tokens


def same_code(name, one, other):
    """Whether two texts of a file of that name differ in comments and layout at most. Other kinds of files: not at all."""
    return one == other or (name.endswith(SUFFIXES) and code_of(one) == code_of(other))
