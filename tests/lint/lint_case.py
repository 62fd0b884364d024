# SPDX-License-Identifier: MIT
"""A temporary tree that contains only the files that a test of a lint script writes."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
SPDX = "// SPDX-License-Identifier: MIT\n"


class LintCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="verbena_lint_")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def copy(self, *paths):
        for path in paths:
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / path).is_dir():
                shutil.copytree(ROOT / path, target, dirs_exist_ok=True)
            else:
                shutil.copy(ROOT / path, target)

    def run_command(self, *words, cwd=None):
        return subprocess.run(list(map(str, words)), cwd=cwd or self.root, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False)

    def run_script(self, name, *words):
        return self.run_command(sys.executable, ROOT / "scripts" / name, *words)

    def assert_clean(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def assert_finds(self, done, text):
        self.assertNotEqual(done.returncode, 0, "nothing was found")
        self.assertIn(text, done.stdout + done.stderr)
