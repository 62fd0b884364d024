# SPDX-License-Identifier: MIT
"""scripts/compile_fail.py believes a case only when control, refusal and message are all right."""
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
        self.assert_finds(self.check(GOOD.replace("== 1", "== 4")), "the bad line compiles")

    def test_refusal_for_another_reason(self):
        self.assert_finds(self.check(GOOD.replace("static_assert(sizeof(int) == 1)", "int x = unknown")),
                          "the compiler does not say")

    def test_case_without_expectation(self):
        self.assert_finds(self.check(GOOD.replace("// expect", "// nothing")), "no `// expect: REGEX` line")

    def test_case_without_bad_line(self):
        self.assert_finds(self.check("// expect: x\n"), "no line under VERBENA_BAD")


if __name__ == "__main__":
    unittest.main()
