# SPDX-License-Identifier: MIT
"""scripts/errors_catalogue.py rejects a page that differs from the table of the tests."""
import unittest

from lint_case import LintCase

TABLE = "tests/unit/verbs/misconfigurations/catalogue.inc"
PAGE = "docs/guide/errors-catalogue.md"
ROWS = '''GROUP("One")
ROW(a, real, "it | is", "ibv_x", EINVAL, "soft0",
    "some " "words")
ROW(b, injected, "that", "poll", IBV_WC_X, "", "other words")
'''


class Catalogue(LintCase):
    def setUp(self):
        super().setUp()
        self.write(TABLE, ROWS)
        self.write(PAGE, "")
        self.assert_clean(self.run_script("errors_catalogue.py", "--root", self.root, "--fix"))

    def test_page_is_made_from_the_table(self):
        page = (self.root / PAGE).read_text()
        self.assertIn("| it \\| is | `ibv_x` | EINVAL | some words | real |\n", page)
        self.assertIn("| that | `poll` | X | other words | injected |\n", page)
        self.assertIn("1 rows are real, 1 are injected", page)
        self.assert_clean(self.run_script("errors_catalogue.py", "--root", self.root))

    def test_page_that_differs(self):
        (self.root / PAGE).write_text((self.root / PAGE).read_text() + "more\n")
        self.assert_finds(self.run_script("errors_catalogue.py", "--root", self.root), "differs from")

    def test_row_that_cannot_be_read(self):
        self.write(TABLE, ROWS + 'ROW(c, real, f(1), "x")\n')
        self.assert_finds(self.run_script("errors_catalogue.py", "--root", self.root), "cannot read")


if __name__ == "__main__":
    unittest.main()
