# SPDX-License-Identifier: MIT
import unittest

from bench.harness import callgrind, disassembly, overhead, ucx
from bench.harness.figure import Verdict

# Two calls of case_write_1: 40 instructions of its own, 22 in the provider's operation.
PROFILE = """\
events: Ir
fl=(1) bench/overhead/typed.cpp
fn=(1) case_write_1
10 30
fi=(2) include/verbena/verbs/queue_pair.hpp
55 10
cfi=(3) bench/null_provider/null_operations.c
cfn=(2) post_send
calls=2 5
55 22

fl=(3)
fn=(2)
5 22
"""
WITH_ALLOCATION = (
    PROFILE.replace("55 22\n", "55 22\ncfn=(3) malloc\ncalls=2 0\n55 100\n", 1)
    + """
fl=(4) malloc.c
fn=(3)
1 100
"""
)

CODE = """\
0000000000001000 <case_loop>:
    1000:\tmov    (%rdi),%rax
    1003:\tmov    $0x10,%ecx
    1008:\tcall   *0x10(%rax)
    100b:\tsub    $0x1,%ecx
    100e:\tjne    1008 <case_loop+0x8>
    1010:\tcall   2000 <outside_the_loop>
    1015:\tret

0000000000001100 <case_bad>:
    1100:\tcall   2000 <malloc@plt>
    1105:\tlock addl $0x1,(%rdi)
    1108:\txchg   %rax,(%rsi)
    110b:\txchg   %ax,%ax
    110d:\tjmp    1100 <case_bad>

0000000000001200 <case_cold>:
    1200:\ttest   %eax,%eax
    1202:\tjs     120a <case_cold+0xa>
    1204:\tsub    $0x1,%ecx
    1207:\tjne    1200 <case_cold>
    1209:\tret
    120a:\tcall   3000 <_ZN7verbena17stop_on_violationEv>
    120f:\tjmp    1200 <case_cold>

0000000000001300 <case_slow_path>:
    1300:\ttest   %eax,%eax
    1302:\tjs     130a <case_slow_path+0xa>
    1304:\tsub    $0x1,%ecx
    1307:\tjne    1300 <case_slow_path>
    1309:\tret
    130a:\tcall   3000 <refill>
    130f:\tjmp    1304 <case_slow_path+0x4>
"""


class Callgrind(unittest.TestCase):
    def test_self_and_inclusive_are_apart(self):
        cost = overhead.costs(callgrind.parse(PROFILE), calls=2)["write_1"]
        self.assertEqual((cost.own, cost.inclusive, cost.foreign_callees), (20, 31, ()))

    def test_code_inlined_from_another_file_belongs_to_the_function(self):
        self.assertEqual(callgrind.parse(PROFILE)["case_write_1"].self_cost, 40)

    def test_cost_of_foreign_callees_counts_as_own(self):
        cost = overhead.costs(callgrind.parse(WITH_ALLOCATION), calls=2)["write_1"]
        self.assertEqual((cost.own, cost.foreign_callees), (70, ("malloc",)))

    def test_allocation_is_beyond_its_limit(self):
        functions = callgrind.parse(WITH_ALLOCATION)
        code = {"case_write_1": disassembly.parse(CODE)["case_loop"]}
        figures = overhead.counting_figures(overhead.costs(functions, 2), code, functions)
        verdicts = {one.name: one.verdict for one in figures}
        self.assertIs(verdicts["allocations"], Verdict.BEYOND)
        self.assertIs(verdicts["foreign calls executed"], Verdict.BEYOND)
        self.assertIs(verdicts["locked instructions"], Verdict.WITHIN)

    def test_name_used_before_it_is_given_is_an_error(self):
        with self.assertRaises(ValueError):
            callgrind.parse("fn=(7)\n1 1\n")


class Disassembly(unittest.TestCase):
    def setUp(self):
        self.code = disassembly.parse(CODE)

    def test_finds_the_functions(self):
        self.assertEqual(
            sorted(self.code), ["case_bad", "case_cold", "case_loop", "case_slow_path"]
        )

    def test_call_through_a_pointer_is_the_providers(self):
        self.assertEqual(disassembly.direct_calls_in_loops(self.code["case_loop"]), [])

    def test_call_by_name_in_a_loop_is_found(self):
        (call,) = disassembly.direct_calls_in_loops(self.code["case_bad"])
        self.assertIn("malloc", call.operands)

    def test_call_that_never_returns_is_in_no_loop(self):
        self.assertEqual(disassembly.direct_calls_in_loops(self.code["case_cold"]), [])

    def test_call_behind_the_function_that_jumps_back_is_in_the_loop(self):
        self.assertEqual(len(disassembly.direct_calls_in_loops(self.code["case_slow_path"])), 1)

    def test_lock_prefix_and_xchg_with_memory_are_locked(self):
        self.assertEqual(len(disassembly.locked(self.code["case_bad"])), 2)
        self.assertEqual(disassembly.locked(self.code["case_loop"]), [])


class Cases(unittest.TestCase):
    def figure(self, case, operations, ours, twin):
        cost = overhead.Cost(ours, ours + 11, ()), overhead.Cost(twin, twin + 11, ())
        return overhead.case_figure(case, operations, *cost, (1.0, 1.0))

    def test_straight_call_may_have_one_extra_instruction(self):
        self.assertIs(self.figure("write_1", 1, 21, 20).verdict, Verdict.WITHIN)
        self.assertIs(self.figure("write_1", 1, 22, 20).verdict, Verdict.BEYOND)

    def test_two_blocks_of_a_poster_may_have_four_each(self):
        self.assertIs(self.figure("poster_write_2", 2, 48, 40).verdict, Verdict.WITHIN)
        self.assertIs(self.figure("poster_write_2", 2, 49, 40).verdict, Verdict.BEYOND)

    def test_lone_block_of_a_poster_may_have_four(self):
        self.assertIs(self.figure("poster_write_1", 1, 24, 20).verdict, Verdict.WITHIN)
        self.assertIs(self.figure("poster_write_1", 1, 25, 20).verdict, Verdict.BEYOND)

    def test_loop_may_have_five_percent(self):
        self.assertIs(self.figure("write_16", 16, 315, 300).verdict, Verdict.WITHIN)
        self.assertIs(self.figure("write_16", 16, 316, 300).verdict, Verdict.BEYOND)

    def test_case_that_did_not_run_has_no_result(self):
        one = overhead.case_figure("write_1", 1, None, overhead.Cost(1, 1, ()), (1.0, 1.0))
        self.assertIs(one.verdict, Verdict.NO_RESULT)

    def test_work_requests_that_differ_are_named(self):
        twin = [["write_1", "id=7", "flags=2"], ["send_1", "id=7"]]
        typed = [
            ["write_1", "id=7", "flags=0"],
            ["send_1", "id=7"],
            ["poster_write_1", "id=7", "flags=2"],
        ]
        self.assertEqual(overhead.differences(twin, typed), ["write_1"])
        self.assertEqual(overhead.differences(twin[:1], typed[1:]), ["send_1"])


class Ucx(unittest.TestCase):
    def test_reads_the_last_line(self):
        numbers = ucx.parse("header\n200000,0.080,0.085,0.085,89.35,89.35,11711271,11711271\n")
        self.assertEqual(numbers.latency_ns, 85.0)
        self.assertEqual(numbers.bytes_per_second, 89.35 * (1 << 20))
        self.assertEqual(numbers.messages_per_second, 11711271)

    def test_output_without_numbers_is_an_error(self):
        with self.assertRaises(RuntimeError):
            ucx.parse("[1] connection refused\n")


if __name__ == "__main__":
    unittest.main()
