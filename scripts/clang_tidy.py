#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs clang-tidy-19 on the sources that changed, or on all of them, with the compile commands of a build folder.

Changed means: against the merge base with the remote's main branch; if that is the last commit itself, against the
commit before it; and always the uncommitted changes. A changed header stands for the sources of its stem.
Without git everything counts as changed.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent


def git(*words):
    try:
        done = subprocess.run(["git", "-c", f"safe.directory={ROOT}", *words], cwd=ROOT, capture_output=True, text=True,
                              check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def base_commit():
    head = git("rev-parse", "HEAD")
    for branch in ("origin/HEAD", "origin/main"):
        base = git("merge-base", "HEAD", branch)
        if base and base != head:
            return base
    return git("rev-parse", "--verify", "-q", "HEAD~1")


def changed_files():
    """Paths relative to the root, or None when git cannot tell."""
    base = base_commit()
    if base is None:
        return None
    names = (git("diff", "--name-only", base) or "") + "\n" + (git("ls-files", "--others", "--exclude-standard") or "")
    return {name for name in names.splitlines() if name}


def is_product(path):
    return path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build")


def chosen_sources(commands, changed):
    """The sources in the compile commands that are changed, or whose header of the same stem is."""
    names = sorted({pathlib.Path(command["directory"], command["file"]).resolve() for command in commands})
    names = [name for name in names if is_product(name)]
    if changed is None:
        return names
    stems = {pathlib.Path(name).stem for name in changed if name.endswith((".hpp", ".h"))}
    return [name for name in names
            if str(name.relative_to(ROOT)) in changed or name.stem in stems or name.stem.removesuffix("_test") in stems]


def tidy(source, build):
    done = subprocess.run(["clang-tidy-19", "--quiet", "-p", str(build), str(source)], capture_output=True, text=True,
                          cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    return source, done.returncode, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    commands = json.loads((options.build / "compile_commands.json").read_text())
    changed = None if options.all else changed_files()
    todo = chosen_sources(commands, changed)
    failures = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for source, code, text in pool.map(lambda source: tidy(source, options.build), todo):
            if code != 0:
                failures += 1
                print(f"{source.relative_to(ROOT)}:\n{text.strip()}")
    print(f"clang-tidy-19: {len(todo)} sources looked at, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
