# SPDX-License-Identifier: MIT
"""scripts/check_docs.py finds dead links, dead paths and snippets that differ from the compiled source."""
import unittest

from lint_case import SPDX, LintCase

PROGRAM = SPDX + "// What it shows.\n#include <a.hpp>\n\nint main() {\n  // [part]\n  return f();\n  // [/part]\n}\n"


class Documents(LintCase):
    def setUp(self):
        super().setUp()
        self.write("examples/CMakeLists.txt", "add_executable(a a.cpp)\n")
        self.write("examples/a.cpp", PROGRAM)

    def check(self, text):
        self.write("README.md", text)
        return self.run_script("check_docs.py", "--root", self.root)

    def test_quotation_of_a_whole_file(self):
        body = PROGRAM.split("// What it shows.\n")[1]
        self.assert_clean(self.check(f"<!-- quote: examples/a.cpp -->\n```cpp\n{body}```\n"))
        self.assert_finds(self.check(f"<!-- quote: examples/a.cpp -->\n```cpp\n{body}// more\n```\n"), "differs from")

    def test_quotation_of_a_region(self):
        self.assert_clean(self.check("<!-- quote: examples/a.cpp#part -->\n```cpp\nreturn f();\n```\n"))
        self.assert_finds(self.check("<!-- quote: examples/a.cpp#part -->\n```cpp\nreturn g();\n```\n"), "differs from")
        self.assert_finds(self.check("<!-- quote: examples/a.cpp#none -->\n```cpp\nreturn f();\n```\n"), "no such marks")

    def test_code_without_quoted_file_is_refused(self):
        self.assert_finds(self.check("```cpp\nint x;\n```\n"), "not a quotation")
        self.assert_finds(self.check("<!-- quote: examples/b.cpp -->\n```cpp\nint x;\n```\n"), "does not exist")

    def test_quotation_has_a_code_block(self):
        for text in ("More.\n", "\n```cpp\nreturn f();\n```\n", ""):
            with self.subTest(text):
                self.assert_finds(self.check(f"<!-- quote: examples/a.cpp#part -->\n{text}"), "no code block follows")

    def test_quoted_file_must_be_compiled(self):
        self.write("src/loose.cpp", SPDX + "int x;\n")
        self.assert_finds(self.check("<!-- quote: src/loose.cpp -->\n```cpp\nint x;\n```\n"), "no CMakeLists.txt names")

    def test_other_languages_need_no_source(self):
        self.assert_clean(self.check("```sh\n./dev demo\n```\n"))

    def test_link_targets_exist(self):
        self.assert_clean(self.check("[a](examples/a.cpp) [b](https://example.org/x) [c](#part)\n"))
        self.assert_finds(self.check("[a](examples/none.cpp)\n"), "leads nowhere")

    def test_paths_exist(self):
        self.assert_clean(self.check("See `examples/a.cpp`, `examples/*.cpp` and `std/chrono`.\n"))
        self.assert_finds(self.check("See `examples/none.cpp`.\n"), "does not exist")
        self.assert_finds(self.check("See `examples/*.hpp`.\n"), "nothing matches")

    def test_names_of_tests_are_no_paths(self):
        self.write("docs/parity/page.md", "- [x] a — `examples/a.b`\n")
        self.assert_clean(self.check("text\n"))

    def test_fix_renews_quotations(self):
        self.write("README.md", "<!-- quote: examples/a.cpp#part -->\n```cpp\nold\n```\nand more\n")
        self.assert_clean(self.run_script("check_docs.py", "--root", self.root, "--fix"))
        self.assertEqual((self.root / "README.md").read_text(),
                         "<!-- quote: examples/a.cpp#part -->\n```cpp\nreturn f();\n```\nand more\n")

    def test_environment_variables_are_explained(self):
        self.write("src/sys/x.cpp", SPDX + 'const char* a = std::getenv("VERBENA_NOVEL");\n')
        self.assert_finds(self.check("text\n"), "reads VERBENA_NOVEL")
        self.write("docs/environment.md", "`VERBENA_NOVEL`: new.\n")
        self.assert_clean(self.check("text\n"))

    def test_code_blocks_end(self):
        self.assert_finds(self.check("```sh\n./dev demo\n"), "without an end")


if __name__ == "__main__":
    unittest.main()
