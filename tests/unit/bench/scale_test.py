# SPDX-License-Identifier: MIT
import pathlib
import unittest
from unittest import mock

from bench.harness import scale
from bench.harness.figure import Verdict


class Counts(unittest.TestCase):
    def test_lines_become_numbers_by_name(self):
        self.assertEqual(scale.read_counts("pair_kib 12.5\nconnect_ms 3\n\n"), {"pair_kib": 12.5, "connect_ms": 3.0})

    def test_count_at_its_limit_is_within_and_above_is_beyond(self):
        pair = next(one for one in scale.CROWD_COUNTS if one.key == "peer_descriptors")
        self.assertIs(scale.count_figure(pair, 2.0, "64 processes").verdict, Verdict.WITHIN)
        self.assertIs(scale.count_figure(pair, 2.1, "64 processes").verdict, Verdict.BEYOND)

    def test_count_without_limit_is_shown(self):
        shown = next(one for one in scale.CROWD_COUNTS if one.key == "connect_ms")
        self.assertIs(scale.count_figure(shown, 1e9, "64 processes").verdict, Verdict.SHOWN)

    def test_crowd_that_fails_or_prints_too_little_has_no_result(self):
        for failure in (RuntimeError("a process of the crowd failed"), None):
            with mock.patch.object(scale, "output_of", side_effect=failure, return_value="pair_kib 1\n"):
                figures = scale.measure_crowd(pathlib.Path("scale_device"))
            self.assertTrue(any(one.verdict is Verdict.NO_RESULT for one in figures))


class Instructions(unittest.TestCase):
    def figures(self, many):
        return scale.instruction_figures("SEND", {2: (1000.0, 4.0), 64: many})

    def test_equal_counts_are_within(self):
        self.assertEqual([one.verdict for one in self.figures((1100.0, 4.0))], [Verdict.WITHIN] * 2)

    def test_more_instructions_are_beyond(self):
        self.assertEqual([one.verdict for one in self.figures((1101.0, 4.0))], [Verdict.BEYOND, Verdict.WITHIN])

    def test_one_more_locked_instruction_is_beyond(self):
        self.assertEqual([one.verdict for one in self.figures((1000.0, 5.0))], [Verdict.WITHIN, Verdict.BEYOND])

    def test_program_that_fails_has_no_result(self):
        with mock.patch.object(scale, "output_of", side_effect=RuntimeError("ptrace(2) is not permitted")):
            (figure,) = scale.measure_instructions(pathlib.Path("scale_device"), "send_instructions", "SEND")
        self.assertIs(figure.verdict, Verdict.NO_RESULT)
        self.assertIn("ptrace", figure.reason)


if __name__ == "__main__":
    unittest.main()
