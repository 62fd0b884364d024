#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what the forwarders answer for files of soft0 and for all other files, and that no file remains.

  files_test.py PROGRAM NAME=VALUE

NAME=VALUE makes the loader use the forwarder.
"""
import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

BOUND = 120  # seconds; only a failing test waits that long
LEFT = "verbena-files-"


class Files(unittest.TestCase):
    program = ""
    forwarder = {}

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="verbena-test-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()

    def run_program(self, *words, forwarder=True, **variables):
        changes = {"TMPDIR": str(self.temporary), **(self.forwarder if forwarder else {}), **variables}
        return subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, timeout=BOUND,
                              cwd=self.folder, check=False, env={**os.environ, **changes})

    def assert_good(self, done):
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "0 failures\n", ""))

    def left(self):
        return [entry.name for entry in self.temporary.iterdir()]

    def check(self, mode, **variables):
        self.assert_good(self.run_program(mode, **variables))
        self.assertEqual(self.left(), [])

    def test_files_of_soft0_are_those_of_a_kernel(self):
        self.check("--soft")

    def test_files_are_absent_without_a_forwarder(self):
        self.assert_good(self.run_program("--absent", forwarder=False))

    def test_files_are_absent_when_off(self):
        self.check("--absent", VERBENA_SOFTDEV_SYSFS="off")
        self.check("--absent", VERBENA_SOFTDEV="off")

    def test_threads_look_at_the_same_time(self):
        self.check("--threads")

    def test_children_have_their_own_folder(self):
        self.check("--fork")

    def test_signal_handler_opens_files(self):
        self.check("--signal")

    def test_child_of_vfork_opens_files(self):
        self.check("--vfork")

    def test_closed_and_reused_descriptors_harm_no_file(self):
        self.assert_good(self.run_program("--closed"))
        self.assertTrue((self.folder / "kept" / "file").is_file())
        self.check("--threads")  # removes what the other process could not

    def test_thread_is_canceled_while_it_looks(self):
        self.check("--cancel")

    def test_other_files_are_unchanged(self):
        (self.folder / "file").write_text("content\n")
        (self.folder / "secret").write_text("content\n")
        (self.folder / "secret").chmod(0)
        (self.folder / "link").symlink_to("file")
        (self.folder / "loop").symlink_to("loop")
        (self.folder / "folder").mkdir()
        (self.folder / "folder" / "inner").write_text("")
        paths = ["file", "secret", "link", "loop", "folder", "folder/inner", "", ".", "file/x", "folder/../file", "not-there",
                 self.folder / "link", "/sys/class", "/sys/classes", "/sys/class/infinibands", "/sys/class/net",
                 "/sys/class/infiniband_mad", "/sys/class/infiniband/../net/lo/ifindex", "/dev/null", "/dev/infinibands",
                 "/dev", "//sys/class/net", "x" * 300, "/" + "x" * 5000]
        expected = self.run_program("--other", *paths, forwarder=False)
        found = self.run_program("--other", *paths)
        self.assertGreater(len(expected.stdout.splitlines()), 30 * len(paths) - 60)
        self.assertEqual(found.stdout.splitlines(), expected.stdout.splitlines())
        self.assertEqual((found.returncode, found.stderr), (expected.returncode, expected.stderr))

    def test_folders_of_killed_processes_are_removed(self):
        abandoned = self.temporary / (LEFT + "abandoned")
        (abandoned / "sys" / "class").mkdir(parents=True)
        (abandoned / "sys" / "class" / "file").write_text("x")
        other = self.temporary / "other"
        other.mkdir()
        held = self.temporary / (LEFT + "held")
        held.mkdir()
        lock = os.open(held, os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.assert_good(self.run_program("--threads"))
        self.assertEqual(sorted(self.left()), ["other", held.name])

    def test_killed_process_leaves_a_folder_that_the_next_one_removes(self):
        script = "cd /sys/class/infiniband/soft0; echo; kill -KILL $$"
        done = subprocess.run(["sh", "-c", script], env={**os.environ, "TMPDIR": str(self.temporary), **self.preloaded()},
                              capture_output=True, timeout=BOUND, check=False)
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        self.assertEqual(len(self.left()), 1)
        self.check("--threads")

    def preloaded(self):
        """Returns the variables for a program that links no libibverbs."""
        name, value = next(iter(self.forwarder.items()))
        return {"LD_PRELOAD": value if name == "LD_PRELOAD" else f"{value}/libibverbs.so.1"}

    def test_no_folder_for_temporary_files_is_reported_once(self):
        missing = self.folder / "missing"
        done = self.run_program("--absent", TMPDIR=str(missing))
        self.assertEqual((done.returncode, done.stdout), (0, "0 failures\n"))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("the files of soft0 in /sys/class/infiniband are not shown", done.stderr)
        self.assertIn("ENOENT", done.stderr)

    def test_files_follow_the_port(self):
        """The port goes down when the device is opened."""
        done = subprocess.run(["cat", "/sys/class/infiniband/soft0/ports/1/state"], capture_output=True, text=True,
                              timeout=BOUND, check=False,
                              env={**os.environ, **self.preloaded(), "VERBENA_SOFTDEV_INJECT": "port 1 down"})
        self.assertEqual((done.stdout, done.stderr), ("1: DOWN\n", ""))


if __name__ == "__main__":
    Files.program = str(pathlib.Path(sys.argv[1]).resolve())
    Files.forwarder = dict([sys.argv[2].split("=", 1)])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
