#!/usr/bin/env python3
"""Design rule 10: no kernel spills, has a stack frame, draws a C75xx remark, or exceeds its register budget.

    check_ptxas.py BUILD_FOLDER [--budgets FILE]...

Reads the reports that capture_ptxas.py left beside every CUDA object of the build. Budgets stand beside the kernels, in
register_budgets.json below src: {"kernel function": registers a thread}. A kernel without a budget and a budget without a
kernel are both errors.
"""

import argparse
import json
import pathlib
import re
import shlex
import sys
from dataclasses import dataclass, field

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent

ENTRY = re.compile(r"Compiling entry function '(?P<symbol>[^']+)' for '(?P<architecture>[^']+)'")
PROPERTIES = re.compile(r"Function properties for '?(?P<symbol>[^'\s]+)'?")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
IDENTIFIER = re.compile(r"L?(\d+)")
REGISTERS = re.compile(r"Used (\d+) registers")
# C7504, C7509 and their kin: ptxas gave up setmaxnreg or serialised WGMMA; some are printed as "info".
REMARK = re.compile(r"ptxas.*\bC75\d\d\b|ptxas\s+warning")


@dataclass
class Kernel:
    """One entry function on one architecture, as ptxas compiled it."""

    symbol: str
    architecture: str
    registers: int | None = None


@dataclass
class Report:
    """What ptxas said about one object file."""

    kernels: list = field(default_factory=list)
    complaints: list = field(default_factory=list)


def function_name(symbol):
    """The unqualified function name in an Itanium-mangled symbol; other symbols (extern "C") are names already."""
    nested = re.match(r"_ZN?", symbol)
    if not nested:
        return symbol
    position, name = nested.end(), symbol
    while length := IDENTIFIER.match(symbol, position):
        position = length.end() + int(length.group(1))
        name = symbol[length.end() : position]
    return name


def parse_report(text):
    """Kernels of one report, and whatever in it rule 10 forbids without looking at budgets."""
    report = Report()
    architecture, subject, kernel = "unknown architecture", "unknown function", None
    for line in text.splitlines():
        if REMARK.search(line):
            report.complaints.append(line.strip())
        if entry := ENTRY.search(line):
            architecture, subject = entry["architecture"], entry["symbol"]
            kernel = Kernel(subject, architecture)
            report.kernels.append(kernel)
        elif properties := PROPERTIES.search(line):
            subject = properties["symbol"]
        elif stack := STACK.search(line):
            frame, stores, loads = (int(number) for number in stack.groups())
            if frame or stores or loads:
                report.complaints.append(
                    f"{function_name(subject)} ({architecture}): {frame} bytes of stack frame, {stores} bytes of spill "
                    f"stores, {loads} bytes of spill loads; all must be 0"
                )
        elif (registers := REGISTERS.search(line)) and kernel:
            kernel.registers = int(registers[1])
    return report


def check_budgets(kernels, budgets):
    """Complaints about kernels over or without a budget, and about budgets without a kernel."""
    complaints = []
    for kernel in kernels:
        name = function_name(kernel.symbol)
        if name not in budgets:
            complaints.append(f"{name} ({kernel.architecture}): no register budget; {kernel.symbol}")
        elif kernel.registers is None:
            complaints.append(f"{name} ({kernel.architecture}): ptxas reported no register count")
        elif kernel.registers > budgets[name]:
            complaints.append(
                f"{name} ({kernel.architecture}): {kernel.registers} registers, its budget is {budgets[name]}"
            )
    for name in sorted(set(budgets) - {function_name(kernel.symbol) for kernel in kernels}):
        complaints.append(f"{name}: has a register budget but no kernel of this name was compiled")
    return complaints


def read_budgets(files):
    """All budgets in one dictionary. ValueError for a value that is no register count, or a kernel named twice."""
    budgets = {}
    for file in files:
        for name, registers in json.loads(file.read_text(encoding="utf-8")).items():
            if isinstance(registers, bool) or not isinstance(registers, int) or not 1 <= registers <= 255:
                raise ValueError(f"{file}: budget of {name} is {registers!r}; it must be an integer from 1 to 255")
            if name in budgets:
                raise ValueError(f"{file}: {name} has a second budget")
            budgets[name] = registers
    return budgets


def cuda_objects(build_folder):
    """Every CUDA object of the build, as its compilation database lists them."""
    database = json.loads((build_folder / "compile_commands.json").read_text(encoding="utf-8"))
    objects = []
    for entry in database:
        if entry["file"].endswith(".cu"):
            words = shlex.split(entry["command"])  # CMake 3.25 writes no "output"
            objects.append(pathlib.Path(entry["directory"]) / words[words.index("-o") + 1])
    return objects


def check_build(build_folder, budgets):
    """(kernels, complaints) of a build folder."""
    kernels, complaints = [], []
    objects = cuda_objects(build_folder)
    if not objects:
        complaints.append(f"{build_folder} compiles no CUDA file: configure it with nvcc")
    for target in objects:
        log = target.with_name(target.name + ".ptxas")
        if not target.is_file() or not log.is_file():
            complaints.append(f"{log} is missing: build first")
            continue
        report = parse_report(log.read_text(encoding="utf-8"))
        kernels += report.kernels
        complaints += report.complaints
    if not complaints:
        complaints += check_budgets(kernels, budgets)
    else:
        complaints += [line for line in check_budgets(kernels, budgets) if "no kernel of this name" not in line]
    return kernels, complaints


def main(arguments):
    parser = argparse.ArgumentParser(description="Check ptxas reports of a build against the register budgets.")
    parser.add_argument("build_folder", type=pathlib.Path)
    parser.add_argument("--budgets", type=pathlib.Path, action="append", help="default: register_budgets.json below src")
    options = parser.parse_args(arguments)
    files = options.budgets or sorted((REPOSITORY / "src").rglob("register_budgets.json"))
    try:
        budgets = read_budgets(files)
        kernels, complaints = check_build(options.build_folder, budgets)
    except (OSError, ValueError) as error:
        print(f"check_ptxas: {error}", file=sys.stderr)
        return 1
    for complaint in complaints:
        print(f"check_ptxas: {complaint}", file=sys.stderr)
    if complaints:
        return 1
    most = {}
    for kernel in kernels:
        name = function_name(kernel.symbol)
        most[name] = max(most.get(name, 0), kernel.registers)
    for name, registers in sorted(most.items()):
        print(f"{name}: at most {registers} of {budgets[name]} registers, no stack frame, no spill")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
