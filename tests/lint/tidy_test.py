# SPDX-License-Identifier: MIT
"""scripts/tidy.py finds each violation of a coding rule and accepts the corrected file."""
import unittest

from lint_case import SPDX, LintCase

HEADER = SPDX + "#pragma once\n"


class Tidy(LintCase):
    def check(self, path, text):
        self.write(path, text)
        return self.run_script("tidy.py", "--root", self.root)

    def test_first_line_names_the_licence(self):
        self.assert_clean(self.check("src/base/x.cpp", SPDX))
        self.assert_finds(self.check("src/base/x.cpp", "int x;\n"), "[spdx]")

    def test_scripts_have_the_licence_behind_their_interpreter(self):
        self.assert_clean(self.check("scripts/x.py", "#!/usr/bin/env python3\n# SPDX-License-Identifier: MIT\n"))
        self.assert_finds(self.check("scripts/x.py", "#!/usr/bin/env python3\n"), "[spdx]")

    def test_headers_have_pragma_once(self):
        self.assert_clean(self.check("include/verbena/base/x.hpp", HEADER))
        self.assert_finds(self.check("include/verbena/base/x.hpp", SPDX), "[pragma-once]")

    def test_headers_have_at_most_450_lines(self):
        self.assert_clean(self.check("include/verbena/base/x.hpp", HEADER + "\n" * 448))
        self.assert_finds(self.check("include/verbena/base/x.hpp", HEADER + "\n" * 449), "451 lines; the cap is 450")

    def test_sources_have_at_most_600_lines(self):
        self.assert_clean(self.check("src/base/x.cpp", SPDX + "\n" * 599))
        self.assert_finds(self.check("src/base/x.cpp", SPDX + "\n" * 600), "601 lines; the cap is 600")

    def test_tests_have_at_most_800_lines(self):
        self.assert_clean(self.check("tests/unit/base/x_test.cpp", SPDX + "\n" * 799))
        self.assert_finds(self.check("tests/unit/base/x_test.cpp", SPDX + "\n" * 800), "801 lines; the cap is 800")

    def test_lines_have_at_most_100_columns(self):
        self.assert_clean(self.check("src/base/x.cpp", SPDX + "// " + "x" * 97 + "\n"))
        self.assert_finds(self.check("src/base/x.cpp", SPDX + "// " + "x" * 98 + "\n"), "101 columns")

    def test_functions_have_at_most_70_lines(self):
        body = "void f() {\n" + "  g();\n" * 68 + "}\n"
        self.assert_clean(self.check("src/base/x.cpp", SPDX + body))
        body = "void f() {\n" + "  g();\n" * 69 + "}\n"
        self.assert_finds(self.check("src/base/x.cpp", SPDX + body), "f has 71 lines; the cap is 70")

    def test_functions_have_at_most_5_parameters(self):
        self.assert_clean(self.check("src/base/x.cpp", SPDX + "void f(int a, int b, int c, int d, int e);\n"))
        self.assert_finds(self.check("src/base/x.cpp", SPDX + "void f(int a, int b, int c, int d, int e, int g);\n"),
                          "f has 6 parameters")

    def test_the_c_interface_may_have_more_parameters(self):
        self.assert_clean(self.check("softdev/shim/x.cpp", SPDX + "int ibv_f(int a, int b, int c, int d, int e, int g);\n"))

    def test_calls_to_avoid_come_with_what_to_use(self):
        for path, code, rule in (("tests/unit/base/x_test.cpp", "std::this_thread::sleep_for(1s);", "[sleep]"),
                                 ("src/base/x.cpp", "assert(a);", "[assert]"),
                                 ("src/base/x.cpp", "sprintf(a, b);", "[unsafe-c]"),
                                 ("src/base/x.cpp", "log(strerror(5));", "[strerror]"),
                                 ("src/base/x.cpp", "a << std::endl;", "[endl]"),
                                 ("src/base/x.cpp", "using namespace std;", "[using-namespace-std]"),
                                 ("softdev/core/x.cpp", "std::cerr << a;", "[stdout]"),
                                 ("softdev/core/x.cpp", "std::mt19937 engine;", "[random]"),
                                 ("src/sys/x.cpp", "dlclose(handle);", "[dlclose]"),
                                 ("softdev/peers/x.cpp", "std::function<void()> f;", "[function]"),
                                 ("src/verbs/x.cpp", "volatile int a;", "[volatile]")):
            with self.subTest(rule):
                self.assert_finds(self.check(path, SPDX + code + "\n"), rule)
                (self.root / path).unlink()

    def test_words_in_strings_and_comments_are_no_calls(self):
        self.assert_clean(self.check("src/base/x.cpp", SPDX + '// sleep(1) is bad\nconst char* a = "assert(x)";\n'))
        self.assert_clean(self.check("src/base/x.cpp", SPDX + "static_assert(true);\nVERBENA_ASSERT(a, b);\n"))

    def test_a_reason_allows_an_exception(self):
        bad = "volatile int a;"
        self.assert_clean(self.check("src/base/x.cpp", f"{SPDX}// lint: allow(volatile): a signal handler writes it\n{bad}\n"))
        self.assert_finds(self.check("src/base/x.cpp", f"{SPDX}// lint: allow(volatile):\n{bad}\n"), "[volatile]")

    def test_unfinished_work_and_host_paths_do_not_stay(self):
        self.assert_finds(self.check("src/base/x.cpp", SPDX + "// TO" "DO later\n"), "[todo]")
        (self.root / "src/base/x.cpp").unlink()
        self.assert_finds(self.check("docs/x.md", "See /ho" "me/somebody/verbena.\n"), "[host-path]")

    def test_macros_are_ours_and_live_in_base(self):
        self.assert_clean(self.check("include/verbena/base/x.hpp", HEADER + "#define VERBENA_X 1\n"))
        self.assert_finds(self.check("include/verbena/base/x.hpp", HEADER + "#define LOUD 1\n"), "[macro]")
        (self.root / "include/verbena/base/x.hpp").unlink()
        self.assert_finds(self.check("src/verbs/x.cpp", SPDX + "#define VERBENA_X 1\n"), "[macro]")

    def test_classes_say_how_threads_may_use_them(self):
        good = "/// A thing. Threads: one thread at a time.\nclass thing {\n};\n"
        self.assert_clean(self.check("include/verbena/base/x.hpp", HEADER + good))
        wrapped = "/// A thing. Threads: one thread at\n/// a time.\ntemplate <class T>\nclass thing final : public base<T> {\n};\n"
        self.assert_clean(self.check("include/verbena/base/x.hpp", HEADER + wrapped))
        self.assert_finds(self.check("include/verbena/base/x.hpp", HEADER + "/// A thing.\nclass thing {\n};\n"),
                          "class thing does not state its thread safety")

    def test_posting_functions_state_their_contract(self):
        body = "/// Threads: one thread at a time.\nclass q {{\n public:\n  /// Posts.{}\n  post_status post_receive(int a);\n}};\n"
        good = body.format("\n  ///\n  /// *Contract*: the memory stays valid until the completion.")
        self.assert_clean(self.check("include/verbena/verbs/x.hpp", HEADER + good))
        self.assert_finds(self.check("include/verbena/verbs/x.hpp", HEADER + body.format("")), "[contract]")

    def test_private_posting_helpers_need_no_contract(self):
        text = "/// Threads: immutable.\nclass q {\n public:\n  int a();\n\n private:\n  void post_now(int a);\n};\n"
        self.assert_clean(self.check("include/verbena/verbs/x.hpp", HEADER + text))


if __name__ == "__main__":
    unittest.main()
