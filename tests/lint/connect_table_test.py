# SPDX-License-Identifier: MIT
"""scripts/connect_table.py rejects a table that differs from the tests."""
import unittest

from lint_case import LintCase

TABLE = "tests/unit/bringup/decisions.inc"
PAGE = "docs/guide/connect.md"
ROWS = '''GROUP("One")
ROW(a, "it | is",
    "some " "words")
'''
MARKS = "<!-- made by scripts/connect_table.py --fix -->\n<!-- end of the table -->\n"


class ConnectTable(LintCase):
    def setUp(self):
        super().setUp()
        self.write(TABLE, ROWS)
        self.write(PAGE, "# Page\n" + MARKS + "More.\n")
        self.assert_clean(self.run_script("connect_table.py", "--root", self.root, "--fix"))

    def test_table_is_made_from_the_rows(self):
        page = (self.root / PAGE).read_text()
        self.assertTrue(page.startswith("# Page\n"))
        self.assertTrue(page.endswith("More.\n"))
        self.assertIn("### One", page)
        self.assertIn("| it \\| is | some words |\n", page)
        self.assert_clean(self.run_script("connect_table.py", "--root", self.root))

    def test_table_that_differs(self):
        page = self.root / PAGE
        page.write_text(page.read_text().replace("some words", "other words"))
        self.assert_finds(self.run_script("connect_table.py", "--root", self.root), "differs from")

    def test_page_without_markers(self):
        self.write(PAGE, "# Page\n")
        self.assert_finds(self.run_script("connect_table.py", "--root", self.root), "exactly one place")

    def test_row_that_cannot_be_read(self):
        self.write(TABLE, ROWS + 'ROW(c, "x")\n')
        self.assert_finds(self.run_script("connect_table.py", "--root", self.root), "a row needs 3 values")


if __name__ == "__main__":
    unittest.main()
