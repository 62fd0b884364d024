#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the headers in include/ are those of the installed file set, which CMake lists."""
import argparse
import pathlib
import sys


def compare(root, listed):
    present = {path.resolve() for path in (root / "include").rglob("*") if path.is_file()}
    listed = {pathlib.Path(line).resolve() for line in listed if line}
    return ([f"{path}: not in the header file set of verbena::verbena, so it would not be installed"
             for path in sorted(present - listed)] +
            [f"{path}: in the header file set, but does not exist" for path in sorted(listed - present)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("list", type=pathlib.Path, help="verbena_header_set.txt of a build folder")
    options = parser.parse_args()
    complaints = compare(options.root, options.list.read_text().splitlines())
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
