#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures how many seeded faults the tests of a module notice (mutation score).

Takes faults (faults.py) of library and device at random places, with a fixed seed; builds each by itself in a copy of the
tree, and runs the tests of its module, then those of the modules that prove its behaviour at a higher level. A fault is
noticed if a test fails, crashes or does not end. A fault that does not compile, or changes no machine code, is replaced by
the next one. The results are kept in build/mutants/results.json; a run continues where the last one stopped.
"""
import argparse
import hashlib
import json
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import time

from faults import Fault, faults_of, seeded

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build" / "mutants"
TREE = WORK / "tree"
BUILD = WORK / "build"
RESULTS = WORK / "results.json"
MOST_MEMORY = 6 << 30
# Sources that contain the texts of errors and logs.
TEXTS = ("failure", "reason_table", "drop_log", "warn_once", "text", "explain", "log", "describe", "persona")


class Module:
    """A module: its sources, the programs that test it, and the tests as groups of names, run in this order."""

    def __init__(self, name, folders, programs, groups):
        self.name, self.folders, self.programs, self.groups = name, folders, programs, groups


def library(name, *more):
    return Module(name, [f"include/verbena/{name}", f"src/{name}"], [f"{name}_test", *(f"{m}_test" for m in more)],
                  [f"^{name}/", *(f"^{m}/" for m in more)])


def device(name, *more):
    modules = [name, *more]
    return Module(f"softdev/{name}", [f"softdev/{name}"], [f"softdev_{m}_test" for m in modules],
                  [f"^softdev/{m}/" for m in modules])


MODULES = [
    library("base"), library("sys", "verbs"), library("verbs", "channel"), library("memory", "channel"),
    library("bringup"), library("channel"), library("cm"), library("efa"), library("diagnose"), library("async", "asio"),
    library("net"),
    device("core", "fabric", "shim"), device("ipc", "peers"), device("shm", "peers"), device("peers", "fabric", "shim"),
    device("fabric", "shim", "survival"), device("host", "shim"), device("cm", "shim"), device("shim"), device("wire"),
    device("capture"),
]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="faults that are tested (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the choice (default: 1)")
    parser.add_argument("--module", action="append", help="only this module, such as verbs or softdev/core; repeatable")
    parser.add_argument("--restart", action="store_true", help="forget the results of earlier runs")
    parser.add_argument("--again", action="store_true", help="test again the faults that no test noticed")
    parser.add_argument("--list", action="store_true", help="print the chosen faults, and end")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--jobs", type=int, default=2, help="parallel jobs of a build and of tests (default: 2)")
    parser.add_argument("--minimum", type=float, help="exit with 1 if fewer percent are noticed")
    options = parser.parse_args(arguments)
    known = [module.name for module in MODULES]
    for name in options.module or []:
        if name not in known:
            parser.error(f"unknown module '{name}'; known: {', '.join(known)}")
    return options


def sources_of(module, root=ROOT):
    files = [path for folder in module.folders for path in sorted((root / folder).rglob("*"))]
    return [path.relative_to(root) for path in files
            if path.suffix in (".cpp", ".hpp") and not any(word in path.stem for word in TEXTS)]


def faults_by_module(modules):
    return [(module, fault) for module in modules for file in sources_of(module)
            for fault in faults_of(str(file), (ROOT / file).read_text())]


def chosen_order(modules, seed):
    """All faults in random order, at most one of a line."""
    order = faults_by_module(modules)
    random.Random(seed).shuffle(order)
    seen = set()
    kept = []
    for module, fault in order:
        if (fault.file, fault.line) not in seen:
            seen.add((fault.file, fault.line))
            kept.append((module, fault))
    return kept


def limit_memory():
    """A fault can make a test allocate without end."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


def run(*words, limit=None):
    """Returns the exit code, or None if the command did not end in time."""
    with (WORK / "last.log").open("w") as out:
        try:
            return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.STDOUT, timeout=limit, check=False,
                                  preexec_fn=limit_memory).returncode
        except subprocess.TimeoutExpired:
            return None


def copy_tree():
    """Copies the files that git tracks; unchanged ones keep their time, so that they are not compiled again."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        if not name:
            continue
        source, target = ROOT / name, TREE / name
        if source.is_symlink() or not source.is_file():
            continue
        if target.exists() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def configure():
    WORK.mkdir(parents=True, exist_ok=True)
    copy_tree()
    # Without debug information a fault is built in half the time.
    code = run("cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0",
               "-DVERBENA_CHECKED=ON", "-DVERBENA_UNITY=ON", "-DVERBENA_WARNINGS=OFF", "-DCMAKE_CXX_COMPILER=g++-12",
               "-DCMAKE_C_COMPILER=gcc-12")
    if code != 0:
        sys.exit(f"configuring failed: {WORK / 'last.log'}")


def build(module, jobs):
    return run("cmake", "--build", BUILD, "--parallel", jobs, "--target", *module.programs) == 0


def machine_code(module):
    """A digest of the code of the module's programs, without build identifiers and debug information."""
    digest = hashlib.sha256()
    for pattern in [*module.programs, "libverbena-soft.so"]:
        for path in sorted(BUILD.rglob(pattern)):
            if not path.is_file():
                continue
            for section in (".text", ".rodata", ".data"):
                copy = WORK / "section"
                copy.write_bytes(b"")
                subprocess.run(["objcopy", "-O", "binary", f"--only-section={section}", str(path), str(copy)],
                               capture_output=True, check=False)
                digest.update(copy.read_bytes())
    return digest.hexdigest()


def noticed_by(module, jobs):
    """Returns the group of tests that notices the fault, or None."""
    for group in module.groups:
        code = run("ctest", "--test-dir", BUILD, "-R", group, "-LE", "compile_fail|campaign|vm|lint", "--parallel", jobs,
                   "--timeout", 60, "--stop-on-failure", "--no-tests=error", limit=600)
        if code != 0:
            return group.strip("^/")
    return None


def load(options):
    if options.restart or not RESULTS.exists():
        return {}
    return json.loads(RESULTS.read_text())


def key(options, fault):
    return f"{options.seed} {fault.name} {fault.after.strip()}"


class Baselines:
    """The machine code of modules without a fault; their tests must pass."""

    def __init__(self, jobs):
        self.jobs, self.known = jobs, {}

    def of(self, module):
        if module.name not in self.known:
            if not build(module, self.jobs):
                sys.exit(f"{module.name} does not build without a fault: {WORK / 'last.log'}")
            failing = noticed_by(module, self.jobs)
            if failing:
                sys.exit(f"tests of {failing} fail without a fault: {WORK / 'last.log'}")
            self.known[module.name] = machine_code(module)
        return self.known[module.name]


def test_fault(module, fault, baseline, jobs):
    """Returns "noticed by GROUP", "not noticed", "does not compile" or "same code"."""
    target = TREE / fault.file
    original = target.read_text()
    try:
        target.write_text(seeded(original, fault))
        if not build(module, jobs):
            return "does not compile"
        if machine_code(module) == baseline:
            return "same code"
        group = noticed_by(module, jobs)
        return f"noticed by {group}" if group else "not noticed"
    finally:
        target.write_text(original)


def is_counted(outcome):
    return outcome.startswith("noticed by") or outcome == "not noticed"


def report(results, as_json):
    counted = {name: outcome for name, outcome in results.items() if is_counted(outcome)}
    missed = sorted(name for name, outcome in counted.items() if outcome == "not noticed")
    score = 100 * (len(counted) - len(missed)) / len(counted) if counted else 0.0
    if as_json:
        print(json.dumps({"faults": len(counted), "noticed": len(counted) - len(missed), "percent": round(score, 1),
                          "not_noticed": missed}, indent=2))
    else:
        for name in missed:
            print(f"not noticed: {name}")
        print(f"{len(counted) - len(missed)} of {len(counted)} faults noticed: {score:.1f} %")
    return score


def main(arguments):
    options = parse(arguments)
    modules = [module for module in MODULES if not options.module or module.name in options.module]
    order = chosen_order(modules, options.seed)
    if options.list:
        for module, fault in order[:options.count]:
            print(f"{module.name}: {fault.name}\n  - {fault.before.strip()}\n  + {fault.after.strip()}")
        return 0
    configure()
    results = load(options)
    baselines = Baselines(options.jobs)
    mine = {}
    for module, fault in order:
        if sum(is_counted(outcome) for outcome in mine.values()) >= options.count:
            break
        name = key(options, fault)
        outcome = results.get(name)
        if outcome is None or (options.again and outcome == "not noticed"):
            baseline = baselines.of(module)
            started = time.monotonic()
            outcome = test_fault(module, fault, baseline, options.jobs)
            results[name] = outcome
            RESULTS.write_text(json.dumps(results, indent=1))
            print(f"{time.monotonic() - started:4.0f} s  {outcome}: {fault.name}", file=sys.stderr, flush=True)
        mine[name] = outcome
    score = report(mine, options.json)
    return 1 if options.minimum is not None and score < options.minimum else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
