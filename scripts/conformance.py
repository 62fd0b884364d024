#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the conformance suite on one device and compares the outcomes with the expected ones.

Every test must pass or be listed in tests/conformance/differences.txt with its outcome on that device, the reason and the
component at fault. A listed test that passes is an error. The outcomes must also equal the stored ones in
tests/conformance/results/DEVICE.json; --update stores the new outcomes.

--through './dev vm --kernel 6.1 --devices rxe --' runs the program through that command, here in a virtual machine.
"""
import argparse
import dataclasses
import fnmatch
import json
import os
import pathlib
import re
import selectors
import shlex
import signal
import subprocess
import sys
import time

import googletest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITE = ROOT / "tests" / "conformance"
OUTCOMES = ("pass", "fail", "unsupported", "varies")
FAULTS = ("library", "device", "kernel", "provider", "specification", "suite")
RAN = re.compile(r"\[ RUN      \] (\S+)")
ENDED = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+).* \((\d+) ms\)")
DEVICE = re.compile(r"\[ DEVICE   \] (\{.*\})")


@dataclasses.dataclass
class Difference:
    """A line of differences.txt: tests that do not pass on a device."""
    device: str
    test: str
    outcome: str
    fault: str
    reason: str
    line: int

    def applies_to(self, device, test):
        return fnmatch.fnmatchcase(device, self.device) and fnmatch.fnmatchcase(test, self.test)


@dataclasses.dataclass
class Case:
    outcome: str
    seconds: float = 0.0
    output: str = ""


def read_differences(path):
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 5 or parts[2] not in OUTCOMES[1:] or parts[3] not in FAULTS or not parts[4]:
            raise SystemExit(f"{path}:{number}: '{line}' is not `device | test | {' or '.join(OUTCOMES[1:])} | "
                             f"{' or '.join(FAULTS)} | reason`")
        found.append(Difference(*parts, number))
    return found


def expected_outcome(differences, device, test):
    """Returns the first line that applies to the test on the device, or None."""
    return next((each for each in differences if each.applies_to(device, test)), None)


class Program:
    """The suite. Restarts the program after a crash or hang until each test has an outcome."""

    def __init__(self, options):
        self.options = options
        self.cases = {}
        self.facts = {}
        self.failed_set_up = ""
        self.bad_ends = []

    def run(self):
        # GoogleTest has no filter for "all tests after this one", so the remaining tests are named one by one.
        left = googletest.tests_of(self.options.program, self.options.filter)
        while left:
            current = self.run_once(left)
            if self.failed_set_up:
                return
            rest = [test for test in left if test not in self.cases]
            if len(rest) == len(left) or (rest and current is None):
                self.failed_set_up = f"the program ended without running {len(rest)} of {len(left)} tests\n"
                return
            left = rest

    def run_once(self, tests):
        """Runs `tests`; returns the test in which the program crashed or hung, or None."""
        arguments = [str(self.options.program), "--gtest_color=no"]
        everything = not self.cases
        arguments.append(f"--gtest_filter={self.options.filter if everything else ':'.join(tests)}")
        variables = {"VERBENA_TEST_DEVICE": self.options.device, "VERBENA_TEST_TIMEOUT_FACTOR": str(self.options.timeout_factor)}
        if self.options.device == "soft0":
            variables |= {"VERBENA_SOFTDEV": "only", "VERBENA_SOFTDEV_PERSONA": self.options.persona}
        process = subprocess.Popen([*shlex.split(self.options.through), *arguments], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                   env={**os.environ, **variables}, start_new_session=True)
        current, text, silent = None, "", False
        for line in self.lines(process):
            if line is None:
                silent = True
                break
            if self.options.verbose:
                print(line, end="", flush=True)
            if match := DEVICE.search(line):
                self.facts = json.loads(match.group(1))
            elif match := RAN.match(line):
                current, text = match.group(1), ""
            elif (match := ENDED.match(line)) and match.group(2) == current:
                outcome = {"OK": "pass", "FAILED": "fail", "SKIPPED": "unsupported"}[match.group(1)]
                self.cases[current] = Case(outcome, int(match.group(3)) / 1000, text)
                current, text = None, ""
            else:
                text += line
        code = self.end(process)
        if current is None:
            if not self.facts:
                self.failed_set_up = text
            failed = any(self.cases[test].outcome == "fail" for test in tests if test in self.cases)
            if code != (1 if failed else 0):  # GoogleTest's statuses; a leak checker uses other ones
                self.bad_ends.append(f"after its last test the program ended with status {code}\n{text}")
            return None
        how = (f"no output for {self.options.silence} s" if silent else f"ended with status {code}")
        self.cases[current] = Case("fail", 0.0, f"{text}the program died in this test: {how}\n")
        return current

    def lines(self, process):
        """Yields the lines of the program's output, or None after a silence longer than the limit."""
        selector = selectors.DefaultSelector()
        selector.register(process.stdout, selectors.EVENT_READ)
        os.set_blocking(process.stdout.fileno(), False)
        pending, last = "", time.monotonic()
        while True:
            if not selector.select(timeout=1):
                if time.monotonic() - last > self.options.silence:
                    yield None
                    return
                continue
            piece = process.stdout.read()
            if piece == "":
                break
            if piece:
                last = time.monotonic()
                *whole, pending = (pending + piece).split("\n")
                for line in whole:
                    yield line + "\n"
        if pending:
            yield pending + "\n"

    @staticmethod
    def end(process):
        """Waits for the program; after a timeout sends SIGTERM, then SIGKILL."""
        for limit, action in ((5, signal.SIGTERM), (10, signal.SIGKILL)):
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, action)
        return process.wait()


def result_name(facts):
    """Returns the name of the stored result: the device, with its persona unless that is roce, or with the kernel version."""
    if facts["provider"] == "soft":
        return facts["device"] if facts["persona"] == "roce" else f"{facts['device']}-{facts['persona']}"
    return f"{facts['device']}-{'.'.join(facts['kernel'].split('.')[:2])}"


def rdma_core_version(facts):
    """Returns the version of the installed libibverbs, or None for the software device, which does not use libibverbs."""
    if facts["provider"] == "soft":
        return None
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${source:Upstream-Version}", "libibverbs1"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    return asked.stdout.strip() or "unknown"


def stored_form(facts, cases, differences):
    """Returns the result to store; a test that is listed as varying is stored as varying."""
    name = result_name(facts)

    def kept(test):
        expected = expected_outcome(differences, name, test)
        return "varies" if expected and expected.outcome == "varies" else cases[test].outcome

    return {"device": facts["device"], "transport": facts["transport"],
            "kernel": None if facts["provider"] == "soft" else ".".join(facts["kernel"].split(".")[:2]),
            "rdma_core": rdma_core_version(facts),
            "tests": {test: kept(test) for test in sorted(cases)}}


def run_facts():
    """Returns when and on which commit the suite runs; the commit is empty if the sources differ from it."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              check=False).stdout.strip()

    changed = git("status", "--porcelain", "--", ".", ":!tests/conformance/results", ":!docs")
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": "" if changed else git("rev-parse", "--short=12", "HEAD")}


def judge(name, cases, differences, whole_suite):
    """Returns complaints about unexpected outcomes."""
    complaints, used = [], set()
    for test in sorted(cases):
        expected = expected_outcome(differences, name, test)
        if expected is not None:
            used.add(expected.line)
        wanted = "pass" if expected is None else expected.outcome
        if cases[test].outcome == wanted or (wanted == "varies" and cases[test].outcome in ("pass", "fail")):
            continue
        why = f"differences.txt:{expected.line} expects {wanted}" if expected else "expected to pass"
        complaints.append((test, f"{test}: {cases[test].outcome}; {why}"))
    if whole_suite:
        for each in differences:
            if fnmatch.fnmatchcase(name, each.device) and each.line not in used:
                complaints.append((None, f"differences.txt:{each.line}: no test of {name} matches {each.test}"))
    return complaints


def compare_stored(path, fresh):
    """Returns complaints about differences from the stored result."""
    if not path.is_file():
        return [f"{path.relative_to(ROOT)} is missing"]
    stored = json.loads(path.read_text())
    complaints = [f"{key}: stored {stored.get(key)}, now {fresh[key]}"
                  for key in fresh if key not in ("tests", "rdma_core") and stored.get(key) != fresh[key]]
    for test in sorted(stored["tests"].keys() | fresh["tests"].keys()):
        old, new = stored["tests"].get(test, "absent"), fresh["tests"].get(test, "absent")
        if old != new:
            complaints.append(f"{test}: stored {old}, now {new}")
    return complaints


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="soft0")
    parser.add_argument("--persona", choices=("roce", "infiniband", "efa"), default="roce",
                        help="the kind of adapter that soft0 presents")
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--through", default="", help="a command to put in front of the program")
    parser.add_argument("--timeout-factor", type=int, default=1, help="factor of all deadlines")
    parser.add_argument("--silence", type=float, default=120, help="seconds without output after which a test counts as hanging")
    parser.add_argument("--filter", default="*", help="a GoogleTest filter; stored results are then not compared")
    parser.add_argument("--json", type=pathlib.Path, help="file for the outcomes with duration and output")
    parser.add_argument("--update", action="store_true", help="store the outcome under tests/conformance/results")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args(arguments)


def report(options, program, complaints):
    counts = {outcome: sum(case.outcome == outcome for case in program.cases.values()) for outcome in OUTCOMES[:3]}
    for test, text in complaints:
        print(f"UNEXPECTED {text}")
        if test is not None and program.cases[test].output:
            print("".join(f"    {line}\n" for line in program.cases[test].output.splitlines()[:30]), end="")
    print(f"{result_name(program.facts)}: {', '.join(f'{count} {outcome}' for outcome, count in counts.items())}; "
          f"{len(complaints)} unexpected", flush=True)


def main(arguments):
    options = parse(arguments)
    options.program = options.program.resolve()
    differences = read_differences(SUITE / "differences.txt")
    program = Program(options)
    program.run()
    program.facts["persona"] = options.persona
    if program.failed_set_up:
        print(program.failed_set_up, end="")
        print(f"the suite did not start on {options.device}: the output above has the reason")
        return 1
    whole = options.filter == "*"
    name = result_name(program.facts)
    fresh = stored_form(program.facts, program.cases, differences)
    if options.json:
        options.json.write_text(json.dumps(
            {**fresh, "cases": {test: dataclasses.asdict(program.cases[test]) for test in sorted(program.cases)}},
            indent=1) + "\n")
    path = SUITE / "results" / f"{name}.json"
    if options.update and whole:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**run_facts(), **fresh}, indent=1) + "\n")
    complaints = judge(name, program.cases, differences, whole)
    complaints += [(None, text) for text in program.bad_ends]
    report(options, program, complaints)
    stale = compare_stored(path, fresh) if whole else []
    if stale:
        print(f"The outcomes differ from the stored ones ({path.relative_to(ROOT)}):")
        print("".join(f"    {line}\n" for line in stale), end="")
        print("If the new outcomes are correct, store them by repeating the command with --update, then run "
              "scripts/conformance_table.py --fix")
    return 1 if complaints or stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
