# SPDX-License-Identifier: MIT
"""Whoever is killed, whenever: the file is what it was or complete, the other side ends, nothing is left."""
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
OLD = b"what was there before"


WAYS = ("rdma", "cm")  # in turns: each leaves something else behind


class Kills(Case):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.before = leftovers()
        self.addCleanup(lambda: self.assertEqual(leftovers() - self.before, set()))
        self.size = 24 * MIB
        self.new = self.file("new.bin", self.size)
        self.usual = None  # seconds that a whole copy takes here
        self.ways = itertools.cycle(WAYS)

    def client(self, *words):
        words = (*words, "--over", next(self.ways))
        return subprocess.Popen([RCOPY, *map(str, words), "--quiet"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def moment(self, server):
        """Waits for a random part of the time that a copy takes."""
        if self.usual is None:
            started = time.monotonic()
            self.assert_done(rcopy("put", self.new, server.place, "--name", "usual"))
            self.usual = time.monotonic() - started
            (self.served / "usual").unlink()
        return self.random.uniform(0, 1.2 * self.usual)

    def wait_for_moment(self, process, seconds):
        """The kill is meant to hit a running copy: the clock decides where, and any point will do."""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    def assert_old_or_new(self, path):
        self.assertIn(path.read_bytes() if path.exists() else None, (None, OLD, self.new.read_bytes()))
        return path.exists() and path.stat().st_size == self.size

    def test_clients_that_are_killed_while_they_put(self):
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
        self.assertLess(complete, ROUNDS, "no kill came in time: the file is too small for this machine")
        self.assertEqual([name for name in self.names() if name != "target"], [])

    def test_clients_that_are_killed_while_they_get(self):
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

    def test_servers_that_are_killed_while_they_receive(self):
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
        server = self.serve()  # it clears away what a kill has left
        self.assertEqual(self.names(), ["target"])
        self.assert_serves(server)

    def test_servers_that_are_killed_while_they_send(self):
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

    def test_clients_that_are_interrupted(self):
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

    def test_a_server_that_is_interrupted_ends_its_clients(self):
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
