#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks docs/guide/from-c-verbs.md: every function and macro of infiniband/verbs.h, efadv.h and rdma/rdma_cma.h has exactly
one row, every row names existing functions, and the names of this library in a row exist in its headers."""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = pathlib.Path("docs/guide/from-c-verbs.md")
HEADERS = ("infiniband/verbs.h", "infiniband/efadv.h", "rdma/rdma_cma.h")
ROW = re.compile(r"\| (`[^|]+`) \| (.+) \|")
NOT_OURS = {"native", "verbena", "linked", "ibverbs", "soft0"}


def functions(text):
    """Returns the names of the functions and function-like macros that a verbs header declares."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = set(re.findall(r"^\s*#\s*define\s+(_{0,2}ibv_\w+)\(", text, re.MULTILINE))
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", "", text, flags=re.MULTILINE)
    text = text.replace('extern "C" {', "")
    depth, outside = 0, []
    for piece in re.split(r"([{}])", text):
        if piece == "{":
            depth += 1
            outside.append(";")
        elif piece == "}":
            depth = max(0, depth - 1)  # the closing brace of extern "C", whose opening brace was removed
        elif depth == 0:
            outside.append(piece)
    return found | set(re.findall(r"\b((?:_{0,2}ibv|verbs|efadv|rdma)_\w+)\s*\(", "".join(outside)))


def rows(text):
    """Yields the line, the C names and the text of each row."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := ROW.fullmatch(line):
            yield number, re.findall(r"`([^`]+)`", match.group(1)), match.group(2)


def header_of(name):
    return {"efadv": "efadv.h", "rdma": "rdma_cma.h"}.get(name.partition("_")[0], "verbs.h")


def check(header, page, words):
    """Yields the complaints; `words` are the words of the library's headers."""
    known, seen = functions(header), {}
    for number, names, here in rows(page):
        for name in names:
            if name in seen:
                yield f"{PAGE}:{number}: {name} already has a row in line {seen[name]}"
            elif name not in known:
                yield f"{PAGE}:{number}: {header_of(name)} does not declare {name}"
            seen[name] = number
        for mark in re.findall(r"`([^`]+)`", here):
            for word in re.findall(r"[a-z_][a-z_0-9]*", mark):
                if word not in words and word not in NOT_OURS:
                    yield f"{PAGE}:{number}: no header of the library contains {word}"
    for name in sorted(known - seen.keys()):
        yield f"{PAGE}: {name} of {header_of(name)} has no row"
    if not known:
        yield "the headers declare no verbs"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--header", type=pathlib.Path, nargs="+", help="in place of the installed ones",
                        default=[pathlib.Path("/usr/include") / name for name in HEADERS])
    options = parser.parse_args()
    for header in options.header:
        if not header.is_file():
            print(f"{header} is missing; scripts/dev/setup.sh build installs it")
            return 1
    words = set()
    for path in (options.root / "include").rglob("*.hpp"):
        words.update(re.findall(r"\w+", path.read_text()))
    headers = "\n".join(header.read_text() for header in options.header)
    complaints = list(check(headers, (options.root / PAGE).read_text(), words))
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
