# SPDX-License-Identifier: MIT
"""scripts/words.py finds each kind of phrase to avoid, names its place, and accepts plain English."""
import unittest

from lint_case import SPDX, LintCase


class Words(LintCase):
    def check(self, path, text, *words):
        self.write(path, text)
        return self.run_script("words.py", "--root", self.root, *words)

    def comment(self, text, path="src/base/x.cpp"):
        return self.check(path, f"{SPDX}\n{text}\nint x;\n", "--no-spelling")

    def test_phrases_in_comments_are_found_with_line_and_replacement(self):
        self.assert_finds(self.comment("// Waits for ever."), "src/base/x.cpp:3: “for ever”: write without limit")
        for phrase in ("All but for one.", "The queue is none.", "The device has not this verb.", "It is opened anew.",
                       "The peer gives way.", "A flag lets writes in.", "The peer hears of it.", "It knows of a peer.",
                       "It works no more.", "A wall between hosts.", "Ends the flight.", "An animal.", "The victim."):
            with self.subTest(phrase):
                self.assert_finds(self.comment(f"// {phrase}"), "src/base/x.cpp:3: ")

    def test_plain_english_is_accepted(self):
        self.assert_clean(self.comment(
            "// The work request is in flight. The device has not been opened. At most one, no more than that.\n"
            "// Returns nullopt if the queue does not have a channel. Lets the caller choose in order."))

    def test_phrase_over_two_lines_is_found_on_its_first_line(self):
        self.assert_finds(self.comment("// A\n// wait for\n// ever."), "src/base/x.cpp:4: “for ever”")

    def test_sentence_that_begins_with_who_or_what_is_found(self):
        self.assert_finds(self.comment("// What was posted."), "“What was posted.”: write name the subject")
        self.assert_finds(self.comment("// Posts. Who waits is woken."), "“Who waits is woken.”")
        self.assert_clean(self.comment("// What was posted? Nothing that the caller, who waits, needs."))

    def test_comment_that_begins_with_a_reference_is_found(self):
        self.assert_finds(self.comment("/// The same for reads."), "“The same”: write repeat the noun")
        self.assert_finds(self.comment("/// As above."), "“As above”")
        self.assert_clean(self.comment("// Both use the same key."))

    def test_nothing_for_an_empty_value_is_found_in_public_comments(self):
        self.assert_finds(self.comment("/// Returns the entry, or nothing."), "write nullopt")
        self.assert_clean(self.comment("// Do this or nothing works."))

    def test_identifiers_and_quoted_code_are_not_prose(self):
        self.assert_clean(self.check("src/base/x.cpp", f"{SPDX}int anew, flight; // see `anew` and `what_is()`\n",
                                     "--no-spelling"))
        self.assert_clean(self.check("docs/x.md", "Use `flight`.\n\n```sh\nflight anew\n```\n", "--no-spelling"))

    def test_string_literals_are_messages_except_in_tests(self):
        text = 'const char* a = "the device has not one";\n'
        self.assert_clean(self.check("tests/unit/base/x_test.cpp", SPDX + text, "--no-spelling"))
        self.assert_finds(self.check("src/base/x.cpp", SPDX + text, "--no-spelling"), "src/base/x.cpp:2: “has not")

    def test_scripts_and_cmake_are_read(self):
        self.assert_finds(self.check("scripts/x.py", '"""Waits anew."""\n', "--no-spelling"), "scripts/x.py:1:")
        self.assert_finds(self.check("scripts/y.sh", "# Waits anew.\n", "--no-spelling"), "scripts/y.sh:1:")
        self.assert_finds(self.check("cmake/z.cmake", 'message("anew")\n', "--no-spelling"), "cmake/z.cmake:1:")

    def test_headings_are_topics_except_in_a_faq(self):
        self.assert_finds(self.check("docs/x.md", "# How do I wait?\n", "--no-spelling"), "docs/x.md:1:")
        (self.root / "docs/x.md").unlink()
        self.assert_clean(self.check("docs/faq.md", "# How do I wait?\n", "--no-spelling"))

    def test_a_reason_allows_a_phrase(self):
        self.assert_clean(self.comment("// lint: allow(words): a quotation\n// Waits for ever."))
        self.assert_finds(self.comment("// lint: allow(words):\n// Waits for ever."), "for ever")

    def test_spelling_is_checked(self):
        self.assert_finds(self.check("docs/x.md", "The adress.\n"), "docs/x.md:1: “adress”: write address")
        self.assert_clean(self.check("docs/x.md", "The crate and its address.\n"))


if __name__ == "__main__":
    unittest.main()
