#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the table in docs/guide/connect.md equals the rows that the tests produce
(tests/unit/bringup/decisions.inc). --fix rewrites the table."""
import argparse
import pathlib
import sys

import errors_catalogue

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "tests/unit/bringup/decisions.inc"
PAGE = "docs/guide/connect.md"
BEGIN = "<!-- made by scripts/connect_table.py --fix -->\n"
END = "<!-- end of the table -->\n"


def table(groups):
    out = ""
    for title, rows in groups:
        out += f"\n### {title}\n\n| situation | selection, or text of the error |\n|---|---|\n"
        for _, situation, words in rows:
            out += f"| {errors_catalogue.cell(situation)} | {errors_catalogue.cell(words.strip())} |\n"
    return out + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--fix", action="store_true")
    options = parser.parse_args()
    document = options.root / PAGE
    try:
        wanted = table(errors_catalogue.read_table((options.root / TABLE).read_text(), TABLE, values=3))
        text = document.read_text()
    except (OSError, ValueError) as problem:
        print(problem)
        return 1
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        print(f"{PAGE}: exactly one place for the table is needed, between `{BEGIN.strip()}` and `{END.strip()}`")
        return 1
    before, rest = text.split(BEGIN)
    found, after = rest.split(END)
    if options.fix:
        document.write_text(before + BEGIN + wanted + END + after)
    elif found != wanted:
        print(f"{PAGE}: the table differs from {TABLE}: run scripts/connect_table.py --fix")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
