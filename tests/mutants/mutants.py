#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures how many seeded faults the tests of a module notice (mutation score).

Takes faults (faults.py) of library and device at random places, with a fixed seed; builds each by itself in a copy of the
tree, and runs the tests of its module, then those of the modules that prove its behaviour at a higher level. A fault is
noticed if a test fails, crashes or does not end. A fault that does not compile, changes no machine code, or belongs to a
class without effect (NO_EFFECT in faults.py) is replaced by the next one. The results are kept in
build/mutants/results.json; a run continues where the last one stopped.

To save time, a program is built only when its tests are about to run, the quickest tests run first, the first failing test
ends the run, and a test may take ten times its usual time (at least 30 s).
"""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

from faults import Fault, faults_of, seeded

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build" / "mutants"
TREE = WORK / "tree"
BUILD = WORK / "build"
RESULTS = WORK / "results.json"
USUAL = WORK / "usual.json"
MOST_MEMORY = 6 << 30
OWN = " (own tests)"  # a result that a run without --own does not use
LEAST_LIMIT = 30.0  # seconds
MOST_LIMIT = 600.0  # of a test without a fault
USUAL_TIMES = 10
# Small units: a fault in a source compiles few other sources. A fault in a header compiles the units that include it.
MODULE_BATCH = 4
# Sources that contain the texts of errors and logs.
TEXTS = ("failure", "reason_table", "drop_log", "warn_once", "text", "explain", "log", "describe", "persona")


class Module:
    """A module: its sources, and its groups of tests in the order in which they run: (program, prefix of test names)."""

    def __init__(self, name, folders, groups):
        self.name, self.folders, self.groups = name, folders, groups


def library(name, *more):
    return Module(name, [f"include/verbena/{name}", f"src/{name}"], [(f"{m}_test", m) for m in (name, *more)])


def device(name, *more):
    return Module(f"softdev/{name}", [f"softdev/{name}"],
                  [(f"softdev_{m}_test", f"softdev/{m}") for m in (name, *more)])


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
    parser.add_argument("--own", action="store_true", help="run only the tests of the fault's own module (quicker)")
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
               "-DVERBENA_CHECKED=ON", "-DVERBENA_UNITY=ON", f"-DVERBENA_MODULE_BATCH={MODULE_BATCH}",
               "-DVERBENA_WARNINGS=OFF", "-DCMAKE_CXX_COMPILER=g++-12", "-DCMAKE_C_COMPILER=gcc-12")
    if code != 0:
        sys.exit(f"configuring failed: {WORK / 'last.log'}")


def build(program, jobs):
    device = [] if program.startswith("softdev_") else ["verbena-soft"]  # loaded by tests of the library
    return run("cmake", "--build", BUILD, "--parallel", jobs, "--target", program, *device) == 0


def machine_code(program):
    """A digest of the code of a program and of the device's library, without build identifiers."""
    digest = hashlib.sha256()
    for name in (program, "libverbena-soft.so"):
        for path in sorted(BUILD.rglob(name)):
            if not path.is_file():
                continue
            for section in (".text", ".rodata", ".data"):
                copy = WORK / "section"
                copy.write_bytes(b"")
                subprocess.run(["objcopy", "-O", "binary", f"--only-section={section}", str(path), str(copy)],
                               capture_output=True, check=False)
                digest.update(copy.read_bytes())
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True)
class Test:
    name: str
    command: tuple
    folder: str
    environment: tuple

    def passes(self, limit, log):
        """Runs the test. If it does not end within `limit` seconds, ends it with its child processes."""
        with log.open("w") as out:
            process = subprocess.Popen(self.command, cwd=self.folder, env=os.environ | dict(self.environment),
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                       start_new_session=True, preexec_fn=limit_memory)
            try:
                return process.wait(limit) == 0
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # its own group: with the processes that it started
                process.wait()
                return False


def tests_of(prefix):
    """The tests of a built program, as CTest lists them."""
    listed = subprocess.run(["ctest", "--test-dir", str(BUILD), "--show-only=json-v1", "-R", f"^{prefix}/",
                             "-LE", "compile_fail|campaign|vm|lint"], capture_output=True, check=True).stdout
    tests = []
    for each in json.loads(listed)["tests"]:
        properties = {one["name"]: one["value"] for one in each.get("properties", [])}
        environment = tuple(tuple(setting.split("=", 1)) for setting in properties.get("ENVIRONMENT", []))
        tests.append(Test(each["name"], tuple(each["command"]), properties["WORKING_DIRECTORY"], environment))
    return tests


def failing(tests, limit_of, jobs):
    """Runs tests in this order until one fails. Returns the first that failed, or None, and the seconds of each."""
    seconds, failed, lock = {}, [], threading.Lock()

    def run_one(number, test):
        if failed:
            return
        started = time.monotonic()
        passed = test.passes(limit_of(test), WORK / f"test{number % (2 * jobs)}.log")
        with lock:
            seconds[test.name] = time.monotonic() - started
            if not passed:
                failed.append(test.name)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run_one, range(len(tests)), tests))
    return failed[0] if failed else None, seconds


def load(options):
    if options.restart or not RESULTS.exists():
        return {}
    return json.loads(RESULTS.read_text())


def key(options, fault):
    return f"{options.seed} {fault.name} {fault.after.strip()}"


class Baseline:
    """A group of tests without a fault: the machine code of its program, and its tests, the quickest first. They must pass,
    and do not run again while the machine code is the same."""

    def __init__(self, program, prefix, jobs):
        if not build(program, jobs):
            sys.exit(f"{program} does not build without a fault: {WORK / 'last.log'}")
        self.code = machine_code(program)
        tests = tests_of(prefix)
        if not tests:
            sys.exit(f"{program} has no tests with the prefix {prefix}/")
        kept = json.loads(USUAL.read_text()) if USUAL.exists() else {}
        usual = kept.get(program, {})
        if usual.get("code") != self.code or set(usual["seconds"]) != {test.name for test in tests}:
            failed, seconds = failing(tests, lambda test: MOST_LIMIT, jobs)
            if failed:
                sys.exit(f"{failed} fails without a fault: {WORK}/test*.log")
            kept[program] = usual = {"code": self.code, "seconds": seconds}
            USUAL.write_text(json.dumps(kept, indent=1))
        self.seconds = usual["seconds"]
        self.tests = sorted(tests, key=lambda test: self.seconds[test.name])

    def limit(self, test):
        return max(LEAST_LIMIT, USUAL_TIMES * self.seconds[test.name])


class Baselines:
    def __init__(self, jobs):
        self.jobs, self.known = jobs, {}

    def of(self, program, prefix):
        if program not in self.known:
            self.known[program] = Baseline(program, prefix, self.jobs)
        return self.known[program]


def test_fault(groups, fault, baselines, jobs):
    """Returns "noticed by TEST", "not noticed", "does not compile" or "same code"."""
    target = TREE / fault.file
    original = target.read_text()
    outcome = "same code"
    try:
        for program, prefix in groups:
            if program not in baselines.known:
                target.write_text(original)
            baseline = baselines.of(program, prefix)
            if target.read_text() == original:
                target.write_text(seeded(original, fault))
            if not build(program, jobs):
                return "does not compile"
            if machine_code(program) == baseline.code:
                continue
            failed, _ = failing(baseline.tests, baseline.limit, jobs)
            if failed:
                return f"noticed by {failed}"
            outcome = "not noticed"
        return outcome
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
        outcome = results.get(name) or (results.get(name + OWN) if options.own else None)
        if outcome is None or (options.again and outcome == "not noticed"):
            started = time.monotonic()
            groups = module.groups[:1] if options.own else module.groups
            outcome = test_fault(groups, fault, baselines, options.jobs)
            results[name + OWN if options.own and outcome == "not noticed" else name] = outcome
            RESULTS.write_text(json.dumps(results, indent=1))
            print(f"{time.monotonic() - started:4.0f} s  {outcome}: {fault.name}", file=sys.stderr, flush=True)
        mine[name] = outcome
    score = report(mine, options.json)
    return 1 if options.minimum is not None and score < options.minimum else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
