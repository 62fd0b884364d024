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

    def test_headers_that_do_not_compile(self):
        header = self.write("broken.hpp", "int x = unknown;\n")
        flags = self.write("flags.txt", "-std=c++20\n")
        done = self.run_script("compile_fail.py", "--compiler", "g++-12", "--flags", flags,
                               "--precompiled", self.write("folder/marker", "").parent, "--precompile", header)
        self.assert_finds(done, "broken.hpp does not compile")

    def test_case_with_precompiled_headers(self):
        header = self.write("good.hpp", "constexpr int four = 4;\n")
        flags = self.write("flags.txt", "-std=c++20\n-Wall\n-Werror\n")
        folder = self.write("folder/marker", "").parent
        case = self.write("case.cpp", GOOD.replace("sizeof(int) == 1", "four == 1"))
        common = ("--compiler", "g++-12", "--flags", flags, "--precompiled", folder)
        self.assert_clean(self.run_script("compile_fail.py", *common, "--precompile", header))
        self.assert_clean(self.run_script("compile_fail.py", *common, case))


if __name__ == "__main__":
    unittest.main()
