# SPDX-License-Identifier: MIT
"""Shared code of the tests of the program `verbena`."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

VERBENA = os.environ["VERBENA"]
CC = os.environ["CC"]
BOUND = 60  # seconds; only a failing test waits that long
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent


def environment(**changes):
    """Returns the current environment with changes; None removes a variable."""
    merged = {**os.environ, **{key: value for key, value in changes.items() if value is not None}}
    return {key: value for key, value in merged.items() if key not in changes or changes[key] is not None}


def verbena(*words, env=None, tool=VERBENA, **options):
    """Runs the tool and waits for its exit."""
    return subprocess.run([str(tool), *map(str, words)], **{
        "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": BOUND,
        "check": False, "env": environment(**(env or {})), **options})


def text(stream):
    return stream.decode(errors="replace")


class Case(unittest.TestCase):
    """A test with a temporary folder."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="verbena-test-")
        self.addCleanup(temporary.cleanup)
        self.work = pathlib.Path(temporary.name)
        self.work.chmod(0o755)

    def script(self, name, content, mode=0o755):
        path = self.work / name
        path.write_text(content)
        path.chmod(mode)
        return path

    def compile(self, name, source, *flags):
        """Compiles a C program for this machine and returns its path."""
        path = self.work / name
        path.with_suffix(".c").write_text(source)
        subprocess.run([CC, "-o", str(path), str(path.with_suffix(".c")), *flags], check=True, timeout=BOUND)
        return path

    def copy_of(self, program):
        path = self.work / pathlib.Path(program).name
        shutil.copyfile(program, path)
        path.chmod(0o755)
        return path

    def assert_ended(self, finished, status=0):
        self.assertEqual(finished.returncode, status, text(finished.stderr))

    def assert_refused(self, finished, status, words, command="verbena run"):
        """Checks that the run failed with this status and printed one line that contains `words`."""
        said = text(finished.stderr)
        self.assertEqual(finished.returncode, status, said)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertTrue(said.startswith(f"{command}: "), said)
        self.assertIn(words, said)
        self.assertEqual(text(finished.stdout), "")

    def assert_killed_by(self, finished, which=signal.SIGKILL):
        self.assertEqual(finished.returncode, -which, text(finished.stderr))

    def assert_narrow(self, printed):
        """Checks that the text fits in 80 columns."""
        for line in printed.splitlines():
            self.assertLessEqual(len(line), 80, line)
