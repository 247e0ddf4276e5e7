#!/usr/bin/env python3
"""Fingerprints of what a measurement depends on: machine code of kernels, tokens of sources, rows of a result file.

    fingerprints.py --repository FOLDER --json FILE --cpp FILE [--nvcc VERSION --cutlass INCLUDE_FOLDER] [OBJECT]...

A step of the build. It writes a table as JSON, read by check_results.py, and as C++ source, compiled into the tool, which
puts what it ran into each result file (src/report/code_record.hpp). None of it depends on where a file lies or what it is
called, nor on comments and layout.
"""

import argparse
import hashlib
import json
import pathlib
import re
import struct
import sys

import cpp_code
import machine_code
import python_code

BENCHES = ("gemm", "attention", "ulysses", "moe")
# Files of benchmarks that neither choose, make nor time what a row says: what they do shows in the rows.
NOT_TIMING = re.compile(
    r"verify|reference|prediction|bound|comparison|span|row|json|plan_options|unavailable|result_file|code_record|launched|parallel"
)
MEMORY = re.compile(r"(device_memory|device_setup|handle_memory|in_flight)\.")  # in src/device: what calibrations use of it
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
DIRECTIVES_OF_PLACE = re.compile(r"#\s*(include\b|pragma once$)")


def digest(*parts):
    """A short hash of texts, in this order."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def file_tokens(file):
    """Hash of a C++ file's tokens, or None if it has none but includes."""
    tokens = cpp_code.code_of(file.read_text(encoding="utf-8", errors="replace"))
    tokens = [token for token in tokens if not DIRECTIVES_OF_PLACE.match(token)]
    return digest(*tokens) if tokens else None


def files_tokens(files):
    """Hash of the tokens of several files, whatever their names and order."""
    return digest(*sorted(set(filter(None, map(file_tokens, files)))))


def included_files(repository, source):
    """A source file and all files of the repository that it includes, at any depth."""
    found, open_files = set(), [source.resolve()]
    while open_files:
        file = open_files.pop()
        if file not in found:
            found.add(file)
            for name in INCLUDE.findall(file.read_text(encoding="utf-8", errors="replace")):
                places = (file.parent, repository / "src", repository / "include")
                open_files += [(place / name).resolve() for place in places if (place / name).is_file()][:1]
    return found


def source_tokens(repository):
    """{path of a CUDA source: hash of the tokens of what it includes}"""
    sources = sorted((repository / "src").rglob("*.cu"))
    return {str(file.relative_to(repository)): files_tokens(included_files(repository, file)) for file in sources}


def timing_files(repository, bench):
    """The code that chooses, makes and times what a bench measures. Files of one operator bear its name or lie in its room;
    the others serve all."""
    if bench == "calibration":
        files = [*(repository / "src/calibrate").glob("*sweep*"), *(repository / "src/node/cuda").glob("*.[ch]pp")]
        files += [file for file in (repository / "src/device").glob("*.[ch]pp") if MEMORY.match(file.name)]
        return [file for file in files if not NOT_TIMING.search(file.name)]
    folders = [repository / "src/bench", *(repository / "src/ops").glob("*/bench")]
    chosen = []
    for file in (file for folder in folders for file in folder.rglob("*.[ch]*")):
        room = re.search(r"src/ops/(\w+)/bench/", file.as_posix())
        named = next((name for name in BENCHES if file.name.startswith(name + "_")), None)
        if (named or (room and room[1])) in (bench, None) and not NOT_TIMING.search(file.name):
            chosen.append(file)
    return chosen


def script_tokens(script):
    """Hash of the tokens of a Python script and of the modules beside it that it imports, at any depth."""
    hashes, found, open_files = [], set(), [script.resolve()]
    while open_files:
        file = open_files.pop()
        if file not in found and file.is_file():
            found.add(file)
            text = file.read_text(encoding="utf-8")
            hashes.append(digest(*map(repr, python_code.code_of(text))))
            open_files += [file.parent / f"{name}.py" for name in python_code.imported_modules(text)]
    return digest(*sorted(hashes))


def canonical(value):
    """JSON as bytes that do not depend on the order of fields and on how numbers are written (code_record.cpp does the same)."""
    if value is None or isinstance(value, bool):
        return {None: b"n", True: b"t", False: b"f"}[value]
    if isinstance(value, (int, float)):
        return b"d" + struct.pack(">d", value).hex().encode()
    if isinstance(value, str):
        text = value.encode()
        return b"s%d:" % len(text) + text
    if isinstance(value, list):
        return b"[" + b"".join(map(canonical, value)) + b"]"
    fields = sorted((name.encode(), field) for name, field in value.items())
    return b"{" + b"".join(canonical(name.decode()) + canonical(field) for name, field in fields) + b"}"


def rows_hash(rows):
    """FNV-1a of the canonical rows, 64 bits: a hash that C++ has in five lines."""
    value = 0xCBF29CE484222325
    for byte in canonical(rows):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def cutlass_version(include_folder):
    """"4.2.0", as CUTLASS's own header says."""
    text = (include_folder / "cutlass/version.h").read_text(encoding="utf-8")
    return ".".join(re.search(rf"#define CUTLASS_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def kernel_entries(repository, objects, tokens):
    """One entry for each kernel of the objects, in the order of names."""
    entries, named = [], {}
    for target in objects:
        suffixes = [path for path in tokens if target.as_posix().endswith(f"/{path}{target.suffix}")]
        if not suffixes:
            raise ValueError(f"{target}: no CUDA source of {repository} has this object")
        for symbol, (name, code) in machine_code.kernels_of(target).items():
            if named.setdefault(name, target) != target:
                raise ValueError(f"{name}: a kernel of this name is in {named[name]} and in {target}; rename one")
            entries.append({"name": name, "symbol": symbol, "code": code, "tokens": tokens[suffixes[0]]})
    if len({entry["name"] for entry in entries}) != len(entries):
        raise ValueError("two kernels differ in their parameters only; rename one")
    return sorted(entries, key=lambda entry: entry["name"])


def table_of(repository, objects, nvcc, cutlass):
    tokens = source_tokens(repository)
    return {
        "nvcc": nvcc,
        "cutlass": cutlass_version(cutlass) if cutlass else None,
        "kernels": kernel_entries(repository, objects, tokens),
        "sources": tokens,
        "timing": {bench: files_tokens(timing_files(repository, bench)) for bench in (*BENCHES, "calibration")},
    }


def write_if_changed(path, text):
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main(arguments):
    parser = argparse.ArgumentParser(description="Write the fingerprints of a build.")
    parser.add_argument("--repository", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--cpp", type=pathlib.Path, required=True)
    parser.add_argument("--nvcc", help="version")
    parser.add_argument("--cutlass", type=pathlib.Path, help="folder of its headers")
    parser.add_argument("objects", type=pathlib.Path, nargs="*", help="of CUDA sources")
    options = parser.parse_args(arguments)
    try:
        table = table_of(options.repository.resolve(), options.objects, options.nvcc, options.cutlass)
    except (OSError, ValueError) as error:
        print(f"fingerprints: {error}", file=sys.stderr)
        return 1
    text = json.dumps(table, indent=1)
    write_if_changed(options.json, text + "\n")
    write_if_changed(
        options.cpp,
        "// Written by scripts/fingerprints.py; do not edit.\n"
        '#include "report/code_record.hpp"\n\n'
        "namespace xstage::bench {\n\n"
        f'std::string_view build_fingerprints() noexcept {{ return R"json({text})json"; }}\n\n'
        "}  // namespace xstage::bench\n",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
