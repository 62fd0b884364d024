#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles each installed header alone with the flags of the library and prints the errors.

The headers that most other headers include are precompiled to save time. Only a header that includes a precompiled header,
directly or indirectly, is compiled with it, so no header gains declarations that it does not include.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import sources

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Largest first.
PRECOMPILED = ("verbena/asio/engine.hpp", "verbena/channel/channel.hpp", "verbena/verbs/context.hpp", "verbena/sys/provider.hpp",
               "verbena/base/result.hpp")
OWN = re.compile(r'^#\s*include "(verbena/[^"]+)"', re.MULTILINE)


def library_flags(build):
    """Returns the compile command of a source of the library; a source of cm has all include paths."""
    commands = [each for each in json.loads((build / "compile_commands.json").read_text()) if "/src/" in each["file"]]
    chosen = next((each for each in commands if "/src/cm/" in each["file"]), commands[0])
    words = sources.compiler_words(chosen)
    words = words[:words.index("-o")] + words[words.index("-o") + 2:]
    return [word for word in words if word not in ("-c", chosen["file"])], chosen["directory"]


def closures(include, names):
    """Returns for each installed header all installed headers that it includes, directly or indirectly."""
    direct = {name: set(OWN.findall((include / name).read_text())) for name in names}
    reached = {}

    def reach(name):
        if name not in reached:
            reached[name] = set()  # ends the recursion of circular includes
            reached[name] = direct.get(name, set()).union(*(reach(each) for each in direct.get(name, ())))
        return reached[name]
    return {name: reach(name) for name in names}


def compile_all(include, names, words, directory):
    reached = closures(include, names)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
        folder = pathlib.Path(folder)

        def run(*more):
            return subprocess.run([*words, *more], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)

        def precompile(root):
            made = folder / (root.replace("/", ".") + ".pch")
            return made if run("-x", "c++-header", str(include / root), "-o", str(made)).returncode == 0 else None

        def alone(name):
            source = folder / (name.replace("/", ".") + ".cpp")
            source.write_text(f'#include "{name}"\n')
            behind = next((ready[root] for root in PRECOMPILED if ready.get(root) and root in reached[name]), None)
            more = ("-include-pch", str(behind)) if behind else ()
            done = run(*more, "-fsyntax-only", str(source))
            return f"{name} does not compile alone:\n{done.stdout}" if done.returncode else ""

        roots = [root for root in PRECOMPILED if root in names]
        ready = dict(zip(roots, pool.map(precompile, roots)))
        return [found for found in pool.map(alone, names) if found]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    options = parser.parse_args()
    include = options.root.resolve() / "include"
    listed = (options.build / "verbena_header_set.txt").read_text().splitlines()
    names = sorted(str(pathlib.Path(line).resolve().relative_to(include)) for line in listed if line.strip())
    words, directory = library_flags(options.build)
    found = compile_all(include, names, words, directory)
    print("".join(found), end="")
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main())
