# SPDX-License-Identifier: MIT
"""Shared code of the tests of the program `verbena`."""
import fcntl
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import tempfile
import termios
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


# Ends with status 0 if SIGINT arrived once before SIGTERM. Writes its process id when it is ready, and a line after SIGINT.
COUNT_INTERRUPTS = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
os.write(1, b'%d\\n' % os.getpid())
signal.sigwait([signal.SIGINT])
os.write(1, b'interrupted\\n')
signal.sigwait([signal.SIGTERM])
sys.exit(2 if signal.SIGINT in signal.sigpending() else 0)
"""


def text(stream):
    return stream.decode(errors="replace")


class Case(unittest.TestCase):
    """A test with a temporary folder."""

    def start_on_terminal(self, *words):
        """Starts the tool in the foreground of a new terminal. Returns its process and the other side of the terminal."""
        keyboard, terminal = map(lambda fd: os.fdopen(fd, "r+b", buffering=0), pty.openpty())
        self.addCleanup(keyboard.close)
        with terminal:
            started = subprocess.Popen([VERBENA, *map(str, words)], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        for each in (started.stdout.close, started.stderr.close, started.wait, started.kill):
            self.addCleanup(each)
        return started, keyboard

    def interrupt(self, started, keyboard, ranks=1):
        """Types Ctrl-C. The tool sees the signal after the programs, so that signals of both cannot be merged."""
        os.kill(started.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, started.pid, os.WSTOPPED)
        keyboard.write(b"\x03")
        self.assert_interrupted(started, ranks)
        os.kill(started.pid, signal.SIGCONT)

    def assert_ready(self, started, ranks=1):
        """Waits until the programs, which are COUNT_INTERRUPTS, are ready."""
        for _ in range(ranks):
            self.assertRegex(started.stdout.readline(), rb"^\d+\n$")

    def assert_interrupted(self, started, ranks=1):
        for _ in range(ranks):
            self.assertEqual(started.stdout.readline(), b"interrupted\n")

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
