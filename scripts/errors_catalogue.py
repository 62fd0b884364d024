#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that docs/guide/errors-catalogue.md equals the table of misconfigurations, which the tests produce. --fix rewrites
the page."""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "tests/unit/verbs/misconfigurations/catalogue.inc"
PAGE = "docs/guide/errors-catalogue.md"
ARGUMENT = re.compile(r'\s*(?:((?:"(?:[^"\\]|\\.)*"\s*)+)|(\w+))\s*([,)])')
HEAD = """# Catalogue of errors

This page lists misconfigurations and failures with the text that the library reports for each.

A test produces each row ({table}).
The test checks that the error contains the call, the errno and the object. It also checks that the diagnosis contains
the text of its row, and not the text of any other row. The values in the texts come from the test.

- *real*: the software device or the system fails.
- *injected*: the test replaces the verb by a function that returns the errno.

{real} rows are real, {injected} are injected.

The call is a function of the C interface. If the library detects the fault before it calls the C interface, the call is a function
of the library.
`describe()` of a queue pair returns the text for a failed completion. `describe_refused_send()` and
`describe_refused_receive()` return the text for a post that failed. [Error handling](errors.md) shows the interface.
"""


def arguments(text, start, table=TABLE):
    """Returns the arguments of a macro whose parenthesis opened before `start`; adjacent strings are joined."""
    found = []
    while True:
        match = ARGUMENT.match(text, start)
        if match is None:
            raise ValueError(f"{table}: cannot read: {text[start:start + 60]!r}")
        strings, word, end = match.groups()
        found.append(word if strings is None
                     else re.sub(r'\\(.)', r'\1', "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings))))
        start = match.end()
        if end == ")":
            return found


def read_table(text, table=TABLE, values=7):
    """Returns [(title, [row])]; a row is [name, kind, wrong, call, number, object, words]. Malformed rows are included."""
    groups = []
    for match in re.finditer(r"^(ROW|GROUP)\(", text, re.MULTILINE):
        found = arguments(text, match.end(), table)
        if match.group(1) == "GROUP":
            groups.append((found[0], []))
        elif len(found) != values or not groups:
            raise ValueError(f"{table}: a row needs {values} values and a group above it: {found}")
        else:
            groups[-1][1].append(found)
    return groups


def cell(text):
    return text.replace("|", "\\|")


def page(groups):
    rows = [row for _, group in groups for row in group]
    kinds = [row[1] for row in rows]
    out = "<!-- made by scripts/errors_catalogue.py --fix -->\n" + HEAD.format(
        table=f"`{TABLE}`", real=kinds.count("real"), injected=kinds.count("injected"))
    for title, group in groups:
        out += f"\n## {title}\n\n| condition | call | errno or status | text of the diagnosis | |\n|---|---|---|---|---|\n"
        for _, kind, wrong, call, number, _, words in group:
            out += f"| {cell(wrong)} | `{call}` | {number.removeprefix('IBV_WC_')} | {cell(words)} | {kind} |\n"
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--fix", action="store_true")
    options = parser.parse_args()
    try:
        wanted = page(read_table((options.root / TABLE).read_text()))
    except ValueError as problem:
        print(problem)
        return 1
    document = options.root / PAGE
    if options.fix:
        document.write_text(wanted)
    elif not document.is_file() or document.read_text() != wanted:
        print(f"{PAGE}: differs from {TABLE}: run scripts/errors_catalogue.py --fix")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
