# SPDX-License-Identifier: MIT
"""scripts/safety_rules.py finds the rules where they are enforced, and rejects a page that does not list them."""
import unittest

from lint_case import SPDX, LintCase

PAGE = "".join(f"<!-- {name}: scripts/safety_rules.py --fix -->\n<!-- end of {name} -->\n"
               for name in ("compiler", "always", "checked"))


class SafetyRules(LintCase):
    def setUp(self):
        super().setUp()
        self.page = self.write("docs/guide/safety.md", PAGE)

    def check(self, *words):
        return self.run_script("safety_rules.py", "--root", self.root, *words)

    def test_page_that_lists_all_rules(self):
        self.write("tests/compile_fail/base/x_is_y.cpp", SPDX + "// X is\n// always Y.\n// expect: x\nint x;\n")
        self.write("include/verbena/base/x.hpp", SPDX + 'VERBENA_CHECK(f("a,"), "one "\n  "rule");\n')
        self.write("src/base/x.cpp", SPDX + 'VERBENA_ASSERT(f(")") > 1, "another rule");\nf("no rule");\n')
        self.assert_clean(self.check("--fix"))
        self.assert_clean(self.check())
        text = self.page.read_text()
        for line in ("- X is always Y. `compile_fail/base/x_is_y`\n", "- one rule (x)\n", "- another rule (x)\n"):
            self.assertIn(line, text)
        self.assertNotIn("no rule", text)

    def test_rules_are_grouped_by_object(self):
        for name, rule in {"base/flags": "Flags are typed", "channel/sink": "A sink is moved",
                           "verbs/batch": "A batch has one owner", "verbs/handshake": "The handshake has one peer"}.items():
            self.write(f"tests/compile_fail/{name}.cpp", SPDX + f"// {rule}.\n// expect: x\nint x;\n")
        self.write("src/verbs/memory_region.cpp", 'VERBENA_ASSERT(x, "an empty region");\n')
        self.assert_clean(self.check("--fix"))
        text = self.page.read_text()
        lines = [line for line in text.splitlines() if line.startswith(("- ", "**"))]
        self.assertEqual(lines, ["**Channels**", "- A sink is moved. `compile_fail/channel/sink`",
                                 "**Results, flags and identifiers**", "- Flags are typed. `compile_fail/base/flags`",
                                 "**Batches**", "- A batch has one owner. `compile_fail/verbs/batch`",
                                 "**Queue pairs and posting**", "- The handshake has one peer. `compile_fail/verbs/handshake`",
                                 "**Memory regions and slices**", "- an empty region (memory_region)"])

    def test_rule_that_the_page_does_not_list(self):
        self.assert_clean(self.check())
        self.write("src/base/x.cpp", 'begin_exclusive(x, "a new rule", where);\n')
        self.assert_finds(self.check(), "a list is out of date")

    def test_case_without_a_sentence(self):
        self.write("tests/compile_fail/base/x.cpp", SPDX + "// expect: x\nint x;\n")
        self.check("--fix")
        self.assert_finds(self.check(), "compile_fail/base/x: the rule has no description")

    def test_page_without_marks(self):
        self.page.write_text("nothing\n")
        self.assert_finds(self.check(), "marks of the list")


if __name__ == "__main__":
    unittest.main()
