"""What Python sees of a script: code without comments, docstrings and the layout that means nothing.

Not by the module tokenize, whose tokens of f-strings depend on Python's version.
"""

import re

PIECES = re.compile(
    r"""(?P<string>(?<!\w)[rbuf]{0,2}(?:(?P<quotes>'{3}|"{3})(?:\\.|.)*?(?P=quotes)
                                  |'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
      | (?P<comment>\#[^\n]*)
      | (?P<continued>\\\n)
      | (?P<line>\n[ \t]*)
      | (?P<space>[ \t\r\f]+)
      | (?P<word>\w+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def code_of(text):
    """Lines of (indentation, tokens); a statement over several lines is one."""
    lines, depth = [("", [])], 0
    for piece in PIECES.finditer(text):
        kind, token = piece.lastgroup, piece.group()
        if kind == "line":
            if depth == 0:
                lines.append((token[1:].expandtabs(), []))
        elif kind not in ("comment", "continued", "space"):
            depth += (token in "([{") - (token in ")]}") if kind == "sign" else 0
            lines[-1][1].append(token)
    return [(indent, tokens) for indent, tokens in lines if tokens and not is_docstring(tokens)]


def is_docstring(tokens):
    """Whether a line is nothing but a string."""
    return len(tokens) == 1 and tokens[0][-1] in "'\""


def imported_modules(text):
    """Names of the modules that a script imports, by the first part of their names."""
    return set(re.findall(r"^\s*(?:import|from)\s+(\w+)", text, re.MULTILINE))
