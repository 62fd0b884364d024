#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of `./dev vm`: the output and status of the machine, and that no process or file remains after its end."""
import hashlib
import os
import pathlib
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "vm"))
import kernels  # noqa: E402
import machine  # noqa: E402


def harness_of(root):
    """Returns the command of the harness in a checkout."""
    return ["/usr/bin/python3", str(root / "scripts" / "vm.py"), "--cpus", "1", "--devices", "none"]


VM = harness_of(ROOT)
TIMEOUT_S = 120.0
AWKWARD = ["two words", "", "quote'\"quote", "line\nbreak", "$HOME `id` \\n", "ümläut", "*"]
PRINT_EACH = 'for word; do printf "<%s>" "$word"; done'


def vm(*words, options=(), **more):
    """Runs `./dev vm` to its end."""
    return subprocess.run([*VM, *options, "--", *words], stdin=subprocess.DEVNULL, capture_output=True, check=False,
                          timeout=TIMEOUT_S, **more)


def start(*words, options=(), harness=VM, **more):
    return subprocess.Popen([*harness, *options, "--", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **more)


def child_of(process):
    """Waits until the harness has started QEMU. Returns its pidfd and its temporary folder."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"qemu-system-x86_64"):
                return os.pidfd_open(int(child)), pathlib.Path(words[words.index(b"-initrd") + 1].decode()).parent
    raise AssertionError("QEMU was not started")


class Status(unittest.TestCase):
    def test_folder_arguments_environment_writes_and_status_pass(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as kept:
            script = (f'pwd; printf "%s\\n" "$MARK"; {PRINT_EACH}; echo complaint >/dev/stderr; '
                      f"echo 1 >{kept}/file && echo 2 >{folder}/file && cat {kept}/file {folder}/file; "
                      "cat /dev/zero >/dev/null & setsid sleep 100000 & exit 7")
            done = vm("sh", "-c", script, "sh", *AWKWARD, options=("--writable", kept),
                      cwd=folder, env={**os.environ, "MARK": "a  'b"})
            self.assertEqual(done.returncode, 7, done.stderr)
            expected = f"{os.path.realpath(folder)}\na  'b\n" + "".join(f"<{word}>" for word in AWKWARD) + "1\n2\n"
            self.assertEqual(done.stdout.decode(), expected)
            self.assertEqual(done.stderr, b"complaint\n")
            self.assertEqual(pathlib.Path(kept, "file").read_text(), "1\n")
            self.assertEqual(os.listdir(folder), [])

    def test_fifty_million_bytes_and_a_death_by_signal_come_back(self):
        done = vm("sh", "-c", "yes 0123456789abcde | head -c 50000000; printf end >&2; kill -9 $$")
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertEqual(len(done.stdout), 50_000_000)
        self.assertEqual(hashlib.sha256(done.stdout).digest(), hashlib.sha256(b"0123456789abcde\n" * 3_125_000).digest())
        self.assertEqual(done.stderr, b"end")

    def test_without_a_command_it_refuses(self):
        done = subprocess.run(VM, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"the command is missing", done.stderr)


class Failure(unittest.TestCase):
    def test_the_time_is_over(self):
        begun = time.monotonic()
        done = vm("sleep", "100000", options=("--timeout", "12"))
        self.assertEqual((done.returncode, done.stdout), (124, b""), done.stderr)
        self.assertRegex(done.stderr, rb"no end after 12 s; the end of its console:\n  .*\n")
        self.assertGreaterEqual(time.monotonic() - begun, 12)

    def test_a_panic_is_125_with_the_consoles_end(self):
        with tempfile.NamedTemporaryFile() as console:
            done = vm("sh", "-c", "printf before; echo c >/proc/sysrq-trigger",
                      options=("--console", console.name))
            whole = pathlib.Path(console.name).read_bytes()
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn(b"Kernel panic", done.stderr)
        self.assertIn(b"Kernel panic", whole)

    def test_unreachable_archive_is_reported_with_status_125(self):
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as empty:
            pathlib.Path(empty, "apt-cache").write_text("#!/bin/sh\nexit 100\n")
            pathlib.Path(empty, "apt-get").write_text("#!/bin/sh\necho no network >&2\nexit 100\n")
            for name in ("apt-cache", "apt-get"):
                pathlib.Path(empty, name).chmod(0o755)
            done = vm("true", env={**os.environ, "VERBENA_VM_CACHE": cache, "PATH": f"{empty}:{os.environ['PATH']}"})
            self.assertEqual((done.returncode, done.stdout), (125, b""), done.stderr)
            self.assertIn(b"no network", done.stderr)
            self.assertEqual([name for name in os.listdir(cache) if name.startswith(".new")], [])


class End(unittest.TestCase):
    def check_no_process_or_file_remains(self, number, status):
        with start("sleep", "100000") as process:
            qemu, folder = child_of(process)
            process.send_signal(number)
            self.assertEqual(process.wait(TIMEOUT_S), status)
            self.assertTrue(select.select([qemu], [], [], TIMEOUT_S)[0], "QEMU still runs")
            os.close(qemu)
            if number == signal.SIGKILL:  # the signal may precede the read of the RAM disk
                shutil.rmtree(folder, ignore_errors=True)
            self.assertFalse(folder.exists())

    def test_interrupt_leaves_no_process_or_file(self):
        self.check_no_process_or_file_remains(signal.SIGINT, 130)

    def test_termination_leaves_no_process_or_file(self):
        self.check_no_process_or_file_remains(signal.SIGTERM, 143)

    def test_qemu_does_not_outlive_a_killed_harness(self):
        self.check_no_process_or_file_remains(signal.SIGKILL, -signal.SIGKILL)

    def test_closed_output_ends_the_machine(self):
        with start("yes") as process:
            qemu, folder = child_of(process)
            self.assertEqual(process.stdout.read(4), b"y\ny\n")
            process.stdout.close()
            self.assertEqual(process.wait(TIMEOUT_S), 128 + signal.SIGPIPE)
            self.assertTrue(select.select([qemu], [], [], TIMEOUT_S)[0], "QEMU still runs")
            os.close(qemu)
            self.assertFalse(folder.exists())

    def test_two_machines_at_once_one_without_a_program_one_of_an_ordinary_user(self):
        cache = kernels.cache_folder()
        kernels.prepare("6.1", siw=False)
        with tempfile.TemporaryDirectory() as shared:
            more = {}
            if os.geteuid() == 0:
                os.chmod(shared, 0o755)
                copy_for_others(cache, pathlib.Path(shared))
                nobody = pwd.getpwnam("nobody")
                more = {"harness": harness_of(pathlib.Path(shared)), "user": nobody.pw_uid,
                        "group": nobody.pw_gid, "extra_groups": [],
                        "env": {**os.environ, "VERBENA_VM_CACHE": shared}, "cwd": "/"}
            with start("/nonexistent/program") as one, start("sh", "-c", "echo two; id -u", **more) as two:
                for process, status, expected in ((one, 127, b""), (two, 0, b"two\n0\n")):
                    out, err = process.communicate(timeout=TIMEOUT_S)
                    self.assertEqual((process.returncode, out), (status, expected), err)


def copy_for_others(cache, shared):
    """Creates a world-readable folder with the harness and a cache with the kernel of `cache`."""
    for part in ("scripts", "tests/vm"):
        shutil.copytree(ROOT / part, shared / part, ignore=shutil.ignore_patterns("__pycache__"))
    kernel = (cache / "6.1.current").resolve()
    subprocess.run(["cp", "-r", "--reflink=auto", kernel, shared], check=True)
    (shared / "6.1.current").symlink_to(kernel.name)


class Mark(unittest.TestCase):
    """The end mark in the output: for every division into pieces, no byte is lost or added."""

    def feed(self, pieces):
        reader, writer = os.pipe()
        stream = machine.Stream(writer, "token")
        for piece in pieces:
            stream.feed(piece)
        if stream.status is None:
            stream.flush()
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            return file.read(), stream.status

    def test_the_mark_is_found_in_pieces(self):
        whole = b"some\0 text\0tok\0token 7\n"
        for first in range(len(whole) + 1):
            for second in range(first, len(whole) + 1):
                pieces = (whole[:first], whole[first:second], whole[second:])
                self.assertEqual(self.feed(pieces), (b"some\0 text\0tok", 7), pieces)

    def test_an_unfinished_mark_is_output(self):
        self.assertEqual(self.feed([b"text\0tok"]), (b"text\0tok", None))


if __name__ == "__main__":
    unittest.main()
