#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that docs/guide/errors-catalogue.md says what the table of misconfigurations says, which the tests provoke.
--fix writes it anew."""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "tests/unit/verbs/misconfigurations/catalogue.inc"
PAGE = "docs/guide/errors-catalogue.md"
ARGUMENT = re.compile(r'\s*(?:((?:"(?:[^"\\]|\\.)*"\s*)+)|(\w+))\s*([,)])')
HEAD = """# What can go wrong, and what the error says

Each line is provoked by a test ({table}), which checks that the error names the
call, the number and the object, and that its diagnosis contains these words; no other line's diagnosis contains them.
Numbers in the words are those of the test. *real*: provoked on the software device or by the system. *injected*: the
provider was made to fail with the number. {real} are real, {injected} injected.

The calls are those of the C interface, or the library's where it refuses before any is made. A failed completion is put
into these words by `describe()` of its queue pair, and so is a refused post by `describe_refused_send()` and
`describe_refused_receive()`.
"""


def arguments(text, start, table=TABLE):
    """The arguments of a macro whose bracket opened before `start`: strings joined, words as they are."""
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
    """[(title, [row])]; a row is [name, kind, wrong, call, number, object, words], or has another number of values."""
    groups = []
    for match in re.finditer(r"^(ROW|GROUP)\(", text, re.MULTILINE):
        found = arguments(text, match.end(), table)
        if match.group(1) == "GROUP":
            groups.append((found[0], []))
        elif len(found) != values or not groups:
            raise ValueError(f"{table}: a row has {values} values and stands in a group: {found}")
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
        out += f"\n## {title}\n\n| what is wrong | call | number | words of the diagnosis | |\n|---|---|---|---|---|\n"
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
        print(f"{PAGE}: it is not what {TABLE} says: scripts/errors_catalogue.py --fix")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
