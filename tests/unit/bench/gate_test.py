# SPDX-License-Identifier: MIT
import contextlib
import io
import json
import pathlib
import tempfile
import types
import unittest
from unittest import mock

from bench import run
from bench.harness.figure import Better, Bound, Figure, Verdict, gate

AT_MOST_2 = Bound("ratio", 2.0)
AT_LEAST_HALF = Bound("ratio", 0.5, Better.MORE)


def figure(ratio=None, limit=AT_MOST_2, **rest):
    numbers = {} if ratio is None else {"ratio": ratio}
    return Figure("write", value="1 ns", peer="2 ns", numbers=numbers, limit=limit, **rest)


class Verdicts(unittest.TestCase):
    def test_number_at_its_limit_is_within(self):
        self.assertIs(figure(2.0).verdict, Verdict.WITHIN)

    def test_number_past_its_limit_is_beyond(self):
        self.assertIs(figure(2.001).verdict, Verdict.BEYOND)

    def test_number_where_more_is_better(self):
        self.assertIs(figure(0.5, AT_LEAST_HALF).verdict, Verdict.WITHIN)
        self.assertIs(figure(0.499, AT_LEAST_HALF).verdict, Verdict.BEYOND)

    def test_without_limit_it_is_only_shown(self):
        self.assertIs(figure(99.0, None).verdict, Verdict.SHOWN)

    def test_without_number_there_is_no_result_even_without_limit(self):
        self.assertIs(figure(None).verdict, Verdict.NO_RESULT)
        self.assertIs(figure(None, None).verdict, Verdict.NO_RESULT)

    def test_limit_on_a_number_that_was_not_measured_is_no_result(self):
        self.assertIs(figure(1.0, Bound("extra", 1)).verdict, Verdict.NO_RESULT)

    def test_no_result_reaches_no_goal(self):
        self.assertFalse(figure(None, goal=AT_MOST_2).reaches_goal)
        self.assertTrue(figure(1.9, goal=AT_MOST_2).reaches_goal)
        self.assertFalse(figure(2.1, goal=AT_MOST_2).reaches_goal)


class Gate(unittest.TestCase):
    def test_figures_within_or_without_a_limit_pass(self):
        self.assertEqual(gate([figure(1.0), figure(9.0, None)]), 0)

    def test_figure_beyond_its_limit_fails(self):
        self.assertEqual(gate([figure(1.0), figure(3.0)]), 1)

    def test_figure_without_a_result_fails(self):
        self.assertEqual(gate([figure(1.0), figure(None, None)]), 1)

    def test_empty_table_fails(self):
        self.assertEqual(gate([]), 1)


class Program(unittest.TestCase):
    """run.main() with a benchmark that has made-up figures."""

    def call(self, figures, *arguments):
        bench = types.SimpleNamespace(
            NAME="made_up", SUMMARY="", NOTES="notes", measure=lambda options: figures,
            versions=lambda options: {"compiler": "none"}, DEPENDS_ON_COMPILER=False,
        )  # fmt: skip
        if isinstance(figures, Exception):
            bench.measure = mock.Mock(side_effect=figures)
        out = io.StringIO()
        with mock.patch.dict(run.BENCHES, {"made_up": bench}):
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                status = run.main(["made_up", *arguments])
        return status, out.getvalue()

    def test_without_gate_the_status_is_0_whatever_the_figures_say(self):
        self.assertEqual(self.call([figure(3.0), figure(None)])[0], 0)

    def test_gate_gives_status_1_beyond_a_limit(self):
        self.assertEqual(self.call([figure(1.0)], "--gate")[0], 0)
        self.assertEqual(self.call([figure(3.0)], "--gate")[0], 1)

    def test_gate_gives_status_1_without_a_result(self):
        status, out = self.call([figure(None, reason="too few rounds")], "--gate")
        self.assertEqual(status, 1)
        self.assertIn("no result", out)
        self.assertIn("too few rounds", out)

    def test_a_program_that_fails_is_status_1_without_gate_too(self):
        self.assertEqual(self.call(RuntimeError("valgrind is missing"))[0], 1)

    def test_json_holds_figures_machine_and_command(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "out.json"
            self.call([figure(3.0), figure(None)], "--json", str(path))
            document = json.loads(path.read_text())
        self.assertEqual(
            [one["verdict"] for one in document["figures"]], ["beyond limit", "no result"]
        )
        self.assertIn("processor", document["machine"])
        self.assertTrue(document["command"].startswith("./dev bench made_up --json"))
        self.assertEqual(document["versions"], {"compiler": "none"})

    def test_gate_on_compiled_code_measures_each_installed_compiler(self):
        def measure(options):
            ratio = {"gcc": 1.0, "clang": 3.0}[options.compiler]
            return [figure(ratio)]

        bench = types.SimpleNamespace(
            NAME="made_up", SUMMARY="", NOTES="notes", measure=measure,
            versions=lambda options: {"compiler": f"{options.compiler} 1.0"},
            DEPENDS_ON_COMPILER=True,
        )  # fmt: skip

        def call(installed, *arguments):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "out.json"
                with mock.patch.dict(run.BENCHES, {"made_up": bench}), mock.patch.object(
                    run.shutil, "which", lambda name: name if name in installed else None
                ), contextlib.redirect_stdout(io.StringIO()):
                    status = run.main(["made_up", "--json", str(path), *arguments])
                return status, json.loads(path.read_text())

        both = ("g++-12", "clang++-19")
        self.assertEqual(call(both)[0], 0)
        self.assertEqual(call(both, "--gate", "--compiler", "gcc")[0], 0)
        self.assertEqual(call(("g++-12",), "--gate")[0], 0)
        status, document = call(both, "--gate")
        self.assertEqual(status, 1)
        self.assertEqual([one["compiler"] for one in document["figures"]], ["gcc", "clang"])
        self.assertEqual(document["versions"], {"gcc": "gcc 1.0", "clang": "clang 1.0"})

    def test_fewer_than_seven_rounds_are_refused(self):
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            run.parse_arguments(["local", "--rounds", "6"])

    def test_an_unknown_benchmark_is_refused(self):
        with self.assertRaises(SystemExit) as stop, contextlib.redirect_stderr(io.StringIO()):
            run.parse_arguments(["nothing"])
        self.assertEqual(stop.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
