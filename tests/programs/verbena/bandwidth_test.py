# SPDX-License-Identifier: MIT
"""The example of the guide: two processes `verbena run -- ib_write_bw` print a bandwidth."""
import re
import select
import socket
import subprocess
import time
import unittest

import harness


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def listens(port):
    """Returns whether a process of this host listens on the port; reads this from the kernel and does not connect."""
    listening = "0A"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            rows = [line.split() for line in lines]
        if any(row[1].endswith(f":{port:04X}") and row[3] == listening for row in rows):
            return True
    return False


class Terminals(harness.Case):
    def start(self, *words):
        process = subprocess.Popen([harness.VERBENA, "run", "--", "ib_write_bw", "-n", "1000", *words],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        return process

    def assert_prints_a_bandwidth(self, process):
        printed, complaints = process.communicate(timeout=harness.BOUND)
        self.assertEqual(process.returncode, 0, harness.text(complaints))
        row = re.search(r"^ 65536 +1000 +([\d.]+) +([\d.]+)\s", harness.text(printed), re.MULTILINE)
        self.assertIsNotNone(row, harness.text(printed))
        self.assertGreater(float(row[2]), 0)
        self.assertRegex(harness.text(printed), r"Device +: soft0")

    def test_two_terminals_print_a_bandwidth(self):
        port = free_port()
        server = self.start("-p", str(port))
        give_up = time.monotonic() + harness.BOUND
        while not listens(port):
            self.assertIsNone(server.poll(), "the server ended")
            self.assertLess(time.monotonic(), give_up)
            select.select([server.stderr], [], [], 0.02)  # wakes early if the server complains
        client = self.start("-p", str(port), "127.0.0.1")
        self.assert_prints_a_bandwidth(client)
        self.assert_prints_a_bandwidth(server)


if __name__ == "__main__":
    unittest.main()
