# SPDX-License-Identifier: MIT
"""scripts/compile_fail.py accepts a case only if control, refusal and message are correct."""
import unittest

from lint_case import LintCase

GOOD = """// expect: static assertion failed|static_assert failed
#ifdef VERBENA_BAD
static_assert(sizeof(int) == 1);
#endif
"""


class CompileFail(LintCase):
    def check(self, text):
        case = self.write("case.cpp", text)
        flags = self.write("flags.txt", "-std=c++20\n-Wall\n-Werror\n")
        return self.run_script("compile_fail.py", "--compiler", "g++-12", "--flags", flags, case)

    def test_case_that_holds(self):
        self.assert_clean(self.check(GOOD))

    def test_control_that_does_not_compile(self):
        self.assert_finds(self.check(GOOD + "int x = unknown;\n"), "the control does not compile")

    def test_bad_line_that_compiles(self):
        self.assert_finds(self.check(GOOD.replace("== 1", "== 4")), "the code under VERBENA_BAD compiles")

    def test_refusal_for_another_reason(self):
        self.assert_finds(self.check(GOOD.replace("static_assert(sizeof(int) == 1)", "int x = unknown")),
                          "the diagnostics do not match")

    def test_case_without_expectation(self):
        self.assert_finds(self.check(GOOD.replace("// expect", "// nothing")), "no `// expect: REGEX` line")

    def test_case_without_bad_line(self):
        self.assert_finds(self.check("// expect: x\n"), "no code under")

    def check_together(self, *texts):
        """Prepares all cases as one unit and returns the run of each case."""
        cases = [self.write(f"case{number}.cpp", text) for number, text in enumerate(texts)]
        flags = self.write("flags.txt", "-std=c++20\n-Wall\n-Werror\n")
        folder = self.write("folder/marker", "").parent
        common = ("--compiler", "g++-12", "--flags", flags, "--prepared", folder)
        self.assert_clean(self.run_script("compile_fail.py", *common, "--prepare", *cases))
        return [self.run_script("compile_fail.py", *common, case) for case in cases]

    def test_prepared_cases_are_checked_separately(self):
        header = self.write("four.hpp", "#pragma once\nconstexpr int four = 4;\n")
        good = f'#include "{header}"\n' + GOOD.replace("sizeof(int) == 1", "four == 1")
        runs = self.check_together(good, good.replace("== 1", "== 4"), GOOD + "int x = unknown;\n",
                                   GOOD.replace("static_assert(sizeof(int) == 1)", "int x = unknown"), GOOD)
        self.assert_clean(runs[0])
        self.assert_finds(runs[1], "the code under VERBENA_BAD compiles")
        self.assert_finds(runs[2], "the control does not compile")
        self.assert_finds(runs[3], "the diagnostics do not match")
        self.assert_clean(runs[4])

    def test_case_that_does_not_compile_in_a_namespace_is_compiled_separately(self):
        case = GOOD + "#include <functional>\nstruct own {};\ntemplate <> struct std::hash<own> {};\n"
        for done in self.check_together(case, GOOD):
            self.assert_clean(done)

    def test_changed_case_is_compiled_again(self):
        self.assert_clean(self.check_together(GOOD)[0])
        case = self.write("case0.cpp", GOOD.replace("== 1", "== 4"))
        done = self.run_script("compile_fail.py", "--compiler", "g++-12", "--flags", self.write("flags.txt", "-std=c++20\n"),
                               "--prepared", case.parent / "folder", case)
        self.assert_finds(done, "the code under VERBENA_BAD compiles")


if __name__ == "__main__":
    unittest.main()
