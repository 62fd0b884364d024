#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Joins the lines of docs/parity with the last results, as scripts/dev/help/parity.txt describes.

A line is `- [x] BEHAVIOUR — TEST`, `- [x] BEHAVIOUR; differs: WHAT, WHY — TEST`, or, if open, `- [ ] BEHAVIOUR — REASON`.
TEST is a list of names in backticks, separated by commas. In the name of a test with variants, `*` is the variant.

Tests of tests/conformance are evaluated by the outcomes of each device in tests/conformance/results and by differences.txt.
Other tests, and whether the stored outcomes are those of the last run, are evaluated by CTest's reports in build/logs.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
FEWEST_LINES = {"ibverbs": 150, "semantics": 120}
MOST_LINES_OF_A_TEST = 3
HOST = "host"  # the device of tests outside the conformance suite
LINE = re.compile(r"- \[([x ])\] (.+)")
NAMES = re.compile(r"`[^`]+`(?:, `[^`]+`)*")
MACRO = re.compile(r"^(TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
INSTANCE = re.compile(r"^INSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+),", re.MULTILINE)


@dataclasses.dataclass
class Line:
    """A behaviour of a page with the tests that show it; an open line has no tests."""
    page: str
    number: int
    behaviour: str
    tests: list[str]
    reason: str = ""
    # device -> "pass", "excused" (differences.txt has the reason) or the fault
    outcomes: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    complaints: list[str] = dataclasses.field(default_factory=list)

    @property
    def is_open(self):
        return not self.tests

    def place(self):
        return f"docs/parity/{self.page}.md:{self.number}"


def read_page(path, complaints):
    """Returns the lines of a page; adds a complaint for each malformed line."""
    found = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if not re.match(r"\s*[-*] ?\[", text):
            continue
        match = LINE.fullmatch(text)
        behaviour, dash, rest = match.group(2).rpartition(" — ") if match else ("", "", "")
        differs = re.search(r"differs:(.*)", behaviour)
        complaint = ""
        if not match or not dash or not behaviour.strip() or not rest.strip():
            complaint = "not `- [x] BEHAVIOUR — TEST` or `- [ ] BEHAVIOUR — REASON`"
        elif differs and not re.fullmatch(r" [^,]+, .+", differs.group(1)):
            complaint = "a difference is `differs: WHAT, WHY`"
        elif match.group(1) == "x" and not NAMES.fullmatch(rest):
            complaint = "the text after the dash is not a list of test names in backticks, separated by commas"
        if complaint:
            complaints.append(f"docs/parity/{path.name}:{number}: {complaint}")
            continue
        tests = re.findall(r"`([^`]+)`", rest) if match.group(1) == "x" else []
        found.append(Line(path.stem, number, behaviour, tests, reason="" if tests else rest))
    return found


def google_tests(folder, prefix):
    """Yields the names of the GoogleTest tests below a folder, with `*` in place of a variant."""
    tests, instances = [], collections.defaultdict(set)
    for path in sorted(folder.rglob("*.cpp")):
        text = path.read_text()
        tests += MACRO.findall(text)
        for instance, suite in INSTANCE.findall(text):
            instances[suite].add(instance)
    for macro, suite, name in tests:
        if macro == "TYPED_TEST":
            yield f"{prefix}{suite}.{name}<*>"
        elif macro == "TEST_P":
            yield from (f"{prefix}{instance}/{suite}.{name}/*" for instance in sorted(instances[suite]))
        else:
            yield f"{prefix}{suite}.{name}"


def scripted_tests(root):
    """Yields the names that CMake derives from files (compile_fail, lint) and the examples."""
    for path in sorted((root / "tests" / "compile_fail").glob("*/*.cpp")):
        yield f"compile_fail/{path.parent.name}/{path.stem}"
    for path in sorted((root / "tests" / "lint").glob("*_test.py")):
        for sentence in re.findall(r"^    def test_([a-z0-9_]+)", path.read_text(), re.MULTILINE):
            yield f"lint/{path.stem}/{sentence}"
    for path in sorted((root / "examples").rglob("CMakeLists.txt")):
        for name in re.findall(r"^\s*verbena_example\((\w+)", path.read_text(), re.MULTILINE):
            yield f"example/{name}"


def known_tests(root):
    """Returns the tests of the conformance suite and all other tests that the sources name."""
    others = set(scripted_tests(root))
    unit = root / "tests" / "unit"
    for module in sorted(path for path in unit.glob("*") if path.is_dir()):
        parts = [module] if module.name != "softdev" else sorted(path for path in module.glob("*") if path.is_dir())
        for part in parts:
            others.update(google_tests(part, f"{part.relative_to(unit)}/"))
    return set(google_tests(root / "tests" / "conformance", "")), others


def check_names(lines, conforming, others):
    """Adds the complaints that need no results."""
    uses = collections.defaultdict(list)
    for line in lines:
        for test in line.tests:
            uses[line.page, test].append(line)
            if test not in conforming and test not in others:
                line.complaints.append(f"the test {test} does not exist")
    for (_, test), users in uses.items():
        if len(users) > MOST_LINES_OF_A_TEST:
            users[-1].complaints.append(f"{len(users)} lines name {test}; the limit is {MOST_LINES_OF_A_TEST}")


class Results:
    """The results of the last runs."""

    def __init__(self, root, logs):
        self.devices = {path.stem: json.loads(path.read_text())["tests"]
                        for path in sorted((root / "tests" / "conformance" / "results").glob("*.json"))}
        self.devices.setdefault("soft0", {})
        self.differences = conformance.read_differences(root / "tests" / "conformance" / "differences.txt")
        self.reported = collections.defaultdict(set)
        self.reports = sorted(logs.glob("*.xml"))
        for report in self.reports:
            outcome = stages.read_junit(report)
            for word in ("passed", "failed", "skipped"):
                for name in getattr(outcome, word):
                    self.reported[name].add(word)

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
            if name.startswith("vm/conformance_") and "failed" in self.reported[name]:
                yield f"{name} failed"


def judge(line, results, conforming):
    for test in line.tests:
        if test in conforming:
            found = {device: results.device_outcome(device, test, line.notes) for device in results.devices}
        else:
            found = {HOST: results.reported_outcome(test)}
        for device, outcome in found.items():
            if outcome not in ("pass", "excused"):
                line.complaints.append(f"{device}: {test}: {outcome}")
            if line.outcomes.get(device, "excused") == "excused" or outcome not in ("pass", "excused"):
                line.outcomes[device] = outcome


def print_line(line):
    if line.is_open:
        print(f"OPEN   {line.place()}: {line.behaviour} — {line.reason}")
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
              "failed": sum(bool(line.complaints) for line in lines), "complaints": len(complaints)}
    if options.json:
        options.json.write_text(json.dumps(
            {**counts, "complaints": complaints, "shown": [dataclasses.asdict(line) for line in lines]},
            indent=1, ensure_ascii=False) + "\n")
    if not options.names or counts["failed"] or complaints:
        print(f"{counts['lines']} lines: {counts['lines'] - counts['open'] - counts['failed']} shown, "
              f"{counts['open']} open, {counts['failed']} failed; {len(complaints)} other complaints")
    return counts


def main(arguments):
    options = parse(arguments)
    complaints = []
    lines = read_lines(options.root, complaints)
    conforming, others = known_tests(options.root)
    check_names(lines, conforming, others)
    if not options.names:
        results = Results(options.root, options.logs or options.root / "build" / "logs")
        if not results.reports:
            complaints.append("build/logs has no CTest reports: run ./dev test first")
        for line in lines:
            judge(line, results, conforming)
        complaints += results.stale()
    counts = report(options, lines, complaints)
    return 1 if counts["failed"] or counts["complaints"] or (counts["open"] and not options.names) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends without an error message in `| head`
    sys.exit(main(sys.argv[1:]))
