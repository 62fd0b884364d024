#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs clang-tidy-19 on the sources that changed, or on all of them, with the compile commands of a build folder.

Changed means: against the merge base with the remote's main branch; if that is the last commit itself, against the
commit before it; and always the uncommitted changes. A changed header stands for the sources of its stem.
Without git everything counts as changed.

A source in which nothing was found is remembered by what the compiler sees of it, so a run that was stopped goes on
where it was: build/clang-tidy has an empty file for each, and may be deleted.
"""
import argparse
import hashlib
import json
import os
import pathlib
import shlex
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
    """The sources in the compile commands that are changed, or whose header of the same stem is; with their commands."""
    of_source = {}
    for command in commands:
        of_source.setdefault(pathlib.Path(command["directory"], command["file"]).resolve(), []).append(command)
    names = [name for name in sorted(of_source) if is_product(name)]
    if changed is not None:
        stems = {pathlib.Path(name).stem for name in changed if name.endswith((".hpp", ".h"))}
        names = [name for name in names if str(name.relative_to(ROOT)) in changed or name.stem in stems
                 or name.stem.removesuffix("_test") in stems]
    return {name: of_source[name] for name in names}


def preprocessing(command):
    """The words that make the compiler print what it sees: comments too (NOLINT) and macros."""
    words = shlex.split(command["command"])
    while not pathlib.Path(words[0]).name.startswith(("g++", "clang++")):  # ccache
        words.pop(0)
    kept = []
    rest = iter(words)
    for word in rest:
        if word in ("-o", "-MF", "-MT"):
            next(rest)
        elif word not in ("-c", "-MD"):
            kept.append(word)
    return [*kept, "-E", "-CC", "-dD"]


class Memory:
    """Which sources were clean, as they are now."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        version = subprocess.run(["clang-tidy-19", "--version"], capture_output=True, check=True).stdout
        self.rules = version + (ROOT / ".clang-tidy").read_bytes()

    def place(self, commands):
        """Where a clean outcome is remembered, or None when the source cannot be preprocessed."""
        key = hashlib.sha256(self.rules)
        for command in commands:
            seen = subprocess.run(preprocessing(command), capture_output=True, cwd=command["directory"],
                                  stdin=subprocess.DEVNULL, check=False)
            if seen.returncode != 0:
                return None
            key.update(seen.stdout)
        return self.folder / key.hexdigest()


def tidy(source, commands, build, memory):
    """Returns the source with a return code and a text."""
    place = memory.place(commands)
    if place and place.exists():
        return source, 0, ""
    done = subprocess.run(["clang-tidy-19", "--quiet", "-p", str(build), str(source)], capture_output=True, text=True,
                          cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    if place and done.returncode == 0:
        place.touch()
    return source, done.returncode, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    commands = json.loads((options.build / "compile_commands.json").read_text())
    changed = None if options.all else changed_files()
    todo = chosen_sources(commands, changed)
    memory = Memory(ROOT / "build" / "clang-tidy")
    failures = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for source, code, text in pool.map(lambda item: tidy(*item, options.build, memory), todo.items()):
            if code != 0:
                failures += 1
                print(f"{source.relative_to(ROOT)}:\n{text.strip()}")
    print(f"clang-tidy-19: {len(todo)} sources looked at, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
