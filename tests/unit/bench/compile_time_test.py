# SPDX-License-Identifier: MIT
"""./dev bench compile: ratios to one peer, lines after preprocessing, bounds of the two main headers."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

from bench.harness import compile_time, rounds  # noqa: E402
from bench.harness.figure import Verdict  # noqa: E402


def outcome(ours, peer, times=7):
    return rounds.keep([rounds.Round(peer, ours)] * times)


class CompileTime(unittest.TestCase):
    def test_main_headers_have_bounds(self):
        for ours, verdict, goal in ((0.8, Verdict.WITHIN, True), (0.95, Verdict.WITHIN, False), (1.3, Verdict.BEYOND, False)):
            one = compile_time.figure("verbena.hpp", "s", outcome(ours, 0.3), 60_000, 20_000)
            self.assertEqual((one.verdict, one.reaches_goal), (verdict, goal))
        self.assertEqual(compile_time.figure("message_channel.hpp", "s", outcome(0.7, 0.3), 1, 1).verdict, Verdict.BEYOND)

    def test_other_headers_are_shown(self):
        one = compile_time.figure("channel.hpp", "s", outcome(3.0, 0.3), 60_000, 20_000)
        self.assertEqual(one.verdict, Verdict.SHOWN)
        self.assertEqual(one.numbers["lines_ratio"], 3)

    def test_unsteady_peer_has_no_result(self):
        one = compile_time.figure("verbena.hpp", "s", outcome(1.0, 0.3, times=6), 1, 1)
        self.assertEqual(one.verdict, Verdict.NO_RESULT)

    def test_only_the_judged_peer_adds_rounds(self):
        steady = iter(range(1000))
        programs = {"peer": lambda: 1.0, "wild": lambda: float(next(steady) % 2 + 1), "ours": lambda: 2.0}
        self.assertEqual(len(rounds.interleave(programs, "ours", 7, judged=("peer",))["peer"]), 7)

    def test_first_headers_exist(self):
        headers = pathlib.Path(__file__).resolve().parents[3] / "include/verbena"
        for name in ("verbena.hpp", "channel/message_channel.hpp"):
            self.assertIn(name, compile_time.HEADERS)
            self.assertTrue((headers / name).is_file())


if __name__ == "__main__":
    unittest.main()
