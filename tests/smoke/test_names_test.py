#!/usr/bin/env python3
"""Names of a GoogleTest binary's tests can be read: no parameter is printed as its bytes.

usage: test_names_test.py BINARY
"""

import re
import subprocess
import sys


def unreadable(listing):
    """Lines of --gtest_list_tests whose parameter GoogleTest could not print."""
    return [line.strip() for line in listing.splitlines() if re.search(r"\d-byte object", line)]


def main():
    bytes_of_a_parameter = "Test/0  # GetParam() = 8-byte object <01-00>"
    assert unreadable(f"Suite.\n  {bytes_of_a_parameter}\n  Test/1  # GetParam() = rows\n") == [bytes_of_a_parameter]
    listing = subprocess.run([sys.argv[1], "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    assert listing.count("\n  ") > 10, f"{sys.argv[1]} lists no tests"
    bad = unreadable(listing)
    for line in bad:
        print(line)
    if bad:
        sys.exit(f"{len(bad)} tests have unreadable names: give their parameter type an operator<<")


if __name__ == "__main__":
    main()
