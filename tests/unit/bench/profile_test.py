# SPDX-License-Identifier: MIT
"""The profile of soft0: groups of functions, the trace of instructions, the samples of the demo."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

from bench.harness import profile  # noqa: E402


class FixedSymbols:
    """Functions at the addresses 0x1000 and 0x2000."""

    def at(self, address):
        return {0x1: "start()", 0x2: "copy()"}[address >> 12]


class Groups(unittest.TestCase):
    def test_source_file_selects_the_group(self):
        self.assertEqual(profile.group_of("core/rc_requester"), "requester")
        self.assertEqual(profile.group_of("core/biased_lock"), "guards and locks")
        self.assertEqual(profile.group_of("core/engine"), "engine")
        self.assertEqual(profile.group_of("shim/verbs_post"), "verbs calls")
        self.assertEqual(profile.group_of("base/log"), "other")

    def test_clones_have_the_name_of_their_function(self):
        self.assertEqual(profile.without_clone("f(int) [clone .part.0] [clone .cold]"), "f(int)")
        self.assertEqual(profile.without_clone("f(int)"), "f(int)")


class Trace(unittest.TestCase):
    TEXT = """\
first 0x1010 64 0 0
first 0x1014 32 1 0
second 0x2010 32 0 0
library 0 96 0 1
program 0x10 32 0 0
operations 32
"""
    COSTS = profile.parse_trace(TEXT, FixedSymbols(), {"start()": "requester", "copy()": "copy of payload"})

    def test_instructions_are_counted_by_group_and_side(self):
        self.assertEqual(self.COSTS["requester"].instructions, [3.0, 0.0])
        self.assertEqual(self.COSTS["requester"].locked, 1.0)
        self.assertEqual(self.COSTS["copy of payload"].instructions, [0.0, 1.0])
        self.assertEqual(self.COSTS["C library"].system_calls, 3.0)
        self.assertEqual(self.COSTS["program"].instructions, [1.0, 0.0])

    def test_function_of_no_known_file_is_in_the_group_other(self):
        costs = profile.parse_trace(self.TEXT, FixedSymbols(), {})
        self.assertEqual(costs["other"].instructions, [3.0, 1.0])

    def test_figures_are_the_sum_and_the_groups_in_descending_order(self):
        figures = profile.operation_figures("send", self.COSTS)
        self.assertEqual(figures[0].name, "send")
        self.assertEqual(figures[0].value, "7 + 1")
        self.assertEqual(figures[0].peer, "1 locked, 3 system calls")
        self.assertEqual([figure.value for figure in figures[1:]], ["3", "3", "0 + 1", "1"])


class Samples(unittest.TestCase):
    def test_samples_are_counted_by_kind_and_thread(self):
        kinds, progress = profile.parse_samples("""\
           rcopy     7f10 verbena::softdev::copy_payload(std::byte*) (/x/libverbena-soft.so.0)
    verbena-soft     7f11 verbena::softdev::engine::progress() (/x/libverbena-soft.so.0)
           rcopy ffffffff copy_page_to_iter ([kernel.kallsyms])
           rcopy ffffffff do_syscall_64 ([kernel.kallsyms])
           rcopy     5511 checksum::add(std::span<std::byte>) (/x/rcopy)
           rcopy     7f12 [unknown] (/lib/libc.so.6)

""")
        self.assertEqual(
            dict(kinds),
            {"device: copy of payload": 1, "device: other": 1, "kernel: copies": 1, "kernel: other": 1,
             "checksum": 1, "C library and others": 1},
        )  # fmt: skip
        self.assertEqual(+progress, {"device: other": 1})


if __name__ == "__main__":
    unittest.main()
