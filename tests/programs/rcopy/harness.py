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
BOUND = 60  # seconds; nothing waits that long unless it fails
MIB = 1 << 20


def content(size, seed):
    """`size` bytes that nothing else has."""
    return random.Random(f"{seed}/{size}").randbytes(size)


def rcopy(*words, before=(), **options):
    """Runs a client to its end; `before` is a command that runs commands."""
    return subprocess.run([*before, RCOPY, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=BOUND, check=False, **options)


def leftovers():
    """Returns the objects that processes could leave on this machine."""
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
        """From now on, no file of its may grow beyond `size`."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, size))

    def stop(self):
        """Ends it as a user does; returns its status."""
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
    """A test with a directory to serve, a directory to work in, and a server on demand."""

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
        """All names in the served directory, temporary ones included."""
        return sorted(os.listdir(self.served))

    def assert_done(self, finished):
        self.assertEqual(finished.returncode, 0, finished.stderr.decode(errors="replace"))
        self.assertEqual(finished.stderr, b"")

    def assert_refused(self, finished, words, status=1):
        """It failed with one line, which has `words`."""
        text = finished.stderr.decode(errors="replace")
        self.assertEqual(finished.returncode, status, text)
        self.assertEqual(text.count("\n"), 1, text)
        self.assertTrue(text.startswith("rcopy: "), text)
        self.assertIn(words, text)

    def assert_serves(self, server):
        """A proper client is served, whatever happened before."""
        path = self.file("after.bin", 100_000, seed="after")
        self.assert_done(rcopy("put", path, server.place))
        self.assertEqual((self.served / "after.bin").read_bytes(), path.read_bytes())
        (self.served / "after.bin").unlink()


SERVER_GREETING = struct.pack(">IHH", 0x56425550, 1, 3)
# A version before the server's, whose frames are the same for what is said here.
GREETING = struct.pack(">IHH", 0x56425550, 1, 2)
OLD_GREETING = struct.pack(">IHH", 0x56425550, 1, 1)
BLOB, ENDPOINT, READY, REFUSAL, OFFER = 1, 2, 3, 4, 5
PUT, GET = 1, 2
RDMA, TCP, CM = 1, 2, 3


def frame(kind, payload=b""):
    return struct.pack(">BBHI", kind, 0, 0, len(payload)) + payload


def request(what=PUT, over=TCP, size=10, name=b"raw.bin", chunk=65536, window=4, version=2):
    return struct.pack(">IHBBIHQ", 0x72637071, version, what, over, chunk, window, size) + name


def summary(size, checksum):
    return struct.pack(">IHQ", 0x72637073, 2, size) + checksum


class RawClient:
    """A client that says what it likes."""

    def __init__(self, server, greeting=GREETING):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=BOUND)
        self.socket.sendall(greeting)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def say(self, *pieces):
        self.socket.sendall(b"".join(pieces))

    def hear(self, count):
        heard = b""
        while len(heard) < count:
            piece = self.socket.recv(count - len(heard))
            if not piece:
                raise EOFError(heard)
            heard += piece
        return heard

    def hear_frame(self):
        kind, _, _, length = struct.unpack(">BBHI", self.hear(8))
        return kind, self.hear(length)

    def hear_end(self):
        """Returns the bytes that arrive until the other side closes."""
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := self.socket.recv(4096):
                heard += piece
        return heard

    def greeted(self):
        if self.hear(8) != SERVER_GREETING:
            raise AssertionError("the server did not greet")
        return self


def limit_file_size(size):
    """For preexec_fn: no file may grow beyond `size`."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
