#!/usr/bin/env python3
"""Rules between rooms (docs/design.md): which file of src/ may include which.

A room may include itself and those before it in ROOMS; an operator no other operator; what is no kernel only those
headers of an operator's device/ that know no CUDA; and what lies in bench/ and test/ serves nobody outside of them.
"""

import pathlib
import re
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("base", "model", "device", "files", "node", "calibrate", "audit", "fabric", "heap", "tile", "report",
         "ops", "ops device", "bench", "ops bench", "cli", "cli bench", "tests")  # fmt: skip
WITHOUT_CUDA = re.compile(r".*(parameters|layout)\.hpp")
COMPOSED = {"ulysses": {"gemm", "attention"}}  # a layer of them: their cells are its own


def place(path):
    """Room and operator of a file, its path below src/ or tests/."""
    folders = path.split("/")[:-1]
    if folders[0] == "ops":
        part = folders[2] if len(folders) > 2 else ""
        return "tests" if part == "test" else f"ops {part}".strip(), folders[1]
    if folders == ["cli"] and path.startswith("cli/bench"):
        return "cli bench", None
    return "tests" if folders[0] in ("unit", "gpu", "fuzz") else folders[0], None


def complaint(path, included):
    if "/" not in included:  # beside the file
        return None
    (room, operator), (room_included, operator_included) = place(path), place(included)
    for name in (room, room_included):
        if name not in ROOMS:
            return f"room {name} has no place in the list of rooms"
    if operator and operator_included not in (None, operator, *COMPOSED.get(operator, ())):
        return f"operator {operator} includes operator {operator_included}: move what they share to tile or fabric"
    if room == "ops" and room_included == "ops device":
        return None if WITHOUT_CUDA.fullmatch(included) else "host code of an operator includes its kernels"
    if room == "cli" and room_included in ("ops bench", "bench"):
        return "only the verb bench includes benchmarks"
    if ROOMS.index(room_included) > ROOMS.index(room):
        return f"room {room} includes room {room_included}, which lies above it"
    return None


def includes(file):
    return re.findall(r'^ *# *include "(.*)"', file.read_text(), re.MULTILINE)


def check(repository):
    complaints = []
    for top in ("src", "tests"):
        for file in sorted(file for kind in ("cpp", "hpp", "cu", "cuh") for file in (repository / top).rglob(f"*.{kind}")):
            path = file.relative_to(repository / top).as_posix()
            for included in includes(file):
                reason = None if included.startswith("xstage/") else complaint(path, included)
                if reason:
                    complaints.append(f"{top}/{path} includes {included}: {reason}")
    for file in sorted((repository / "include").rglob("*.hpp")):
        complaints += [f"{file.name} includes {name}: public headers include public ones" for name in includes(file)
                       if not name.startswith("xstage/")]  # fmt: skip
    return complaints


if __name__ == "__main__":
    found = check(REPOSITORY)
    print("\n".join(f"check_rooms: {line}" for line in found) or "includes keep to the rules between rooms")
    sys.exit(1 if found else 0)
