#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs clang-tidy-19 on the sources that changed, or on all of them, with the compile commands of a build folder.

Changes are relative to the merge base with the remote's main branch, or to the previous commit if the merge base is the
last commit; uncommitted changes are included. A changed header selects the sources with its stem. Without git, all sources
are checked.

With --all, up to 12 sources with equal compile commands are checked as one unit, because clang-tidy spends most of its time
on headers. If a unit does not compile or has a finding, each of its sources is checked separately.

Clean sources are recorded by a hash of their preprocessed text, so a stopped run continues where it ended. build/clang-tidy
has an empty file for each clean source and can be deleted.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import sources

ROOT = pathlib.Path(__file__).resolve().parent.parent
GROUP = 12


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
    """Returns paths relative to the root, or None if git or its history is not available."""
    base = base_commit()
    if base is None:
        return None
    names = (git("diff", "--name-only", base) or "") + "\n" + (git("ls-files", "--others", "--exclude-standard") or "")
    return {name for name in names.splitlines() if name}


def is_product(path):
    return path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build")


def chosen_sources(commands, changed):
    """Returns the changed sources and those with a changed header of the same stem, with their compile commands."""
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
    """Returns the command that prints the preprocessed text, including comments (NOLINT) and macros."""
    kept = []
    rest = iter(sources.compiler_words(command))
    for word in rest:
        if word in ("-o", "-MF", "-MT"):
            next(rest)
        elif word not in ("-c", "-MD"):
            kept.append(word)
    return [*kept, "-E", "-CC", "-dD"]


class Memory:
    """Records the sources that were clean in their present form."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        version = subprocess.run(["clang-tidy-19", "--version"], capture_output=True, check=True).stdout
        self.rules = version + b"".join(path.read_bytes() for path in (ROOT / ".clang-tidy", ROOT / "tests" / ".clang-tidy"))

    def place(self, commands):
        """Returns the path that records a clean result, or None if the source cannot be preprocessed."""
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


def groups_of(todo):
    """Groups sources with equal compile commands, at most 12 in a group: lists of (source, command)."""
    alike = {}
    for source, commands in todo.items():
        for command in commands:
            words = preprocessing({**command, "command": command["command"].replace(command["file"], "")})
            target = re.search(r" -o (\S+?\.dir)/", command["command"])  # sources of other targets may define functions with equal names
            way = (target and target[1], rules_for(source), command["directory"], *words)
            alike.setdefault(way, []).append((source, command))
    return [members[at:at + GROUP] for members in alike.values() for at in range(0, len(members), GROUP)]


def rules_for(source):
    """Returns the path of the .clang-tidy file for this source."""
    return ROOT / ("tests" if source.is_relative_to(ROOT / "tests") else "") / ".clang-tidy"


def tidy_group(members, folder):
    """Returns whether the sources are clean as one unit. #line directives keep the positions of findings."""
    texts = {source: source.read_text() for source, _ in members}
    text = "".join(f'#line 1 "{source}"\n{own}\n' for source, own in texts.items())
    # One folder per unit: a source with two compile commands is checked twice concurrently.
    place = pathlib.Path(tempfile.mkdtemp(dir=folder)) / f"group{members[0][0].suffix}"
    place.write_text(text)
    command = members[0][1]
    words = [word for word in preprocessing(command)[1:-3] if word != command["file"]]
    # A unit of several sources repeats includes, and names of one source shadow names of another.
    done = subprocess.run(["clang-tidy-19", "--quiet", f"--config-file={rules_for(members[0][0])}",
                           "--checks=-readability-duplicate-include", str(place), "--", *words, "-Wno-shadow"],
                          capture_output=True, cwd=command["directory"], stdin=subprocess.DEVNULL, check=False)
    return done.returncode == 0 and not any(includes_twice(own) for own in texts.values())


def includes_twice(text):
    lines = re.findall(r"^#include .*", text, re.MULTILINE)
    return len(lines) != len(set(lines))


def tidy_in_groups(todo, memory, pool):
    """Returns the sources to check one by one: those of groups in which something was found."""
    places = dict(zip(todo, pool.map(memory.place, todo.values())))
    new = {source: commands for source, commands in todo.items() if not (places[source] and places[source].exists())}
    with tempfile.TemporaryDirectory() as folder:
        groups = groups_of(new)
        left = Counter(source for members in groups for source, _ in members)
        for members, good in zip(groups, pool.map(lambda members: tidy_group(members, pathlib.Path(folder)), groups)):
            for source, _ in members if good else ():
                left[source] -= 1
                if left[source] == 0 and places[source]:
                    places[source].touch()
    return {source: commands for source, commands in new.items() if left.get(source, 1) != 0}


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
        alone = tidy_in_groups(todo, memory, pool) if options.all else todo
        for source, code, text in pool.map(lambda item: tidy(*item, options.build, memory), alone.items()):
            if code != 0:
                failures += 1
                print(f"{source.relative_to(ROOT)}:\n{text.strip()}")
    print(f"clang-tidy-19: {len(todo)} sources checked, {len(alone)} of them separately, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
