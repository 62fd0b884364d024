# SPDX-License-Identifier: MIT
"""Programs of the library communicate between two network namespaces: by negotiation over TCP, and as ranks of a group."""
import os
import subprocess
import sys
import unittest

import hosts_test as hosts  # from the folder of this file

BOUND = 120  # seconds; only a program that hangs takes longer
HELLO, GROUP = sys.argv[1:3]


def setUpModule():  # noqa: N802
    hosts.setUpModule()


def tearDownModule():  # noqa: N802
    hosts.tearDownModule()


def start(host, *words, **variables):
    environment = {**os.environ, "VERBENA_SOFTDEV": "only", "VERBENA_SOFTDEV_WIRE": "on", **variables}
    return subprocess.Popen([*map(str, hosts.HOSTS[host].inside(*words))], env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Library(unittest.TestCase):
    def run_both(self, first, second, is_ready=None):
        """Runs a program on each host. Returns the statuses and outputs."""
        started = [first()]
        try:
            if is_ready is not None:
                hosts.foreign.wait_until(is_ready, "the first program listens")
            started.append(second())
            outputs = [each.communicate(timeout=BOUND)[0] for each in started]
        finally:
            for each in started:
                each.kill()
                each.wait()
                each.stdout.close()
        return [each.returncode for each in started], outputs

    def hello(self, **variables):
        return self.run_both(lambda: start(0, HELLO, **variables), lambda: start(1, HELLO, f"{hosts.SERVER}:7471"),
                             lambda: hosts.HOSTS[0].listens(7471))

    def test_message_channel_connects_hosts(self):
        statuses, outputs = self.hello()
        self.assertEqual(statuses, [0, 0], outputs)
        self.assertEqual(outputs, ["hello\n", "hello\n"])

    def test_side_without_the_setting_is_named(self):
        statuses, outputs = self.hello(VERBENA_SOFTDEV_WIRE="off")
        self.assertEqual([status != 0 for status in statuses], [True, True], outputs)
        self.assertIn("set VERBENA_SOFTDEV_WIRE=on here", outputs[0])
        self.assertIn("set VERBENA_SOFTDEV_WIRE=on at the peer", outputs[1])

    def test_group_has_ranks_on_both_hosts(self):
        store = {"WORLD_SIZE": "2", "MASTER_ADDR": hosts.SERVER, "MASTER_PORT": "29500"}
        statuses, outputs = self.run_both(lambda: start(0, GROUP, RANK="0", **store), lambda: start(1, GROUP, RANK="1", **store))
        self.assertEqual(statuses, [0, 0], outputs)
        self.assertIn("barrier of 2 ranks", outputs[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
