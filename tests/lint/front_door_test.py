# SPDX-License-Identifier: MIT
"""./dev refuses unknown commands and options, has help for each command, and counts tests correctly."""
import subprocess
import unittest

from lint_case import LintCase, ROOT

import test as runner  # scripts/test.py

REPORT = """<testsuite>
<testcase name="a" status="run"/>
<testcase name="b" status="fail"><failure message=""/></testcase>
<testcase name="c" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
<testcase name="d" status="disabled"/>
</testsuite>"""


def dev(*words):
    return subprocess.run([ROOT / "dev", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


class FrontDoor(LintCase):
    def assert_help(self, done):
        self.assertEqual(done.returncode, 0)
        self.assertEqual([line for line in done.stdout.splitlines() if len(line) > 80], [])

    def test_every_command_has_help_of_at_most_80_columns(self):
        for command in ("demo", "test", "bench", "zoo", "parity", "docs", "lint", "fmt", "vm"):
            with self.subTest(command):
                done = dev(command, "--help")
                self.assert_help(done)
                self.assertTrue(done.stdout.startswith(f"usage: ./dev {command}"), done.stdout)
        self.assert_help(dev("--help"))

    def test_unknown_words_are_refused(self):
        for words in (("nonsense",), (), ("lint", "--nonsense"), ("lint", "--only", "nonsense"), ("fmt", "--nonsense"), ("docs", "--nonsense")):
            with self.subTest(words):
                done = dev(*words)
                self.assertEqual(done.returncode, 2)
                self.assertNotEqual(done.stderr, "")

    def test_budgets_sum_to_thirty_minutes(self):
        self.assertLessEqual(sum(stage.budget_s for stage in runner.STAGES if not stage.long), runner.TOTAL_BUDGET_S)

    def test_report_is_counted_test_by_test(self):
        outcome = runner.read_junit(self.write("report.xml", REPORT))
        self.assertEqual((outcome.passed, outcome.failed, outcome.skipped), (["a"], ["b", "d"], ["c"]))

    def test_unexpected_skip_is_a_failure(self):
        outcome = runner.Outcome(skipped=["c"])
        runner.check_skips("gcc", outcome, [])
        self.assertEqual((len(outcome.failed), len(outcome.skipped)), (1, 0))

    def test_expected_skip_is_counted(self):
        outcome = runner.Outcome(skipped=["c/1", "c/2"])
        runner.check_skips("gcc", outcome, [("gcc", "c/*", 2, "why")])
        self.assertEqual((len(outcome.failed), len(outcome.skipped)), (0, 2))

    def test_expected_skip_that_does_not_happen_is_a_failure(self):
        outcome = runner.Outcome()
        runner.check_skips("gcc", outcome, [("gcc", "c/*", 1, "why"), ("asan", "d", 1, "why")])
        self.assertEqual(len(outcome.failed), 1)

    def test_setup_lists_groups_only_from_its_table(self):
        setup = ROOT / "scripts/dev/setup.sh"
        self.assertEqual(self.run_command(setup, "--list", "build").returncode, 0)
        self.assertEqual(self.run_command(setup, "--list", "nonsense").returncode, 2)
        self.assertEqual(self.run_command(setup).returncode, 2)


if __name__ == "__main__":
    unittest.main()
