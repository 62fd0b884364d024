# SPDX-License-Identifier: MIT
"""scripts/conformance.py rejects unexpected outcomes; scripts/conformance_table.py rejects a table that differs from the
results."""
import json
import unittest

from lint_case import ROOT, LintCase
import conformance

Case = conformance.Case
DIFFERENCES = "rxe0-6.1 | rc/x.* | fail | kernel | it drops them\n"


class Judgement(LintCase):
    def judge(self, name, outcomes, text=DIFFERENCES, whole_suite=True):
        path = self.write("differences.txt", text)
        cases = {test: Case(outcome) for test, outcome in outcomes.items()}
        found = conformance.judge(name, cases, conformance.read_differences(path), whole_suite)
        return [text for _, text in found]

    def test_expected_outcomes(self):
        self.assertEqual(self.judge("rxe0-6.1", {"rc/x.a": "fail", "y.b": "pass"}), [])
        self.assertEqual(self.judge("soft0", {"rc/x.a": "pass"}), [])

    def test_failure_that_is_not_listed(self):
        self.assertEqual(self.judge("soft0", {"rc/x.a": "fail"}), ["rc/x.a: fail; expected to pass"])

    def test_skip_that_is_not_listed(self):
        self.assertEqual(self.judge("soft0", {"y.b": "unsupported"}), ["y.b: unsupported; expected to pass"])

    def test_listed_failure_that_passes(self):
        self.assertEqual(self.judge("rxe0-6.1", {"rc/x.a": "pass"}),
                         ["rc/x.a: pass; differences.txt:1 expects fail"])

    def test_listed_test_that_is_gone(self):
        self.assertEqual(self.judge("rxe0-6.1", {"y.b": "pass"}),
                         ["differences.txt:1: no test of rxe0-6.1 matches rc/x.*"])
        self.assertEqual(self.judge("rxe0-6.1", {"y.b": "pass"}, whole_suite=False), [])

    def test_first_line_that_applies_decides(self):
        text = "rxe0-* | rc/x.a | unsupported | kernel | none\n" + DIFFERENCES
        self.assertEqual(self.judge("rxe0-6.1", {"rc/x.a": "unsupported", "rc/x.b": "fail"}, text), [])

    def test_test_that_varies_may_pass_or_fail_but_not_be_skipped(self):
        text = "rxe0-* | rc/x.a | varies | kernel | it races\n"
        for outcome in ("pass", "fail"):
            self.assertEqual(self.judge("rxe0-6.1", {"rc/x.a": outcome}, text), [])
        self.assertEqual(self.judge("rxe0-6.1", {"rc/x.a": "unsupported"}, text),
                         ["rc/x.a: unsupported; differences.txt:1 expects varies"])

    def test_line_without_reason(self):
        with self.assertRaises(SystemExit):
            self.judge("soft0", {}, "rxe0 | x | fail | kernel |\n")

    def test_line_with_unknown_cause_is_an_error(self):
        with self.assertRaises(SystemExit):
            self.judge("soft0", {}, "rxe0 | x | fail | weather | rain\n")


# A program that imitates a suite: it prints given lines and exits or crashes at given tests.
PROGRAM = """#!/usr/bin/env python3
import os, sys
names = ["a", "b", "c"]
if "--gtest_list_tests" in sys.argv:
    print("s.")
    print("".join(f"  {name}\\n" for name in names))
    sys.exit(0)
print('[ DEVICE   ] {"device": "fake0", "transport": "x", "provider": "system", "kernel": "6.1.0"}')
wanted = next(word for word in sys.argv if word.startswith("--gtest_filter=")).split("=")[1]
for name in names:
    if wanted != "*" and f"s.{name}" not in wanted.split(":"):
        continue
    print(f"[ RUN      ] s.{name}", flush=True)
    if name == "b":
        MISDEED
    print(f"[       OK ] s.{name} (3 ms)", flush=True)
"""


class Running(LintCase):
    def run_program(self, misdeed):
        program = self.write("program", PROGRAM.replace("MISDEED", misdeed))
        program.chmod(0o755)
        output = self.root / "out.json"
        done = self.run_script("conformance.py", "--program", program, "--device", "fake0", "--json", output,
                               "--silence", "3")
        return done, json.loads(output.read_text())["tests"] if output.exists() else None

    def test_test_that_crashes_fails_and_the_rest_runs(self):
        done, tests = self.run_program("os.abort()")
        self.assert_finds(done, "the program died in this test")
        self.assertEqual(tests, {"s.a": "pass", "s.b": "fail", "s.c": "pass"})

    def test_test_that_hangs_fails_and_the_rest_runs(self):
        done, tests = self.run_program("import time; time.sleep(60)")
        self.assert_finds(done, "no output for 3.0 s")
        self.assertEqual(tests, {"s.a": "pass", "s.b": "fail", "s.c": "pass"})

    def test_program_that_ends_badly_after_its_tests_fails(self):
        done, tests = self.run_program("import atexit; atexit.register(os._exit, 23)")
        self.assert_finds(done, "ended with status 23")
        self.assertEqual(tests, {"s.a": "pass", "s.b": "pass", "s.c": "pass"})

    def test_skip_is_not_a_pass(self):
        _, tests = self.run_program("print('[  SKIPPED ] s.b (0 ms)'); continue")
        self.assertEqual(tests["s.b"], "unsupported")

    def test_outcome_without_stored_result(self):
        done, _ = self.run_program("pass")
        self.assert_finds(done, "fake0-6.1.json is missing")


class Table(LintCase):
    RESULT = {"device": "fake0", "transport": "x", "kernel": "6.1", "rdma_core": "44.0",
              "tests": {"rc/m.a_b/classic": "pass", "rc/m.a_b/extended": "pass", "d.c": "unsupported"}}

    def setUp(self):
        super().setUp()
        self.write("tests/conformance/results/fake0-6.1.json", json.dumps(self.RESULT))
        self.write("tests/conformance/differences.txt", "fake0-* | d.c | unsupported | kernel | it has none\n")
        self.write("docs/testing.md", "before\n<!-- conformance table: scripts/conformance_table.py --fix -->\n"
                                      "<!-- end of the conformance table -->\nafter\n")

    def check(self, *words):
        return self.run_script("conformance_table.py", "--root", self.root, *words)

    def test_table_is_written_and_then_believed(self):
        self.assert_finds(self.check(), "differs from")
        self.assert_clean(self.check("--fix"))
        self.assert_clean(self.check())
        text = (self.root / "docs/testing.md").read_text()
        self.assertIn("| rc/m | a b | ✓ |\n", text)
        self.assertIn("| d | c | – |\n", text)
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))

    def test_table_that_was_edited(self):
        self.assert_clean(self.check("--fix"))
        document = self.root / "docs/testing.md"
        document.write_text(document.read_text().replace("–", "✓"))
        self.assert_finds(self.check(), "differs from")

    def test_unexpected_result(self):
        self.assert_clean(self.check("--fix"))
        self.write("tests/conformance/differences.txt", "# none\n")
        self.assert_finds(self.check(), "d.c: unsupported, but differences.txt expects pass")

    def test_this_repository_has_results_of_the_software_device(self):
        stored = json.loads((ROOT / "tests/conformance/results/soft0.json").read_text())
        self.assertGreater(len(stored["tests"]), 200)


if __name__ == "__main__":
    unittest.main()
