#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the stages of `./dev test`, which scripts/dev/help/test.txt describes.

A stage configures, builds and runs CTest or a script and writes its output to build/logs/STAGE.log. Tests are counted
from CTest's JUnit files. Each stage has a time budget, which is multiplied by a factor for slower machines.
"""
import argparse
import dataclasses
import fnmatch
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from collections.abc import Callable

import places
import test_sources

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
TOTAL_BUDGET_S = 30 * 60
# Seconds of the compilations below on the machine of the budgets: 2 quiet cores.
REFERENCE_S = 2.2
REFERENCE_COMPILER = "g++-12"
REFERENCE_SOURCE = """
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
bool matches(const std::string& text) { return std::regex_match(text, std::regex("a+b")); }
"""
JOBS = str(max(2, os.cpu_count() or 2))
# Unit tests wait for much of their time.
UNIT_JOBS = str(2 * int(JOBS))
SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    # At exit, TSan waits for races of remaining threads: 1 s by default, here 50 ms.
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:die_after_fork=0:atexit_sleep_ms=50",
}
# Folders of files that the results of tests depend on.
SOURCES = ("include", "src", "softdev", "modules", "tools", "examples", "tests", "cmake")
# Labels of tests that have their own stages.
APART = "compile_fail|package|example|lint|campaign|program|vm"
# Tests that a build without checks does not have, besides those in `#ifdef VERBENA_CHECKED`: pattern -> reason.
NOT_IN_RELEASE = {
    "unchecked/*": "compiles the interface without checks, as the release build compiles all tests",
    "zoo/*": "shows what the checks detect",
}


@dataclasses.dataclass
class Outcome:
    passed: list[str] = dataclasses.field(default_factory=list)
    failed: list[str] = dataclasses.field(default_factory=list)
    skipped: list[str] = dataclasses.field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


class StepFailed(Exception):
    """A step other than a test failed; the text names the step."""


class Run:
    """The log and the outcome of a running stage."""

    def __init__(self, stage):
        self.outcome = Outcome()
        LOGS.mkdir(parents=True, exist_ok=True)
        self.name = stage
        self.sources = fingerprint(ROOT)
        self.log_path = LOGS / f"{stage}.log"
        self.log = self.log_path.open("w")

    def command(self, *words, environment=None):
        self.log.write(f"\n$ {' '.join(map(str, words))}\n")
        self.log.flush()
        done = subprocess.run(list(map(str, words)), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self.log,
                              stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}, check=False)
        return done.returncode

    def step(self, what, *words):
        if self.command(*words) != 0:
            raise StepFailed(what)

    def configure(self, preset, *definitions):
        launcher = []
        # A unity build from an empty folder takes half the time; an existing build folder keeps its setting.
        if preset in ("dev", "release") and not (ROOT / "build" / preset / "CMakeCache.txt").exists():
            definitions = ("-DVERBENA_UNITY=ON", *definitions)
        if os.environ.get("VERBENA_COMPILER_LAUNCHER"):
            launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={os.environ['VERBENA_COMPILER_LAUNCHER']}"]
        self.step(f"configure {preset}", "cmake", "--preset", preset, *launcher, *definitions)

    def build(self, preset, *targets):
        chosen = ["--target", *targets] if targets else []
        self.step(f"build {preset}", "cmake", "--build", f"build/{preset}", "--parallel", JOBS, *chosen)

    def ctest(self, preset, *arguments, environment=None, jobs=JOBS):
        report = LOGS / f"{self.name}.{preset}.xml"
        report.unlink(missing_ok=True)
        self.command("ctest", "--test-dir", f"build/{preset}", "--output-on-failure", "--no-tests=error",
                     "--timeout", "300", "--parallel", jobs, "--output-junit", report, *arguments,
                     environment={**SANITIZER_ENVIRONMENT, **(environment or {})})
        if not report.exists():
            raise StepFailed(f"ctest {preset}")
        report.with_suffix(".sources").write_text(self.sources)
        self.outcome.add(read_junit(report))


def fingerprint(root):
    """Returns a hash of the files that the results of tests depend on."""
    found = hashlib.sha256()
    paths = [root / "CMakeLists.txt", *(path for folder in SOURCES for path in (root / folder).rglob("*"))]
    for path in sorted(path for path in paths if path.is_file() and path.suffix not in (".pyc", ".json")):
        found.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def fingerprint_of(report):
    """Returns the hash of the sources of a CTest report, or None if it is not known."""
    path = report.with_suffix(".sources")
    return path.read_text() if path.is_file() else None


def read_junit(path):
    """Returns the tests of a CTest report by outcome; a test that neither ran nor was skipped counts as failed."""
    outcome = Outcome()
    for case in xml.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        if case.find("skipped") is not None:
            outcome.skipped.append(name)
        elif case.get("status") == "run" and case.find("failure") is None:
            outcome.passed.append(name)
        else:
            outcome.failed.append(name)
    return outcome


def setup(run):
    run.step("installing packages", "scripts/dev/setup.sh", "build", "test", "vm")
    run.outcome.passed.append("setup")


def lint(*arguments):
    def stage(run):
        report = LOGS / f"{run.name}.json"
        report.unlink(missing_ok=True)
        run.command(sys.executable, "scripts/lint.py", "--json", report, *arguments)
        if not report.exists():
            raise StepFailed("lint")
        found = json.loads(report.read_text())
        run.outcome.add(Outcome([f"lint/{name}" for name in found["passed"]],
                                [f"lint/{name}" for name in found["failed"]]))
    return stage


def lint_bites(run):
    lint()(run)
    run.configure("dev")
    run.ctest("dev", "-L", "lint")


def suites(preset, *arguments):
    def stage(run):
        run.configure(preset)
        run.build(preset)
        run.ctest(preset, *(arguments or ("-LE", APART)), jobs=UNIT_JOBS)
    return stage


def release(run):
    """Runs the tests of a build without checks, and verifies that only those are missing that hold only with checks."""
    suites("release", "-LE", "compile_fail|package|lint|campaign|program|vm")(run)
    tests = list(test_sources.unit_tests(ROOT))
    run.outcome.failed += wrong_in_release(run.outcome, tests)
    print(f"  not in this build: {sum(test.is_checked_only for test in tests)} × #ifdef VERBENA_CHECKED: "
          "they need the checks of the data path")
    for pattern, reason in NOT_IN_RELEASE.items():
        print(f"  not in this build: {pattern}: {reason}")


def wrong_in_release(outcome, tests):
    """Yields the unit tests of the sources that a build without checks should run and does not run, and the reverse."""
    present = outcome.passed + outcome.failed + outcome.skipped
    for test in tests:
        if any(fnmatch.fnmatchcase(test.name, pattern) for pattern in NOT_IN_RELEASE):
            continue
        ran = bool(fnmatch.filter(present, test.name))
        if test.is_checked_only and ran:
            yield f"{test.name} is compiled without checks, although it is in #ifdef VERBENA_CHECKED"
        elif not test.is_checked_only and not ran:
            yield f"{test.name} did not run, and no rule excludes it from builds without checks"


def tsan_subset(run):
    run.configure("tsan")
    run.build("tsan", "tsan_tests")
    run.ctest("tsan", "-L", "tsan", "-LE", "campaign", jobs=UNIT_JOBS)


def labelled(label, *presets, needs_build=True, environment=None):
    def stage(run):
        for preset in presets:
            run.configure(preset)
            if needs_build:
                run.build(preset)
            run.ctest(preset, "-L", label, environment=environment)
    return stage


def campaigns(run):
    labelled("campaign", "release", "asan")(run)
    # Campaigns of channels also run under TSan.
    run.configure("tsan")
    run.build("tsan", "channel_test", "verbena-soft")
    run.ctest("tsan", "-R", "^campaign/(channel_|recovery)")


def parity(run):
    """Evaluates the results of the previous stages; with --stage parity those of the last run."""
    run.step("./dev parity", sys.executable, "scripts/parity.py", "--logs", LOGS)
    run.outcome.passed.append("parity")


def site(run):
    run.step("./dev docs --browser", "./dev", "docs", "--browser")
    run.outcome.passed.append("site")


def floor(run):
    run.configure("floor")
    run.build("floor", "floor_tests")
    run.ctest("floor", "-L", "floor")


def fuzz(run):
    """Fuzzes each target for 10 s, two at a time."""
    report = LOGS / f"{run.name}.json"
    report.unlink(missing_ok=True)
    run.command(sys.executable, "scripts/fuzz.py", "--seconds", 10, "--jobs", 2, "--json", report)
    if not report.exists():
        raise StepFailed("./dev fuzz")
    for each in json.loads(report.read_text()):
        (run.outcome.failed if each["failed"] else run.outcome.passed).append(f"fuzz/{each['target']}")


def mutants(run):
    """Seeds 5 faults. One may go unnoticed: the score of a full run is less than 100 %."""
    run.step("seeded faults", sys.executable, "tests/mutants/mutants.py", "--count", 5, "--minimum", 80)
    run.outcome.passed.append("mutants")


@dataclasses.dataclass
class Stage:
    name: str
    budget_s: int
    what: str
    run: Callable
    long: bool = False


STAGES = [
    Stage("setup", 25, "install missing packages", setup),
    Stage("lint", 75, "./dev lint, and tests of the lints", lint_bites),
    Stage("gcc", 318, "g++ 12: all suites on soft0, with the checks of the data path", suites("dev")),
    Stage("release", 372, "g++ 12: the suites and examples as users build them, optimized and without checks", release),
    Stage("compile-fail", 18, "code that must not compile, g++ 12 and clang 19",
          labelled("compile_fail", "dev", "asan", needs_build=False)),
    Stage("package", 74, "consumer projects, link tests", labelled("package", "dev")),
    Stage("example", 12, "the examples that the documents quote", labelled("example", "dev")),
    Stage("programs", 134, "third-party programs with preload and drop-in, as root and as an unprivileged user",
          labelled("programs", "dev")),
    Stage("vm", 172, "rxe and siw of kernels 6.1 and 6.12 in a virtual machine", labelled("^vm$", "dev")),
    Stage("asan", 325, "clang 19: all suites under ASan and UBSan",
          suites("asan", "-LE", "compile_fail|package|lint|campaign")),
    Stage("tsan", 108, "clang 19: the suites with the label tsan under TSan", tsan_subset),
    Stage("fuzz", 163, "10 s of each fuzz target: ./dev fuzz", fuzz),
    Stage("parity", 4, "./dev parity: the tests that docs/parity names have passed", parity),
    Stage("clang", 600, "clang 19: all suites without sanitizers",
          suites("dev-clang", "-LE", "lint|campaign|program|vm"), long=True),
    Stage("tsan-all", 900, "all suites under TSan",
          suites("tsan", "-LE", "compile_fail|package|lint|campaign"), long=True),
    Stage("tidy-all", 3600, "clang-tidy on all sources", lint("--all", "--only", "clang-tidy"), long=True),
    Stage("site", 300, "./dev docs --browser: the site, its links, and each page in a headless browser", site, long=True),
    Stage("floor", 600, "the build without exceptions", floor, long=True),
    Stage("package-matrix", 600, "consumer projects in release mode and with clang",
          labelled("package", "release", "dev-clang", environment={"VERBENA_PACKAGE_FULL": "1"}), long=True),
    Stage("program-matrix", 1800, "all variants of third-party programs with each forwarder and user",
          labelled("program-matrix", "release"), long=True),
    Stage("vm-matrix", 3000, "conformance on the devices and kernels that the stage vm omits; channels and their campaigns",
          labelled("^vm-matrix$", "dev"), long=True),
    Stage("mutants", 1200, "5 seeded faults, which the tests must notice: tests/mutants/mutants.py", mutants, long=True),
    Stage("campaign", 14400, "full-size campaigns; those of channels also under TSan", campaigns, long=True),
]


# Conditions under which a skip is expected.
CONDITIONS = {
    "everywhere": lambda: True,
    "not-root": lambda: os.geteuid() != 0,
    "no-mounts": lambda: places.own_mounts() is None,
    "no-users": lambda: os.geteuid() == 0 and not places.own_users(),
    "no-network": lambda: not places.own_network(),
    "no-root-network": lambda: os.geteuid() == 0 and not places.own_network(),
    "no-hosts": lambda: not places.own_hosts(),
    "no-huge-pages": lambda: not places.has_huge_pages(),
    "no-placing": lambda: not places.may_place(),
    "no-placing-with-huge-pages": lambda: not places.may_place() and places.has_huge_pages(),
    "no-package-sources": lambda: not places.has_package_sources(),
    "no-userfaultfd": lambda: not places.userfaultfd_is_available(),
}


def read_expected_skips(path):
    """Returns the lines `stage (* and ?) | where | test (* and ?) | count | reason` whose condition holds here."""
    rows = []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            stage, where, pattern, count, reason = (part.strip() for part in line.split("|", 4))
            if CONDITIONS[where]():
                rows.append((stage, pattern, int(count), reason))
    return rows


def check_skips(stage, outcome, rows):
    """Prints each skip with its reason; counts unexpected and missing skips as failures."""
    left = list(outcome.skipped)
    for _, pattern, count, reason in (row for row in rows if fnmatch.fnmatchcase(stage, row[0])):
        matching = [name for name in left if fnmatch.fnmatchcase(name, pattern)]
        left = [name for name in left if name not in matching]
        print(f"  skipped as expected: {len(matching)} × {pattern}: {reason}")
        if len(matching) != count:
            outcome.failed.append(f"{len(matching)} skips of {pattern} instead of {count}: see tests/expected_skips.txt")
    for name in left:
        outcome.skipped.remove(name)
        outcome.failed.append(f"{name} (skipped, but not listed in tests/expected_skips.txt)")


def tail(path, lines=60):
    text = path.read_text(errors="replace").splitlines()
    return "\n".join("    " + line for line in text[-lines:])


def measure_seconds(compiler=REFERENCE_COMPILER, copies=int(JOBS)):
    """Returns the seconds that the compilations of REFERENCE_SOURCE take, one for each processor, or None on failure."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(REFERENCE_SOURCE)
        source.flush()
        words = [compiler, "-std=c++20", "-O2", "-c", source.name, "-o", os.devnull]
        started = time.monotonic()
        try:
            running = [subprocess.Popen(words, env={**os.environ, "CCACHE_DISABLE": "1"}) for _ in range(copies)]
        except FileNotFoundError:
            return None
        codes = [process.wait() for process in running]
        return None if any(codes) else time.monotonic() - started


def slowness(seconds):
    """Returns the factor of the budgets for a machine on which the reference compilations took this time."""
    return 1.0 if seconds is None else max(1.0, seconds / REFERENCE_S)


@dataclasses.dataclass
class Budgets:
    """Compares times with budgets. The speed of a shared machine changes during a run, so it is measured again after each stage,
    and all budgets apply to the slowest speed of the run: `judge` decides at its end. An exceeded budget is a warning or, if
    `enforced`, a failure."""
    factor: float
    enforced: bool
    exceeded: list[tuple[str, float, int]] = dataclasses.field(default_factory=list)

    def of(self, seconds):
        return seconds * self.factor

    def measure(self):
        measured = measure_seconds()
        if slowness(measured) > self.factor:
            self.factor = slowness(measured)
            print(f"  speed now: {measured:.1f} s: budgets × {self.factor:.2f}", flush=True)

    def note(self, what, seconds, budget_s):
        if seconds > self.of(budget_s):
            self.exceeded.append((what, seconds, budget_s))

    def judge(self, outcome):
        for what, seconds, budget_s in self.exceeded:
            if seconds <= self.of(budget_s):
                continue
            text = f"{what} took {seconds:.0f} s, more than the budget of {self.of(budget_s):.0f} s"
            print(f"{'FAILED' if self.enforced else 'WARNING'} {text}", flush=True)
            if self.enforced:
                outcome.failed.append(text)


def run_stage(stage, rows, budgets):
    print(f"{stage.name}: {stage.what}", flush=True)
    run = Run(stage.name)
    started = time.monotonic()
    try:
        stage.run(run)
    except StepFailed as failed:
        run.outcome.failed.append(f"{stage.name}: {failed}")
    seconds = time.monotonic() - started
    if stage.name == "setup":
        seconds += float(os.environ.get("VERBENA_SETUP_SECONDS", "0"))
    run.log.close()
    check_skips(stage.name, run.outcome, rows)
    done = run.outcome
    print(f"  {seconds:.0f} s of {budgets.of(stage.budget_s):.0f} s: {len(done.passed)} passed, {len(done.failed)} failed, "
          f"{len(done.skipped)} skipped", flush=True)
    if done.failed:
        print(tail(run.log_path))
        for name in done.failed:
            print(f"  FAILED {name}")
        print(f"  log: {run.log_path.relative_to(ROOT)}", flush=True)
    budgets.measure()
    budgets.note(f"the stage {stage.name}", seconds, stage.budget_s)
    return done, seconds


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev test", add_help=False)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--stage", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--enforce-budgets", action="store_true")
    options = parser.parse_args(arguments)
    known = [stage.name for stage in STAGES]
    for name in options.stage:
        if name not in known:
            parser.error(f"unknown stage '{name}'; --list prints the stages")
    return options


def main(arguments):
    options = parse(arguments)
    if options.list:
        for stage in STAGES:
            print(f"{stage.name:15} {stage.budget_s:5} s  {'--all  ' if stage.long else '       '}{stage.what}")
        return 0
    chosen = [stage for stage in STAGES
              if (stage.name in options.stage if options.stage else options.all or not stage.long)]
    rows = read_expected_skips(ROOT / "tests" / "expected_skips.txt")
    measured = measure_seconds()
    budgets = Budgets(slowness(measured), options.enforce_budgets)
    speed = f"{measured:.1f} s" if measured else f"{REFERENCE_COMPILER} failed"
    print(f"speed: {speed} (reference {REFERENCE_S:.1f} s): budgets × {budgets.factor:.2f}", flush=True)
    total = Outcome()
    seconds = {}
    for stage in chosen:
        outcome, seconds[stage.name] = run_stage(stage, rows, budgets)
        total.add(outcome)
    print("\nstage            seconds  budget")
    for stage in chosen:
        print(f"{stage.name:15} {seconds[stage.name]:8.0f} {budgets.of(stage.budget_s):7.0f}")
    spent = sum(seconds[stage.name] for stage in chosen if not stage.long)
    print(f"{'sum (default)':15} {spent:8.0f} {budgets.of(TOTAL_BUDGET_S):7.0f}")
    budgets.note("the default stages together", spent, TOTAL_BUDGET_S)
    budgets.judge(total)
    print(f"{len(total.passed)} passed, {len(total.failed)} failed, {len(total.skipped)} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
