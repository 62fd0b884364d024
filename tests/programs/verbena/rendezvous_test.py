# SPDX-License-Identifier: MIT
"""Ranks find their store through etcd, and through the names of a headless service."""
import base64
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import harness

GROUP = pathlib.Path(os.environ["BUILD"]) / "examples" / "group"
ETCD = shutil.which("etcd")
DNSMASQ = shutil.which("dnsmasq") or shutil.which("dnsmasq", path="/usr/sbin:/sbin")


def free_ports(count):
    """Returns ports that no process uses."""
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def wait_for(condition):
    """Waits until the condition returns a value that is true, and returns it."""
    until = time.monotonic() + harness.BOUND
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        os.sched_yield()
    raise AssertionError("the condition did not become true")


class Ranks(harness.Case):
    def start(self, *command, **variables):
        """Starts a process, which ends with the test."""
        started = subprocess.Popen([str(each) for each in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=harness.environment(**variables))
        for each in (started.stdout.close, started.stderr.close, started.wait, started.kill):
            self.addCleanup(each)
        return started

    def assert_measured(self, ranks):
        output = [each.communicate(timeout=harness.BOUND) for each in ranks]
        self.assertEqual([each.returncode for each in ranks], [0] * len(ranks), output)
        self.assertIn(f"barrier of {len(ranks)} ranks, dissemination", harness.text(output[0][0]))


class Etcd(Ranks):
    def setUp(self):
        super().setUp()
        client, peer = free_ports(2)
        self.url = f"http://127.0.0.1:{client}"
        self.etcd_command = [ETCD, "--data-dir", self.work / "data", "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                             "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                             "--initial-cluster", f"default=http://127.0.0.1:{peer}", "--log-level", "error"]

    def start_etcd(self):
        started = self.start(*self.etcd_command)
        wait_for(self.is_healthy)
        return started

    def is_healthy(self):
        try:
            return self.ask("/v3/kv/range", {"key": "eA=="})
        except (urllib.error.URLError, ConnectionError):
            return None

    def ask(self, path, question):
        with urllib.request.urlopen(self.url + path, json.dumps(question).encode(), timeout=harness.BOUND) as answer:
            return json.load(answer)

    def stored(self, key):
        """Returns what etcd has for the key; None if it has no such key."""
        found = self.ask("/v3/kv/range", {"key": base64.b64encode(key.encode()).decode()}).get("kvs")
        return found[0] if found else None

    def rank(self, rank, size, **variables):
        return self.start(GROUP, RANK=str(rank), WORLD_SIZE=str(size), VERBENA_ETCD=self.url + "/jobs/", **variables)

    def test_group_whose_ranks_start_before_etcd(self):
        ranks = [self.rank(each, 3) for each in range(3)]
        self.start_etcd()
        self.assert_measured(ranks)
        self.assertIsNone(self.stored("jobs//store"))

    def test_address_of_a_killed_rank_is_replaced(self):
        self.start_etcd()
        first = self.rank(0, 2, VERBENA_GROUP="a group")
        found = wait_for(lambda: self.stored("jobs/a group/store"))
        # etcd removes the key when the lease is not renewed.
        lease = self.ask("/v3/lease/timetolive", {"ID": found["lease"]})
        self.assertEqual(lease["grantedTTL"], "10")
        first.kill()
        first.wait()
        # Rank 1 finds the address of the killed one first.
        ranks = [self.rank(1, 2, VERBENA_GROUP="a group"), self.rank(0, 2, VERBENA_GROUP="a group")]
        self.assert_measured(ranks[::-1])
        self.assertIsNone(self.stored("jobs/a group/store"))

    def test_groups_with_other_names_and_a_secret(self):
        self.start_etcd()
        ones = [self.rank(each, 2, VERBENA_GROUP="one") for each in range(2)]
        others = [self.rank(each, 2, VERBENA_GROUP="other", VERBENA_SECRET="of the other") for each in range(2)]
        self.assert_measured(ones)
        self.assert_measured(others)

    def test_secret_is_not_stored_if_the_program_has_one(self):
        self.start_etcd()
        for secret, words in (("a secret word", 4), (None, 4)):
            rank = self.rank(0, 2, VERBENA_SECRET=secret)
            value = base64.b64decode(wait_for(lambda: self.stored("jobs//store"))["value"]).decode()
            self.assertRegex(value, r"^verbena 1 127\.0\.0\.1:\d+ $" if secret else r"^verbena 1 127\.0\.0\.1:\d+ [0-9a-f]{64}$")
            rank.kill()
            rank.wait()
            self.ask("/v3/kv/deleterange", {"key": base64.b64encode(b"jobs//store").decode()})

    def test_errors_name_the_variable(self):
        for value in ("127.0.0.1:2379", "ftp://127.0.0.1", "http://", "http://me:word@127.0.0.1"):
            done = subprocess.run([str(GROUP)], stderr=subprocess.PIPE, timeout=harness.BOUND, check=False,
                                  env=harness.environment(RANK="0", WORLD_SIZE="1", VERBENA_ETCD=value))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"VERBENA_ETCD={value} ", harness.text(done.stderr))


def namespaces():
    """Returns the words before a command in a network, mount and UTS namespace; None if this place gives none."""
    for prefix in (["unshare", "-nm", "--uts"], ["unshare", "-rnm", "--uts"]):
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
            return prefix
    return None


class Service(Ranks):
    """A name server in a network namespace answers for a service whose hosts have names of their own."""

    def setUp(self):
        super().setUp()
        prefix = namespaces()
        if prefix is None:
            self.skipTest("this place gives no network namespace")
        (self.work / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        (self.work / "hosts").write_text("127.0.0.1 localhost\n")
        # Holds the namespaces; the processes of the test enter them.
        holder = self.start(*prefix, "sh", "-c", f"ip link set lo up && mount --bind {self.work}/resolv.conf /etc/resolv.conf && "
                            f"mount --bind {self.work}/hosts /etc/hosts && echo ready && exec sleep 1000")
        self.assertEqual(holder.stdout.readline(), b"ready\n", holder.stderr)
        self.enter = ["nsenter", "--target", str(holder.pid), "--net", "--mount", "--uts"]
        if "-rnm" in prefix:
            self.enter += ["--user", "--preserve-credentials"]

    def on_host(self, name, *command, **variables):
        """Starts a process on a host of this name."""
        return self.start(*self.enter, "unshare", "--uts", "sh", "-c", f'hostname {name} && exec "$@"', "sh", *command, **variables)

    def rank(self, ordinal, size, **variables):
        return self.on_host(f"worker-{ordinal}", GROUP, WORLD_SIZE=str(size), VERBENA_SERVICE="ranks.example", **variables)

    def name_server(self, *records):
        """Starts a name server and returns it when it listens; its standard error has the questions."""
        started = self.start(*self.enter, DNSMASQ, "--no-daemon", "--no-resolv", "--no-hosts", "--conf-file=/dev/null",
                             "--listen-address=127.0.0.1", "--bind-interfaces", "--log-queries",
                             "--local=/example/", *(f"--host-record={each}" for each in records))
        self.wait_for_line(started, "started")
        return started

    def wait_for_line(self, server, words):
        for line in server.stderr:
            if words in harness.text(line):
                return
        self.fail(f"no line with {words}")

    def test_names_that_become_known_later(self):
        ranks = [self.rank(each, 3) for each in (2, 1, 0)]
        # The host of an earlier run, which does not answer.
        server = self.name_server("worker-0.ranks.example,192.0.2.77")
        self.wait_for_line(server, "config worker-0.ranks.example is 192.0.2.77")
        server.terminate()
        server.wait()
        self.name_server("worker-0.ranks.example,127.0.0.1")
        self.assert_measured(ranks[::-1])

    def test_master_addr_with_several_addresses(self):
        server = self.name_server("head.example,192.0.2.77", "head.example,127.0.0.1", "head.example,192.0.2.78")
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "head.example", "MASTER_PORT": "29501"}
        # One address refuses the connection before rank 0 listens; there is no route to the others.
        first = self.on_host("b", GROUP, RANK="1", **place)
        self.wait_for_line(server, "head.example is 192.0.2.78")
        self.assert_measured([self.on_host("a", GROUP, RANK="0", **place), first])

    def test_errors_name_the_host_and_the_variable(self):
        for host, variables, words in (
                ("worker", {"WORLD_SIZE": "2"}, "the host name worker does not end with a dash and a number"),
                ("worker-x", {"WORLD_SIZE": "2"}, "the host name worker-x does not"),
                ("worker-2", {"WORLD_SIZE": "2"}, "the number 2 of the host name worker-2 is not less than WORLD_SIZE=2"),
                ("worker-1", {}, "VERBENA_SERVICE is set, but WORLD_SIZE"),
                ("worker-1", {"VERBENA_SERVICE": "ranks:0"}, "VERBENA_SERVICE=ranks:0 is not a name or name:port")):
            started = self.on_host(host, GROUP, **{"VERBENA_SERVICE": "ranks", **variables})
            said = started.communicate(timeout=harness.BOUND)[1]
            self.assertEqual(started.returncode, 1)
            self.assertIn(words, harness.text(said))


if __name__ == "__main__":
    unittest.main()
