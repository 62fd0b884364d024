#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the table of docs/testing.md equals tests/conformance/results, and that the results match
differences.txt. --fix rewrites the table."""
import argparse
import collections
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import conformance  # noqa: E402

BEGIN = "<!-- conformance table: scripts/conformance_table.py --fix -->\n"
END = "<!-- end of the conformance table -->\n"
SIGNS = {"pass": "✓", "fail": "✗", "unsupported": "–", "varies": "~"}


def read_results(folder):
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def split_name(test):
    """Splits `rc/suite.test/variant` into `rc/suite`, `test` and `variant`."""
    suite, _, rest = test.partition(".")
    name, _, variant = rest.partition("/")
    return suite, name, variant


def in_words(name):
    return name.replace("_", " ")


def cell(outcomes):
    """Returns the sign of the common outcome of all variants, or each outcome with its variants."""
    if not outcomes:
        return ""
    kinds = collections.defaultdict(list)
    for variant, outcome in sorted(outcomes.items()):
        kinds[outcome].append(variant)
    if len(kinds) == 1:
        return SIGNS[next(iter(kinds))]
    return ", ".join(f"{SIGNS[outcome]} {' '.join(kinds[outcome])}"
                     for outcome in conformance.OUTCOMES if outcome != "pass" and outcome in kinds)


def table(results):
    rows = collections.defaultdict(lambda: collections.defaultdict(dict))
    for device, result in results.items():
        for test, outcome in result["tests"].items():
            suite, name, variant = split_name(test)
            rows[suite, name][device][variant] = outcome
    lines = ["| suite | test | " + " | ".join(results) + " |\n", "|---|---|" + "---|" * len(results) + "\n"]
    for device, result in results.items():
        if result["rdma_core"]:
            version = result["rdma_core"]
            lines.insert(0, f"{device}: kernel {result['kernel']}, rdma-core {version}.\n")
    if len(lines) > 2:
        lines.insert(len(lines) - 2, "\n")
    for (suite, name), devices in sorted(rows.items()):
        cells = " | ".join(cell(devices[device]) for device in results)
        lines.append(f"| {suite} | {in_words(name)} | {cells} |\n")
    return "".join(lines)


def check_expectations(results, differences):
    complaints = []
    for device, result in results.items():
        for test, outcome in result["tests"].items():
            expected = conformance.expected_outcome(differences, device, test)
            wanted = "pass" if expected is None else expected.outcome
            if outcome != wanted:
                complaints.append(f"tests/conformance/results/{device}.json: {test}: {outcome}, but "
                                  f"differences.txt expects {wanted}")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=conformance.ROOT)
    parser.add_argument("--fix", action="store_true")
    options = parser.parse_args()
    suite = options.root / "tests" / "conformance"
    results = read_results(suite / "results")
    complaints = check_expectations(results, conformance.read_differences(suite / "differences.txt"))
    document = options.root / "docs" / "testing.md"
    text = document.read_text()
    found = re.search(re.escape(BEGIN) + r"(.*?)" + re.escape(END), text, re.DOTALL)
    wanted = table(results)
    if found is None:
        complaints.append(f"docs/testing.md: the marks of the conformance table are missing: add {BEGIN.strip()}")
    elif found.group(1) != wanted:
        if options.fix:
            document.write_text(text[:found.start(1)] + wanted + text[found.end(1):])
        else:
            complaints.append("docs/testing.md: the conformance table differs from tests/conformance/results: run "
                              "scripts/conformance_table.py --fix")
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
