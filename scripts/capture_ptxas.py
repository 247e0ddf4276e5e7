#!/usr/bin/env python3
"""Compiler launcher for nvcc: keeps what ptxas says about each object file beside it, as OBJECT.ptxas.

An incremental build prints nothing for objects that are up to date, so the build log alone cannot answer for all
kernels; a file beside each object can (design rule 10, read by check_ptxas.py).
"""

import subprocess
import sys


def object_path(command):
    """The argument of -o, or None for a call that writes no object (a probe of the compiler)."""
    for position, argument in enumerate(command[:-1]):
        if argument == "-o":
            return command[position + 1]
    return None


def is_resource_report(line):
    """ptxas -v's report of a kernel, of no interest to a human while the build runs."""
    return "ptxas info" in line or line.startswith("    ") and "bytes" in line


def main(command):
    compiled = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    target = object_path(command)
    if compiled.returncode == 0 and target:
        with open(target + ".ptxas", "w", encoding="utf-8") as log:
            log.write(compiled.stderr)
    for line in compiled.stderr.splitlines():
        if compiled.returncode != 0 or not is_resource_report(line):
            print(line, file=sys.stderr)
    return compiled.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
