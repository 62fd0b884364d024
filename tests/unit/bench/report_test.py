# SPDX-License-Identifier: MIT
import pathlib
import socket
import unittest

from bench.harness import local, report
from bench.harness.figure import Better, Bound, Figure
from bench.harness.rounds import Round, keep


def figures():
    limit = Bound("ratio", 4.0)
    return [
        Figure(
            "write 8 B latency", "138 ns 2.05x", "ping-pong 67 ns", {"ratio": 2.05}, limit, limit
        ),
        Figure("send 8 B latency", "500 ns 5.00x", "UCX tag 100 ns", {"ratio": 5.0}, limit, limit),
        Figure("write 64 KiB, ordinary", peer="UCX tag+cma 64 KiB", limit=limit, reason="unsteady"),
    ]


class Table(unittest.TestCase):
    def test_every_column_has_its_heading(self):
        first = report.table(figures()).splitlines()[0].split()
        self.assertEqual(first, ["figure", "value", "goal", "limit", "peer"])

    def test_marks_figures_beyond_their_limit_and_without_a_result(self):
        lines = report.table(figures()).splitlines()
        self.assertEqual([line[0] for line in lines[2:5]], [" ", "!", "?"])
        self.assertIn("no result", lines[4])

    def test_reason_of_a_missing_result_is_printed(self):
        self.assertIn("write 64 KiB, ordinary: unsteady", report.table(figures()))

    def test_summary_counts(self):
        self.assertEqual(
            report.summary(figures()), "1 of 2 goals reached; 1 beyond limit, 1 without result"
        )

    def test_is_at_most_80_columns_wide_for_every_figure_of_local(self):
        samples = {
            "ns": Round(99_999.0, 88_888.0),
            "msg/s": Round(88.88e6, 77.77e6),
            "B/s": Round(99.9e9, 88.8e9),
        }
        rows = [
            local.figure(group, peer, keep([samples[group.unit]] * 7))
            for group in local.GROUPS
            for peer in group.peers
        ]
        uncut, report.WIDTH = report.WIDTH, 1000
        try:
            lines = report.table(rows).splitlines()
        finally:
            report.WIDTH = uncut
        self.assertLessEqual(max(len(line) for line in lines), 80, max(lines, key=len))


class Bounds(unittest.TestCase):
    def test_read_as_they_compare(self):
        self.assertEqual(str(Bound("ratio", 2.0)), "<=2x")
        self.assertEqual(str(Bound("ratio", 0.9, Better.MORE)), ">=0.9x")
        self.assertEqual(str(Bound("extra", 1)), "<=1")


class Machine(unittest.TestCase):
    def test_does_not_name_the_host(self):
        self.assertNotIn(socket.gethostname(), [str(value) for value in report.machine().values()])


class Local(unittest.TestCase):
    def test_too_few_steady_rounds_are_no_result(self):
        group = local.GROUPS[0]
        one = local.figure(group, group.peers[0], keep([Round(100, 1)] * 6 + [Round(300, 1)] * 3))
        self.assertEqual(one.numbers, {})
        self.assertIn("6 of 9 rounds", one.reason)

    def test_a_peer_that_cannot_run_is_no_result_for_its_group(self):
        def broken():
            raise RuntimeError("no such program")

        group = local.GROUPS[0]
        peers = {peer.program: broken for peer in group.peers}
        result = local.measure_group(group, lambda: 1.0, peers, 7)
        self.assertEqual([one.reason for one in result], ["no such program"] * len(group.peers))

    def test_every_peer_of_every_group_has_a_program(self):
        known = local.peer_programs(pathlib.Path("bench"))
        self.assertEqual(
            {peer.program for group in local.GROUPS for peer in group.peers} - set(known), set()
        )


if __name__ == "__main__":
    unittest.main()
