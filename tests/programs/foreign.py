# SPDX-License-Identifier: MIT
"""Shared code of the tests of third-party programs: how a program reaches the software device (the preload
library or the drop-in libibverbs.so.1), which user runs the program, and pairs of a server and a client.

A test is called with --libraries FOLDER --way preload|drop-in --user root|other [--full]. `other` is a user without
privileges and with the usual small limit of locked memory: `nobody` if root runs the tests, otherwise the current user.
If another user runs the tests with `--user root`, the exit status is 77, which CTest shows as skipped.
"""
import argparse
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BOUND = 180  # seconds; only a program that hangs takes longer
NOT_RUN = 77
NOBODY = 65534
LOCKED_MEMORY = 64 * 1024
COMBINATIONS = [(way, user) for way in ("preload", "drop-in") for user in ("root", "other")]


class Setting:
    """How programs are run; set by `main`."""
    libraries = pathlib.Path()
    way = ""
    user = ""
    full = False
    variables = {}  # additional environment variables
    preload = []  # additional preloaded libraries

    @classmethod
    def number(cls):
        """Returns the number of the combination of way and user, 0 to 3."""
        return COMBINATIONS.index((cls.way, cls.user))

    @classmethod
    def runs(cls, index):
        """Selects the cases of a list for this combination: every fourth case, so that the four combinations together
        run all cases; with --full all cases."""
        return cls.full or index % len(COMBINATIONS) == cls.number()

    @classmethod
    def environment(cls):
        words = [f"{name}={value}" for name, value in cls.variables.items()]
        preload = list(map(str, cls.preload))
        if cls.way == "preload":
            preload.append(f"{cls.libraries}/libverbena-preload.so")
        else:
            words.append(f"LD_LIBRARY_PATH={cls.libraries}/dropin")
        return words + ([f"LD_PRELOAD={':'.join(preload)}"] if preload else [])

    @classmethod
    @contextlib.contextmanager
    def also(cls, preload=(), **variables):
        """Adds libraries and variables for programs that are started inside the `with` statement."""
        cls.variables, cls.preload = variables, list(preload)
        try:
            yield
        finally:
            cls.variables, cls.preload = {}, []


def command(*words):
    """Returns the command line that runs `words` with the way and user under test."""
    prefix = []
    if Setting.user == "other":
        if os.geteuid() == 0:
            prefix += ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        prefix += ["prlimit", f"--memlock={LOCKED_MEMORY}:{LOCKED_MEMORY}"]
    return [*prefix, "env", "VERBENA_SOFTDEV=only", *Setting.environment(), *map(str, words)]


def uid():
    return NOBODY if Setting.user == "other" and os.geteuid() == 0 else os.geteuid()


@contextlib.contextmanager
def reserved_port():
    """Yields a TCP port that bind() to port 0 does not return; a server with SO_REUSEADDR can listen on it."""
    with socket.socket() as holder:
        holder.bind(("", 0))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield holder.getsockname()[1]


def listens(port):
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError):
            for line in pathlib.Path(table).read_text().splitlines()[1:]:
                _, local, _, state = line.split()[:4]
                if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False


def wait_until(condition, what, bound=BOUND):
    """Polls until the condition is true, because no blocking wait is available."""
    end = time.monotonic() + bound
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not after {bound} s")
        time.sleep(0.005)


class Finished:
    """The result of a program: exit status, output, and the command to run it by hand."""

    def __init__(self, words, status, output):
        self.words, self.status, self.output = words, status, output

    def __str__(self):
        return f"$ {' '.join(self.words)}\n{self.output}exit status {self.status}\n"


def run(*words, **options):
    """Runs one program and waits for its exit."""
    words = command(*words)
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=BOUND, check=False, **options)
    return Finished(words, done.returncode, done.stdout.decode(errors="replace"))


class Server:
    """A program that waits for its client on a port."""

    def __init__(self, *words):
        self.words = command(*words)
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(BOUND)
        self.log.close()

    def wait_for_port(self, port, is_open=listens):
        """Waits until `is_open(port)`: by default, until a process listens on that TCP port."""
        wait_until(lambda: is_open(port) or self.process.poll() is not None, "the server listens")
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended before its client came\n{self.end()}")

    def end(self):
        """Waits until the program exits."""
        status = self.process.wait(BOUND)
        self.log.seek(0)
        return Finished(self.words, status, self.log.read().decode(errors="replace"))


def both_ends(server, *client_words):
    """Runs the client of a server that listens. Returns (server, client) after both have exited."""
    try:
        client = run(*client_words)
    except subprocess.TimeoutExpired as late:
        server.process.kill()
        raise AssertionError(f"the client hangs: {late}\n{server.end()}") from late
    if client.status != 0:
        server.process.kill()  # it waits for a process that has exited
    return server.end(), client


def pair(port, *words):
    """Runs a server and, once it listens, a client with equal arguments followed by the server's address."""
    with Server(*words) as server:
        server.wait_for_port(port)
        return both_ends(server, *words, "127.0.0.1")


class Case(unittest.TestCase):
    def assert_succeeded(self, *finished):
        for one in finished:
            self.assertEqual(one.status, 0, "\n".join(map(str, finished)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--libraries", required=True, type=pathlib.Path)
    parser.add_argument("--way", required=True, choices=("preload", "drop-in"))
    parser.add_argument("--user", required=True, choices=("root", "other"))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("rest", nargs="*")
    options = parser.parse_args()
    if options.user == "root" and os.geteuid() != 0:
        print("NOT RUN: these tests need root")
        sys.exit(NOT_RUN)
    with tempfile.TemporaryDirectory(prefix="verbena-programs-") as folder:
        # A copy, because the other user may lack access to the build folder.
        Setting.libraries = pathlib.Path(folder) / "lib"
        shutil.copytree(options.libraries, Setting.libraries, symlinks=True,
                        ignore=shutil.ignore_patterns("*.a", "*.map"))
        os.chmod(folder, 0o755)
        os.chmod(Setting.libraries, 0o755)
        Setting.way, Setting.user, Setting.full = options.way, options.user, options.full
        unittest.main(module="__main__", argv=[sys.argv[0], *options.rest], verbosity=2)
