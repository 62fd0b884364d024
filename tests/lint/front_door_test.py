# SPDX-License-Identifier: MIT
"""./dev refuses unknown commands and options, has help for each command, and counts tests correctly."""
import contextlib
import io
import itertools
import subprocess
import unittest
from unittest import mock

from lint_case import LintCase, ROOT

import test as runner  # scripts/test.py
import test_sources

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


class Budgets(LintCase):
    def run_with(self, *options, measured_s=(0.1,), stage_s=(0.0,), budget_s=10):
        """Runs a table of stages, for which a clock shows `stage_s` seconds. The speed is that of `measured_s`, the last one from
        then on. Returns the exit status and the output."""
        names = ["only"] if len(stage_s) == 1 else [f"stage{i}" for i in range(len(stage_s))]
        stages = [runner.Stage(name, budget_s, "a stage", lambda run: run.outcome.passed.append("a")) for name in names]
        started = itertools.chain.from_iterable((0.0, seconds) for seconds in stage_s)
        measured = itertools.chain(measured_s, itertools.repeat(measured_s[-1]))
        output = io.StringIO()
        with mock.patch.multiple(runner, STAGES=stages, LOGS=self.root, measure_seconds=lambda: next(measured)), \
                mock.patch.object(runner.time, "monotonic", lambda: next(started)), \
                mock.patch.dict(runner.os.environ), contextlib.redirect_stdout(output):
            return runner.main(list(options)), output.getvalue()

    def test_factor_of_the_budgets_is_at_least_one(self):
        self.assertEqual(runner.slowness(runner.REFERENCE_S / 2), 1.0)
        self.assertEqual(runner.slowness(runner.REFERENCE_S * 3), 3.0)

    def test_speed_without_the_compiler_is_the_reference(self):
        self.assertIsNone(runner.measure_seconds("no_such_compiler", 2))
        self.assertIsNone(runner.measure_seconds("false", 2))
        self.assertEqual(runner.slowness(None), 1.0)

    def test_speed_is_measured_by_compilations(self):
        self.assertGreater(runner.measure_seconds(), 0.1)

    def test_exceeded_budget_is_a_warning(self):
        status, output = self.run_with(stage_s=(11.0,))
        self.assertEqual(status, 0)
        self.assertIn("WARNING the stage only took 11 s, more than the budget of 10 s", output)
        self.assertIn("1 passed, 0 failed", output)

    def test_exceeded_budget_is_an_error_on_request(self):
        status, output = self.run_with("--enforce-budgets", stage_s=(11.0,))
        self.assertEqual(status, 1)
        self.assertIn("FAILED the stage only took 11 s", output)
        self.assertIn("1 passed, 1 failed", output.splitlines()[-1])

    def test_exceeded_sum_is_an_error_on_request(self):
        seconds = runner.TOTAL_BUDGET_S + 1
        self.assertEqual(self.run_with(stage_s=(seconds,), budget_s=seconds)[0], 0)
        status, output = self.run_with("--enforce-budgets", stage_s=(seconds,), budget_s=seconds)
        self.assertEqual(status, 1)
        self.assertIn("FAILED the default stages together took 1801 s", output)

    def test_slow_machine_has_longer_budgets(self):
        status, output = self.run_with("--enforce-budgets", measured_s=[runner.REFERENCE_S * 2], stage_s=(11.0,))
        self.assertEqual(status, 0, output)
        self.assertIn("budgets × 2.00", output)
        self.assertIn("11 s of 20 s", output)

    def test_machine_that_becomes_slower_has_longer_budgets(self):
        status, output = self.run_with("--enforce-budgets", measured_s=[0.1, runner.REFERENCE_S * 1.5], stage_s=(11.0,))
        self.assertEqual(status, 0, output)
        self.assertIn("speed now: 3.3 s: budgets × 1.50", output)
        status, output = self.run_with("--enforce-budgets", measured_s=[0.1, runner.REFERENCE_S * 1.5], stage_s=(16.0,))
        self.assertEqual(status, 1, output)
        self.assertIn("FAILED the stage only took 16 s, more than the budget of 15 s", output)

    def test_budgets_apply_to_the_slowest_speed_of_the_run(self):
        slow = runner.REFERENCE_S * 1.5
        status, output = self.run_with("--enforce-budgets", measured_s=[0.1, 0.1, slow, 0.1], stage_s=(11.0, 11.0, 11.0))
        self.assertEqual(status, 0, output)
        status, output = self.run_with("--enforce-budgets", measured_s=[0.1, 0.1, slow, 0.1], stage_s=(16.0, 11.0, 11.0))
        self.assertEqual(status, 1, output)
        self.assertIn("FAILED the stage stage0 took 16 s, more than the budget of 15 s", output)
        self.assertNotIn("FAILED the stage stage1", output)

    def test_ci_enforces_the_budgets(self):
        commands = [line for line in (ROOT / ".ci/run").read_text().splitlines() if "./dev test" in line and line[0] != "#"]
        self.assertEqual(commands, ["exec ./dev test --enforce-budgets"])


class Release(LintCase):
    def wrong(self, source, *present):
        folder = self.write("tests/unit/verbs/a_test.cpp", source).parent
        tests = list(test_sources.google_tests(folder, "verbs/"))
        return list(runner.wrong_in_release(runner.Outcome(passed=list(present)), tests))

    def test_test_that_did_not_run_needs_a_rule(self):
        self.assertEqual(self.wrong("TEST(guid, prints) {}\n", "verbs/guid.prints"), [])
        self.assertEqual(len(self.wrong("TEST(guid, prints) {}\n")), 1)
        self.assertEqual(len(self.wrong("#ifdef OTHER\nTEST(guid, prints) {}\n#endif\n")), 1)

    def test_tests_of_checked_builds_are_excluded(self):
        checked = "#ifdef VERBENA_CHECKED\nTEST(a, stops) {}\n#else\nTEST(a, passes) {}\n#endif\nTEST(a, ends) {}\n"
        self.assertEqual(self.wrong(checked, "verbs/a.passes", "verbs/a.ends"), [])
        self.assertEqual(len(self.wrong(checked, "verbs/a.passes")), 1)
        self.assertEqual(len(self.wrong(checked, "verbs/a.stops", "verbs/a.passes", "verbs/a.ends")), 1)

    def test_variants_of_a_test_are_found(self):
        source = "INSTANTIATE_TEST_SUITE_P(each, a, x());\nTEST_P(a, works) {}\nTYPED_TEST(b, works) {}\n"
        self.assertEqual(self.wrong(source, "verbs/each/a.works/1", "verbs/b.works<int>"), [])
        self.assertEqual(len(self.wrong(source)), 2)


if __name__ == "__main__":
    unittest.main()
