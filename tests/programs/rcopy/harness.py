# SPDX-License-Identifier: MIT
"""Shared code of the tests of rcopy: a server in its own process, files from a seed, and a client that sends any bytes."""
import contextlib
import os
import pathlib
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import unittest

RCOPY = os.environ["RCOPY"]
BOUND = 60  # seconds; a wait of this length is a failure
MIB = 1 << 20


def content(size, seed):
    """Returns `size` random bytes, the same for each call with this seed."""
    return random.Random(f"{seed}/{size}").randbytes(size)


def rcopy(*words, before=(), **options):
    """Runs a client until it exits. `before` is a command that executes its arguments, for example `unshare`."""
    return subprocess.run([*before, RCOPY, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=BOUND, check=False, **options)


PROGRESS = re.compile(r"^\S+ +\d{1,3}% .*/s(, .* left)?\n", re.MULTILINE)


def errors_of(stderr):
    """Returns what a client wrote to stderr, without the progress lines that a slow copy prints at intervals."""
    return PROGRESS.sub("", stderr.decode(errors="replace"))


def leftovers():
    """Returns the names of the shared memory objects of soft0 on this machine."""
    return {name for name in os.listdir("/dev/shm") if "verbena" in name or "soft" in name}


class Server:
    """`rcopy serve` of a directory, on a free port."""

    def __init__(self, folder, *words, before=(), **options):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*before, RCOPY, "serve", str(folder), "--port", "0", *map(str, words)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, **options)
        line = self.process.stdout.readline().decode()
        found = re.search(r":(\d+) \(", line)
        if not found:
            self.process.wait(BOUND)
            raise AssertionError(f"the server did not start: {line}{self.errors()}")
        self.port = int(found.group(1))

    @property
    def place(self):
        return f"127.0.0.1:{self.port}"

    def errors(self):
        self.log.seek(0)
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def limit_file_size(self, size):
        """Limits the size of the files that the server writes."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, size))

    def stop(self):
        """Sends SIGTERM and returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def kill(self):
        self.process.kill()
        return self.end()

    def end(self):
        status = self.process.wait(BOUND)
        self.process.stdout.close()
        return status


class Case(unittest.TestCase):
    """A test with a working directory, a directory for a server, and functions that start servers."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="rcopy-test-")
        self.addCleanup(temporary.cleanup)
        self.work = pathlib.Path(temporary.name)
        self.served = self.work / "served"
        self.served.mkdir()

    def serve(self, *words, **options):
        server = Server(self.served, *words, **options)
        self.addCleanup(server.log.close)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server

    def file(self, name, size, seed=0):
        path = self.work / name
        path.write_bytes(content(size, seed))
        return path

    def names(self):
        """Returns all names in the served directory, including temporary files."""
        return sorted(os.listdir(self.served))

    def assert_done(self, finished):
        self.assertEqual(finished.returncode, 0, finished.stderr.decode(errors="replace"))
        self.assertEqual(errors_of(finished.stderr), "")

    def assert_refused(self, finished, words, status=1):
        """Asserts that the client failed with one line of error that contains `words`."""
        text = errors_of(finished.stderr)
        self.assertEqual(finished.returncode, status, text)
        self.assertEqual(text.count("\n"), 1, text)
        self.assertTrue(text.startswith("rcopy: "), text)
        self.assertIn(words, text)

    def assert_serves(self, server):
        """Asserts that the server still serves a valid client."""
        path = self.file("after.bin", 100_000, seed="after")
        self.assert_done(rcopy("put", path, server.place))
        self.assertEqual((self.served / "after.bin").read_bytes(), path.read_bytes())
        (self.served / "after.bin").unlink()


SERVER_GREETING = struct.pack(">IHH", 0x56425550, 1, 3)
# The previous version of the bring-up protocol; the frames of these tests are equal in both versions.
GREETING = struct.pack(">IHH", 0x56425550, 1, 2)
OLD_GREETING = struct.pack(">IHH", 0x56425550, 1, 1)
BLOB, ENDPOINT, READY, REFUSAL, OFFER = 1, 2, 3, 4, 5
PUT, GET = 1, 2
RDMA, TCP, CM = 1, 2, 3


def frame(kind, payload=b""):
    return struct.pack(">BBHI", kind, 0, 0, len(payload)) + payload


def request(what=PUT, over=TCP, size=10, name=b"raw.bin", chunk=65536, window=4, version=3):
    return struct.pack(">IHBBIHQ", 0x72637071, version, what, over, chunk, window, size) + name


def summary(size, checksum):
    return struct.pack(">IHQ", 0x72637073, 3, size) + checksum + bytes(32)  # the shares of time


class RawClient:
    """A client that sends any bytes."""

    def __init__(self, server, greeting=GREETING):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=BOUND)
        self.socket.sendall(greeting)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *pieces):
        self.socket.sendall(b"".join(pieces))

    def receive(self, count):
        received = b""
        while len(received) < count:
            piece = self.socket.recv(count - len(received))
            if not piece:
                raise EOFError(received)
            received += piece
        return received

    def receive_frame(self):
        kind, _, _, length = struct.unpack(">BBHI", self.receive(8))
        return kind, self.receive(length)

    def receive_rest(self):
        """Returns the bytes that arrive until the other side closes."""
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := self.socket.recv(4096):
                received += piece
        return received

    def greeted(self):
        if self.receive(8) != SERVER_GREETING:
            raise AssertionError("the server sent no greeting")
        return self


def limit_file_size(size):
    """Returns a preexec_fn that limits the size of written files."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
