#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the checks of `./dev lint`, which scripts/dev/help/lint.txt describes. Each check is a program that prints one
finding per line and fails if there is one."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "lint"
PYTHON = sys.executable
CONFIGURE = ["cmake", "--preset", "dev-clang", "-B", str(BUILD), "-DVERBENA_BUILD_BENCH=OFF",
             "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"]

# name, findings, whether it needs a configured build folder, command
CHECKS = [
    ("format", "sources that clang-format-19 would change", False, ["scripts/dev/fmt.sh", "--check"]),
    ("layers", "includes that cmake/layers.txt does not permit", False, [PYTHON, "scripts/check_layers.py"]),
    ("tidy", "sizes, calls to avoid, macros, missing words of doc comments", False, [PYTHON, "scripts/tidy.py"]),
    ("classes", "classes of soft0 with too many functions or members, or functions in several sources", False,
     [PYTHON, "scripts/check_classes.py"]),
    ("words", "spelling, and phrases to avoid in comments, messages and documents", False,
     [PYTHON, "scripts/words.py"]),
    ("docs", "dead links and paths, snippets that the build does not compile", False, [PYTHON, "scripts/check_docs.py"]),
    ("conformance", "differences between docs/testing.md and the stored results", False,
     [PYTHON, "scripts/conformance_table.py"]),
    ("errors", "differences between docs/guide/errors-catalogue.md and the tests", False,
     [PYTHON, "scripts/errors_catalogue.py"]),
    ("connect", "differences between docs/guide/connect.md and the tests", False,
     [PYTHON, "scripts/connect_table.py"]),
    ("parity", "lines of docs/parity without an existing test", False,
     [PYTHON, "scripts/parity.py", "--names"]),
    ("c-verbs", "C functions that docs/guide/from-c-verbs.md does not list", False,
     [PYTHON, "scripts/check_c_verbs.py"]),
    ("verbs", "lists of C functions that differ from the manifests of the forwarders", False,
     [PYTHON, "scripts/check_verbs.py"]),
    ("safety", "a rule that docs/guide/safety.md does not list", False, [PYTHON, "scripts/safety_rules.py"]),
    ("pictures", "a picture in docs/pictures that is not what its script draws", False,
     [PYTHON, "docs/pictures/overview.py", "--check"]),
    ("reference", "public names without a comment, and names in documents that do not exist", False,
     [PYTHON, "scripts/reference.py"]),
    ("public-names", "public names missing from fwd.hpp or the C++20 module", False,
     [PYTHON, "scripts/public_names.py"]),
    ("header-set", "headers that would not be installed", True,
     [PYTHON, "scripts/check_header_set.py", str(BUILD / "verbena_header_set.txt")]),
    ("self-contained", "installed headers that do not compile alone", True,
     [PYTHON, "scripts/self_contained.py", "--build", str(BUILD)]),
    ("clang-tidy", "findings of clang-tidy-19 in changed sources", True,
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
            parser.error(f"unknown check '{name}'; --list prints the checks")
    return options


def run(command):
    try:
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError:
        return 1, f"{command[0]} is missing; scripts/dev/setup.sh test installs it\n"
    return done.returncode, done.stdout


def configure():
    """Configures the build folder of the checks. Returns whether it succeeded, and the output."""
    if shutil.which("clang++-19") is None:
        return False, "clang++-19 is missing; scripts/dev/setup.sh test installs it\n"
    code, text = run(CONFIGURE)
    if code != 0:  # the cache of a failed run makes later runs fail
        (BUILD / "CMakeCache.txt").unlink(missing_ok=True)
    return code == 0, text


def main(arguments):
    options = parse(arguments)
    if options.list:
        for name, what, _, _ in CHECKS:
            print(f"{name:15} {what}")
        return 0
    chosen = [check for check in CHECKS if not options.only or check[0] in options.only]
    results = {"passed": [], "failed": []}

    def report(check, code, text):
        name, what = check[:2]
        results["failed" if code else "passed"].append(name)
        print(f"{'FAILED' if code else 'ok    '} {name}: {what}", flush=True)
        if code or name == "clang-tidy":
            print("".join(f"    {line}\n" for line in text.splitlines()), end="", flush=True)

    # Checks without a build use one processor each; those of the build folder divide their work among all.
    apart = [check for check in chosen if not check[2]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for check, (code, text) in zip(apart, pool.map(lambda check: run(check[3]), apart)):
            report(check, code, text)
    of_build = [check for check in chosen if check[2]]
    configured, text = configure() if of_build else (True, "")
    if not configured:
        print(text)
    for check in of_build:
        command = [*check[3], "--all"] if check[0] == "clang-tidy" and options.all else check[3]
        report(check, *(run(command) if configured else (1, "configuring the build failed; the output is above\n")))
    if options.json:
        options.json.write_text(json.dumps(results))
    return 1 if results["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
