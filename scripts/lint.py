#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the checks of `./dev lint`: scripts/dev/help/lint.txt says what for. Each check is a program that fails and
prints one finding a line."""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "lint"
PYTHON = sys.executable
CONFIGURE = ["cmake", "--preset", "dev-clang", "-B", str(BUILD), "-DVERBENA_BUILD_BENCH=OFF",
             "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"]

# name, what it finds, needs a configured build folder, command
CHECKS = [
    ("format", "what clang-format-19 would change", False, ["scripts/dev/fmt.sh", "--check"]),
    ("layers", "includes that cmake/layers.txt does not allow", False, [PYTHON, "scripts/check_layers.py"]),
    ("tidy", "sizes, words, macros, missing doc words", False, [PYTHON, "scripts/tidy.py"]),
    ("docs", "dead links and paths, snippets that nothing compiles", False, [PYTHON, "scripts/check_docs.py"]),
    ("conformance", "a table in docs/testing.md that is not that of the stored results", False,
     [PYTHON, "scripts/conformance_table.py"]),
    ("errors", "a catalogue of errors in docs/guide that is not what the tests provoke", False,
     [PYTHON, "scripts/errors_catalogue.py"]),
    ("connect", "a table in docs/guide/connect.md that is not what the tests bring about", False,
     [PYTHON, "scripts/connect_table.py"]),
    ("parity", "lines of docs/parity that name no test, or one that does not exist", False,
     [PYTHON, "scripts/parity.py", "--names"]),
    ("c-verbs", "C functions that docs/guide/from-c-verbs.md leaves out", False,
     [PYTHON, "scripts/check_c_verbs.py"]),
    ("safety", "a rule that docs/guide/safety.md does not list", False, [PYTHON, "scripts/safety_rules.py"]),
    ("reference", "public names without a comment, and names in documents that do not exist", False,
     [PYTHON, "scripts/reference.py", "--check"]),
    ("header-set", "headers that would not be installed", True,
     [PYTHON, "scripts/check_header_set.py", str(BUILD / "verbena_header_set.txt")]),
    ("self-contained", "installed headers that do not compile alone", True,
     [PYTHON, "scripts/self_contained.py", "--build", str(BUILD)]),
    ("clang-tidy", "what clang-tidy-19 finds in changed sources", True,
     [PYTHON, "scripts/clang_tidy.py", "--build", str(BUILD)]),
]


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev lint", add_help=False)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)  # for scripts/test.py
    options = parser.parse_args(arguments)
    for name in options.only:
        if name not in [check[0] for check in CHECKS]:
            parser.error(f"there is no check '{name}'; --list prints them")
    return options


def run(command):
    try:
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError:
        return 1, f"{command[0]} is missing; scripts/dev/setup.sh test installs it\n"
    return done.returncode, done.stdout


def main(arguments):
    options = parse(arguments)
    if options.list:
        for name, what, _, _ in CHECKS:
            print(f"{name:15} {what}")
        return 0
    chosen = [check for check in CHECKS if not options.only or check[0] in options.only]
    results = {"passed": [], "failed": []}
    configured = True
    if any(check[2] for check in chosen):
        code, text = run(CONFIGURE)
        configured = code == 0
        if not configured:
            print(text)
    for name, what, needs_build, command in chosen:
        if name == "clang-tidy" and options.all:
            command = [*command, "--all"]
        code, text = run(command) if configured or not needs_build else (1, "the build could not be configured\n")
        results["failed" if code else "passed"].append(name)
        print(f"{'FAILED' if code else 'ok    '} {name}: {what}", flush=True)
        if code or name == "clang-tidy":
            print("".join(f"    {line}\n" for line in text.splitlines()), end="", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results))
    return 1 if results["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
