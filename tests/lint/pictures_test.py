# SPDX-License-Identifier: MIT
"""docs/pictures/overview.py --check finds a picture that its script does not draw."""
import sys
import unittest

from lint_case import LintCase


class Pictures(LintCase):
    def setUp(self):
        super().setUp()
        self.copy("docs/pictures")
        self.picture = self.root / "docs/pictures/overview.svg"

    def check(self):
        return self.run_command(sys.executable, self.root / "docs/pictures/overview.py", "--check")

    def test_drawn_picture_passes(self):
        self.assert_clean(self.check())

    def test_edited_picture_is_found(self):
        self.picture.write_text(self.picture.read_text().replace("soft0", "soft1", 1))
        self.assert_finds(self.check(), "overview.svg is not what overview.py draws")

    def test_missing_picture_is_found(self):
        self.picture.unlink()
        self.assert_finds(self.check(), "overview.svg is not what overview.py draws")


if __name__ == "__main__":
    unittest.main()
