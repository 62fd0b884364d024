# SPDX-License-Identifier: MIT
"""Tests of the faults that tests/mutants seeds."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))

import faults  # noqa: E402
import mutants  # noqa: E402


def changed(line):
    return {fault.after.strip() for fault in faults.faults_of("a.cpp", f"{line}\n")}


class Faults(unittest.TestCase):
    def test_operators_constants_calls_and_arguments_are_changed(self):
        self.assertIn("if (a <= b) return c;", changed("  if (a < b) return c;"))
        self.assertIn("const int n = 5;", changed("  const int n = 4;"))
        self.assertIn("if (ready) go();", changed("  if (!ready) go();"))
        self.assertEqual(changed("  queue.push(entry);"), {";"})
        self.assertIn("swap_in(to, from);", changed("  swap_in(from, to);"))

    def test_texts_comments_and_declarations_are_left_alone(self):
        for line in ("  // a < b", '  log("a", 1 + 2);', "  static_assert(a == b);", "#if A == 1", "  using t = int;",
                     "  value.store(1, std::memory_order_release);", "  warn_once(1);"):
            self.assertEqual(changed(line), set(), line)

    def test_end_of_a_longer_statement_is_not_a_dropped_call(self):
        self.assertEqual(faults.faults_of("a.cpp", "  const auto x = combine(one,\n      two(three));\n"), [])
        self.assertEqual(len(faults.faults_of("a.cpp", "  if (ready)\n    go(three);\n  stop(three);\n")), 2)

    def test_lines_without_effect_are_left_alone(self):
        for file, line in (("a.cpp", "  return mixed ^ (mixed >> 31U);"), ("a.hpp", "  std::uint32_t max_ranks = 1024;"),
                           ("a.hpp", "  std::chrono::milliseconds patience{2000};"), ("a.cpp", "  std::array<char, 40> text{};"),
                           ("a.cpp", "  out.reserve(4 + count);"), ("a.cpp", "  relax();"),
                           ("a.hpp", "  virtual void end() = 0;"), ("a.hpp", "  alignas(64) std::byte room_[64];")):
            self.assertEqual(faults.faults_of(file, f"{line}\n"), [], line)

    def test_initial_values_of_counters_and_private_members_are_changed(self):
        for file, line in (("a.hpp", "  std::uint32_t end_ = 0;"), ("a.hpp", "  std::uint64_t sent = 0;"),
                           ("a.hpp", "  std::atomic<std::uint32_t> used{0};"), ("a.cpp", "  std::uint32_t count = 0;"),
                           ("a.hpp", "  bool is_open = false;"), ("a.hpp", "  static constexpr std::uint32_t bits = 3;")):
            self.assertNotEqual(faults.faults_of(file, f"{line}\n"), [], line)

    def test_fault_is_seeded_into_its_line_only(self):
        text = "  x = 1;\n  y = 2;\n"
        fault = faults.faults_of("a.cpp", text)[-1]
        self.assertEqual(faults.seeded(text, fault), "  x = 1;\n  y = 3;\n")
        with self.assertRaises(ValueError):
            faults.seeded("  x = 1;\n  z = 2;\n", fault)

    def test_choice_depends_on_the_seed_only_and_has_one_fault_of_a_line(self):
        modules = [module for module in mutants.MODULES if module.name == "efa"]
        first = mutants.chosen_order(modules, 1)
        self.assertEqual(first, mutants.chosen_order(modules, 1))
        self.assertNotEqual(first, mutants.chosen_order(modules, 2))
        lines = [(fault.file, fault.line) for _, fault in first]
        self.assertEqual(len(lines), len(set(lines)))

    def test_every_module_has_faults_and_no_text_file_has_any(self):
        for module in mutants.MODULES:
            self.assertTrue(mutants.sources_of(module), module.name)
        self.assertFalse(any("reason_table" in str(file) for module in mutants.MODULES
                             for file in mutants.sources_of(module)))


if __name__ == "__main__":
    unittest.main()
