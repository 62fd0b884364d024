#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Joins the lines of docs/parity with the last results, as scripts/dev/help/parity.txt describes.

A line is one of
  - [x] `ID` BEHAVIOUR — TEST
  - [x] `ID` BEHAVIOUR; differs: WHAT, WHY — TEST
  - [-] `ID` BEHAVIOUR — REASON    (Verbena does not have it)
  - [ ] `ID` BEHAVIOUR — REASON    (open)
ID is PAGE-NUMBER. It never changes, and the number of a deleted line is not used again. TEST is a list of names in backticks,
separated by commas. In the name of a test with variants, `*` is the variant. A line that holds only in builds with the
checks of the data path contains "(checked builds)".

The comment directly above a test has the identifiers of the lines that name it: `// parity: ID, ID`, in Python and CMake
`# parity: ID`.

Tests of tests/conformance are evaluated by the outcomes of each device in tests/conformance/results and by differences.txt.
Other tests, and whether the stored outcomes are those of the last run, are evaluated by CTest's reports in build/logs. Reports
of other sources than the present ones are ignored.
"""
import argparse
import collections
import dataclasses
import fnmatch
import json
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import conformance  # noqa: E402
import test as stages  # noqa: E402
import test_sources  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
FEWEST_LINES = {"ibverbs": 150, "semantics": 120, "rocev2": 85}
MOST_LINES_OF_A_TEST = 3
HOST = "host"  # the device of tests outside the conformance suite
LINE = re.compile(r"- \[([x -])\] `([a-z][a-z0-9-]*-\d+)` (.+)")
NAMES = re.compile(r"`[^`]+`(?:, `[^`]+`)*")
DIFFERS = re.compile(r"\bdiffer(?:s|ed|ing)?\b", re.IGNORECASE)
CHECKED_BUILDS = "(checked builds)"
# Runs in the virtual machine that omit tests, so that they do not confirm the stored outcomes.
PARTIAL_RUNS = ("vm/conformance_siw0_6.1_1",)


@dataclasses.dataclass
class Line:
    """A behaviour of a page with the tests that show it. An open line and one that states an absence have no tests."""
    page: str
    number: int
    identifier: str
    sign: str  # x, - or a space
    behaviour: str
    tests: list[str]
    reason: str = ""
    # device -> "pass", "excused" (differences.txt has the reason) or the fault
    outcomes: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    complaints: list[str] = dataclasses.field(default_factory=list)

    @property
    def is_open(self):
        return self.sign == " "

    @property
    def is_absent(self):
        return self.sign == "-"

    def place(self):
        return f"docs/parity/{self.page}.md:{self.number}"


def read_page(path, complaints):
    """Returns the lines of a page; adds a complaint for each malformed line."""
    found = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if not re.match(r"\s*[-*] ?\[", text):
            continue
        match = LINE.fullmatch(text)
        behaviour, dash, rest = match.group(3).rpartition(" — ") if match else ("", "", "")
        complaint = fault_of_form(path.stem, match, behaviour, dash, rest)
        if complaint:
            complaints.append(f"docs/parity/{path.name}:{number}: {complaint}")
            continue
        sign, identifier, _ = match.groups()
        tests = re.findall(r"`([^`]+)`", rest) if sign == "x" else []
        found.append(Line(path.stem, number, identifier, sign, behaviour, tests, reason="" if tests else rest))
    return found


def fault_of_form(page, match, behaviour, dash, rest):
    """Returns what is wrong with the form of a line, or an empty text."""
    if not match or not dash or not behaviour.strip() or not rest.strip():
        return "not `- [x] ID BEHAVIOUR — TEST`, `- [-] ID BEHAVIOUR — REASON` or `- [ ] ID BEHAVIOUR — REASON`"
    sign, identifier, _ = match.groups()
    if identifier.rpartition("-")[0] != page:
        return f"the identifier {identifier} is not {page}-NUMBER"
    plain, differs, difference = behaviour.partition("; differs: ")
    if DIFFERS.search(plain) or DIFFERS.search(difference) or (differs and not re.fullmatch(r"[^,]+, .+", difference)):
        return "a difference is `BEHAVIOUR; differs: WHAT, WHY`"
    if sign == "x" and not NAMES.fullmatch(rest):
        return "the text after the dash is not a list of test names in backticks, separated by commas"
    return ""


def known_tests(root):
    """Returns the tests of the conformance suite and all other tests that the sources name, by name."""
    others = [*test_sources.scripted_tests(root), *test_sources.unit_tests(root)]
    return ({test.name: test for test in test_sources.conformance_tests(root)}, {test.name: test for test in others})


def check_names(lines, conforming, others):
    """Adds the complaints that need no results. Returns those that belong to no line."""
    uses = collections.defaultdict(list)
    tests = {**others, **conforming}
    for line in lines:
        for test in line.tests:
            uses[line.page, test].append(line)
            if test not in tests:
                line.complaints.append(f"the test {test} does not exist")
    for (_, test), users in uses.items():
        if len(users) > MOST_LINES_OF_A_TEST:
            users[-1].complaints.append(f"{len(users)} lines name {test}; the limit is {MOST_LINES_OF_A_TEST}")
    for line in lines:
        check_builds(line, tests)
    return check_identifiers(lines, tests)


def check_builds(line, tests):
    checked = any(test in tests and tests[test].is_checked_only for test in line.tests)
    if checked != (CHECKED_BUILDS in line.behaviour):
        line.complaints.append(f"the tests exist only in builds with checks, but the line does not say {CHECKED_BUILDS}" if checked
                               else f"the line says {CHECKED_BUILDS}, but its tests exist in all builds")


def check_identifiers(lines, tests):
    """Compares the identifiers above the tests with the tests that the lines name."""
    complaints, known = [], {}
    for line in lines:
        if line.identifier in known:
            line.complaints.append(f"{known[line.identifier].place()} has the same identifier")
        known[line.identifier] = line
        for name in line.tests:
            if name in tests and line.identifier not in tests[name].identifiers:
                line.complaints.append(f"{where(tests[name])}: no comment `parity: {line.identifier}` above {name}")
    named = collections.defaultdict(set)  # identifier -> places of the tests that its line names
    for line in lines:
        named[line.identifier] = {where(tests[name]) for name in line.tests if name in tests}
    for place, identifier in sorted({(where(test), each) for test in tests.values() for each in test.identifiers}):
        if identifier not in known:
            complaints.append(f"{place}: no line of docs/parity has the identifier {identifier}")
        elif place not in named[identifier]:
            complaints.append(f"{place}: {known[identifier].place()} ({identifier}) does not name this test")
    return complaints


def where(test):
    return f"{test.path}:{test.number}"


class Results:
    """The results of the last runs."""

    def __init__(self, root, logs):
        self.stored = {path.stem: json.loads(path.read_text())
                       for path in sorted((root / "tests" / "conformance" / "results").glob("*.json"))}
        self.devices = {device: stored["tests"] for device, stored in self.stored.items()}
        self.devices.setdefault("soft0", {})
        self.differences = conformance.read_differences(root / "tests" / "conformance" / "differences.txt")
        self.reported = collections.defaultdict(set)
        present = stages.fingerprint(root)
        reports = sorted(logs.glob("*.xml"))
        self.reports = [report for report in reports if stages.fingerprint_of(report) == present]
        self.ignored = len(reports) - len(self.reports)
        for report in self.reports:
            outcome = stages.read_junit(report)
            for word in ("passed", "failed", "skipped"):
                for name in getattr(outcome, word):
                    self.reported[name].add(word)

    def run_of(self, device):
        """Returns which run the outcomes of a device come from, or an empty text if that is not known."""
        if device == "soft0":  # stale() reports a run that is missing
            return "this run"
        if device.startswith("soft0-"):
            return "this run" if self.reported.get(f"conformance/{device}") == {"passed"} else ""
        name, _, kernel = device.partition("-")
        for run in fnmatch.filter(self.reported, f"vm/conformance_{name}_{kernel}_*"):
            if run not in PARTIAL_RUNS and self.reported.get(run) == {"passed"}:
                return "this run"
        stored = self.stored[device]
        return f"{stored['date']}, commit {stored['commit']}" if stored.get("date") and stored.get("commit") else ""

    def reported_outcome(self, test):
        """Returns `pass` or the fault of a CTest test."""
        words = [found for name, found in self.reported.items() if fnmatch.fnmatchcase(name, test)]
        if not words:
            return "did not run"
        if any("failed" in each for each in words):
            return "failed"
        return "pass" if all("passed" in each for each in words) else "was skipped"

    def device_outcome(self, device, test, notes):
        """Returns `pass`, `excused` (with a note of the reason in differences.txt) or the fault of a conformance test."""
        outcomes = {name: outcome for name, outcome in self.devices[device].items()
                    if fnmatch.fnmatchcase(name, test)}
        if not outcomes:
            return "did not run"
        found = "excused" if all(outcome != "pass" for outcome in outcomes.values()) else "pass"
        for name, outcome in outcomes.items():
            if outcome == "pass":
                continue
            expected = conformance.expected_outcome(self.differences, device, name)
            if device == "soft0" or expected is None or expected.outcome != outcome:
                return f"{outcome}: {name}"
            note = f"{device}: {outcome} ({expected.fault}): {expected.reason}"
            if note not in notes:
                notes.append(note)
        return found

    def stale(self):
        """Yields the conformance runs of CTest that failed, and that of soft0 if it did not run."""
        if self.reported_outcome("conformance/soft0") != "pass":
            yield f"conformance/soft0 {self.reported_outcome('conformance/soft0')}"
        for name in sorted(self.reported):
            if name.startswith(("vm/conformance_", "conformance/soft0-")) and "failed" in self.reported[name]:
                yield f"{name} failed"


def judge(line, results, conforming):
    for test in line.tests:
        if test in conforming:
            found = {device: results.device_outcome(device, test, line.notes) for device in results.devices
                     if results.run_of(device)}
        else:
            found = {HOST: results.reported_outcome(test)}
        for device, outcome in found.items():
            if outcome not in ("pass", "excused"):
                line.complaints.append(f"{device}: {test}: {outcome}")
            if line.outcomes.get(device, "excused") == "excused" or outcome not in ("pass", "excused"):
                line.outcomes[device] = outcome


def print_line(line):
    if line.is_open or line.is_absent:
        print(f"{'OPEN  ' if line.is_open else 'absent'} {line.place()}: {line.behaviour} — {line.reason}")
        for text in line.complaints:
            print(f"         {text}")
        return
    passed = " ".join(device for device, outcome in line.outcomes.items() if outcome == "pass")
    print(f"{'FAILED' if line.complaints else 'ok    '} {line.place()}: {line.behaviour} [{passed}]")
    for text in line.complaints + line.notes:
        print(f"         {text}")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev parity", add_help=False)
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)  # for the tests
    return parser.parse_args(arguments)


def read_lines(root, complaints):
    lines = []
    for path in sorted((root / "docs" / "parity").glob("*.md")):
        found = read_page(path, complaints)
        lines += found
        if len(found) < FEWEST_LINES.get(path.stem, 1):
            complaints.append(f"docs/parity/{path.name}: {len(found)} lines; "
                              f"at least {FEWEST_LINES.get(path.stem, 1)} are required")
    if not lines:
        complaints.append("docs/parity has no lines")
    return lines


def report(options, lines, complaints):
    for line in lines:
        if line.is_open if options.open else not options.names or line.complaints:
            print_line(line)
    for text in complaints:
        print(text)
    counts = {"lines": len(lines), "open": sum(line.is_open for line in lines),
              "absent": sum(line.is_absent for line in lines),
              "failed": sum(bool(line.complaints) for line in lines), "complaints": len(complaints)}
    if options.json:
        options.json.write_text(json.dumps(
            {**counts, "complaints": complaints, "shown": [dataclasses.asdict(line) for line in lines]},
            indent=1, ensure_ascii=False) + "\n")
    if not options.names or counts["failed"] or complaints:
        print(f"{counts['lines']} lines: {counts['lines'] - counts['open'] - counts['absent'] - counts['failed']} shown, "
              f"{counts['absent']} absent, {counts['open']} open, {counts['failed']} failed; {len(complaints)} other complaints")
    return counts


def main(arguments):
    options = parse(arguments)
    complaints = []
    lines = read_lines(options.root, complaints)
    conforming, others = known_tests(options.root)
    complaints += check_names(lines, conforming, others)
    for folder in ("unit", "conformance"):
        complaints += test_sources.silent_returns(options.root / "tests" / folder)
    if not options.names:
        results = Results(options.root, options.logs or options.root / "build" / "logs")
        if not results.reports:
            complaints.append("build/logs has no CTest reports of the present sources: run ./dev test first")
        elif results.ignored:
            print(f"ignored: {results.ignored} CTest reports of other sources")
        for device in results.devices:
            print(f"{device}: {results.run_of(device) or 'not run'}")
        for line in lines:
            judge(line, results, conforming)
        complaints += results.stale()
    counts = report(options, lines, complaints)
    return 1 if counts["failed"] or counts["complaints"] or (counts["open"] and not options.names) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends without an error message in `| head`
    sys.exit(main(sys.argv[1:]))
