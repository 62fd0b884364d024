# SPDX-License-Identifier: MIT
"""If a client or server is killed at any time, the file is old or complete, the peer exits and no object remains."""
import itertools
import os
import random
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import BOUND, MIB, RCOPY, Case, leftovers, rcopy  # noqa: E402

ROUNDS = int(os.environ.get("RCOPY_KILLS", "12"))
SEED = int(os.environ.get("RCOPY_SEED", "20240229"))
OLD = b"old content"


TRANSPORTS = ("rdma", "cm")  # alternate: a killed process leaves different objects with each


class Kills(Case):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.before = leftovers()
        self.addCleanup(lambda: self.assertEqual(leftovers() - self.before, set()))
        self.size = 24 * MIB
        self.new = self.file("new.bin", self.size)
        self.usual = None  # seconds of a complete copy on this machine
        self.transports = itertools.cycle(TRANSPORTS)

    def client(self, *words):
        words = (*words, "--over", next(self.transports))
        return subprocess.Popen([RCOPY, *map(str, words), "--quiet"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def moment(self, server):
        """Returns a random delay of at most 1.2 times the duration of a copy."""
        if self.usual is None:
            started = time.monotonic()
            self.assert_done(rcopy("put", self.new, server.place, "--name", "usual"))
            self.usual = time.monotonic() - started
            (self.served / "usual").unlink()
        return self.random.uniform(0, 1.2 * self.usual)

    def wait_for_moment(self, process, seconds):
        """Waits for `seconds` or until the process exits, so that the signal arrives at a random point of the copy."""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    def assert_old_or_new(self, path):
        self.assertIn(path.read_bytes() if path.exists() else None, (None, OLD, self.new.read_bytes()))
        return path.exists() and path.stat().st_size == self.size

    def test_killed_put_leaves_old_or_complete_file(self):
        server = self.serve()
        target = self.served / "target"
        complete = 0
        for _ in range(ROUNDS):
            if self.random.random() < 0.5:
                target.write_bytes(OLD)
            delay = self.moment(server)
            client = self.client("put", self.new, server.place, "--name", "target")
            self.wait_for_moment(client, delay)
            client.kill()
            client.wait(BOUND)
            client.stderr.close()
            complete += self.assert_old_or_new(target)
            target.unlink(missing_ok=True)
        self.assert_serves(server)
        self.assertEqual(server.stop(), 0)
        self.assertLess(complete, ROUNDS, "each copy ended before its kill: the file is too small for this machine")
        self.assertEqual([name for name in self.names() if name != "target"], [])

    def test_killed_get_leaves_old_or_complete_file(self):
        server = self.serve()
        (self.served / "new.bin").write_bytes(self.new.read_bytes())
        target = self.work / "got.bin"
        for _ in range(ROUNDS):
            target.write_bytes(OLD)
            delay = self.moment(server)
            client = self.client("get", "new.bin", server.place, "-o", target)
            self.wait_for_moment(client, delay)
            client.kill()
            client.wait(BOUND)
            client.stderr.close()
            self.assert_old_or_new(target)
        self.assert_serves(server)
        # The next copy to that path removes the file that a kill between completion and renaming leaves.
        self.assert_done(rcopy("get", "new.bin", server.place, "-o", target))
        self.assertEqual([name for name in os.listdir(self.work) if name.startswith(".rcopy-")], [])

    def test_server_killed_during_put_leaves_old_or_complete_file(self):
        target = self.served / "target"
        for _ in range(ROUNDS):
            target.write_bytes(OLD)
            server = self.serve()
            delay = self.moment(server)
            client = self.client("put", self.new, server.place, "--name", "target")
            self.wait_for_moment(client, delay)
            server.kill()
            status = client.wait(BOUND)
            words = client.stderr.read().decode()
            client.stderr.close()
            complete = self.assert_old_or_new(target)
            if status == 0:
                self.assertTrue(complete)
            else:
                self.assertEqual(words.count("\n"), 1, words)
        server = self.serve()  # removes the temporary file of a killed server
        self.assertEqual(self.names(), ["target"])
        self.assert_serves(server)

    def test_server_killed_during_get_ends_the_client(self):
        target = self.work / "got.bin"
        (self.served / "new.bin").write_bytes(self.new.read_bytes())
        for _ in range(ROUNDS):
            target.write_bytes(OLD)
            server = self.serve()
            delay = self.moment(server)
            client = self.client("get", "new.bin", server.place, "-o", target)
            self.wait_for_moment(client, delay)
            server.kill()
            status = client.wait(BOUND)
            client.stderr.close()
            complete = self.assert_old_or_new(target)
            self.assertEqual(status == 0, complete)
            self.assertEqual([name for name in os.listdir(self.work) if name.startswith(".rcopy-")], [])

    def test_interrupted_put_leaves_old_or_complete_file(self):
        server = self.serve()
        interrupted = 0
        for kind in (signal.SIGINT, signal.SIGTERM) * 4:
            target = self.served / "target"
            target.write_bytes(OLD)
            delay = self.moment(server)
            client = self.client("put", self.new, server.place, "--name", "target")
            self.wait_for_moment(client, delay)
            client.send_signal(kind)
            status = client.wait(BOUND)
            words = client.stderr.read().decode()
            client.stderr.close()
            self.assert_old_or_new(target)
            self.assertIn(status, (0, 1, -kind), words)
            interrupted += status != 0
        self.assertGreater(interrupted, 0)
        self.assertEqual([name for name in self.names() if name != "target"], [])
        self.assert_serves(server)

    def test_interrupted_server_ends_its_clients(self):
        for _ in range(4):
            server = self.serve()
            delay = self.moment(server)
            client = self.client("put", self.new, server.place, "--name", "target")
            self.wait_for_moment(client, delay)
            self.assertEqual(server.stop(), 0)
            client.wait(BOUND)
            client.stderr.close()
            self.assert_old_or_new(self.served / "target")
            self.assertEqual([name for name in self.names() if name != "target"], [])


if __name__ == "__main__":
    unittest.main()
