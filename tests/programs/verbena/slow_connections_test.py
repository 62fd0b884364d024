# SPDX-License-Identifier: MIT
"""docs/guide/slow-connections.md: each cause of a slow connection is visible in the counters that the page names."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time
import unittest

import capture_test
import harness

GUIDE = (harness.ROOT / "docs/guide/slow-connections.md").read_text()
SETTINGS = {"VERBENA_SOFTDEV_WIRE": "on", "VERBENA_SOFTDEV_PATH": "wire"}
ERRORS = {"retransmitted_pkts", "local_ack_timeout_err", "retry_exceeded_err", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err",
          "out_of_seq_request", "send_err", "injected_faults"}


def counters(*pids):
    device, = json.loads(harness.verbena("devinfo", "soft0", "--counters", "--json").stdout)["devices"]
    by_pid = {each["pid"]: each["counters"] for each in device["processes"]}
    return [by_pid.get(pid, {}) for pid in pids]


class Causes(harness.Case):
    @contextlib.contextmanager
    def pair(self, *words, faults=None):
        """Yields a server and a client of perftest that run without end."""
        port = capture_test.free_port()
        words = [harness.VERBENA, "run", "--", *words, "-x", "1", "-F", "-p", str(port), "-n", "50000000"]
        env = harness.environment(**SETTINGS, VERBENA_SOFTDEV_WIRE_FAULTS=faults, VERBENA_SOFTDEV_WIRE_PORT=str(port))
        quiet = {"env": env, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with contextlib.ExitStack() as both:
            server = both.enter_context(subprocess.Popen(words, **quiet))
            both.callback(server.kill)
            while not capture_test.listens(port) and server.poll() is None:
                time.sleep(0.02)
            client = both.enter_context(subprocess.Popen([*words, "localhost"], **quiet))
            both.callback(client.kill)
            yield server, client

    def wait_for(self, pids, condition):
        """Waits until the counters of the two processes fulfil a condition, and returns the counters."""
        end = time.monotonic() + harness.BOUND
        while True:
            found = counters(*pids)
            with contextlib.suppress(KeyError):
                if condition(*found):
                    return found
            self.assertLess(time.monotonic(), end, found)
            time.sleep(0.02)

    def assert_named(self, *names):
        """The table names each of the counters in one row."""
        rows = [set(re.findall(r"`(\w+)`", line)) for line in GUIDE.splitlines() if line.startswith("| ")]
        self.assertTrue(any(set(names) <= row for row in rows), names)

    def test_loss(self):
        self.assert_named("rcvd_selective_acks", "retransmitted_pkts", "sent_selective_acks")
        self.assert_named("rcvd_seq_err", "retransmitted_pkts", "out_of_seq_request")
        with self.pair("ib_write_bw", faults="loss=1%,seed=7") as (server, client):
            self.wait_for((server.pid, client.pid), lambda at_server, at_client: at_client["rcvd_seq_err"] > 0 and
                          at_client["rcvd_selective_acks"] > 1 and at_client["retransmitted_pkts"] > 0 and
                          at_server["out_of_seq_request"] > 0 and at_server["sent_selective_acks"] > 1 and
                          at_server["injected_faults"] > 0)
            shown = harness.text(harness.verbena("devinfo", "soft0", "--counters").stdout)
        printed = re.search(r"```\n(soft0\n.*?)```", GUIDE, re.DOTALL).group(1).splitlines()
        self.assertEqual(printed[0], "soft0")
        pattern = r"\n +".join(re.sub(r"\d+$", r"\\d+", re.sub(" +", " +", line.strip())) for line in printed[1:])
        self.assertRegex(shown, pattern)

    def test_missing_receive_requests(self):
        self.assert_named("rcvd_rnr_err", "send_rnr_err")
        with self.pair("ib_send_bw", "-r", "1", "-s", "8") as (server, client):
            at_server, at_client = self.wait_for((server.pid, client.pid), lambda at_server, at_client:
                                                 at_client["rcvd_rnr_err"] > 0 and at_server["send_rnr_err"] > 0)
        self.assertEqual((at_server["injected_faults"], at_client["send_err"]), (0, 0))

    def test_stopped_peer(self):
        self.assert_named("local_ack_timeout_err")
        with self.pair("ib_write_bw") as (server, client):
            self.wait_for((server.pid, client.pid), lambda at_server, at_client: at_client["rcvd_pkts"] > 100)
            server.send_signal(signal.SIGSTOP)
            found = self.wait_for((server.pid, client.pid), lambda at_server, at_client: at_client["local_ack_timeout_err"] > 0)
        self.assertEqual(found[1]["rcvd_rnr_err"], 0)

    def test_small_path_mtu_and_forwarding(self):
        self.assert_named("sent_bytes", "sent_pkts")
        self.assert_named("forwarded_pkts")
        for mtu in (256, 1024):
            with self.pair("ib_write_bw", "-m", str(mtu)) as (server, client):
                at_server, at_client = self.wait_for((server.pid, client.pid), lambda at_server, at_client: at_client["sent_pkts"] > 5000)
            mean = at_client["sent_bytes"] / at_client["sent_pkts"]
            self.assertTrue(0.9 * mtu < mean < mtu + 40, mean)
            # One of them has the port.
            self.assertNotEqual(at_server["forwarded_pkts"] > 0, at_client["forwarded_pkts"] > 0)


class Page(harness.Case):
    def test_names_existing_counters(self):
        with_rows = {name for line in GUIDE.splitlines() if line.startswith("| ") for name in re.findall(r"`(\w+)`", line.split("|")[1])}
        schema = (harness.ROOT / "docs/guide/counters.schema.json").read_text()
        self.assertEqual([name for name in sorted(with_rows) if f'"{name}"' not in schema], [])
        self.assertLessEqual(ERRORS - {"retry_exceeded_err"}, with_rows)

    def test_commands_succeed(self):
        block = re.search(r"```sh\n(.*?)```", GUIDE, re.DOTALL).group(1)
        path = f"{os.path.dirname(harness.VERBENA)}:{os.environ['PATH']}:/usr/sbin:/sbin"
        for line in block.splitlines():
            command = line.split(" # ")[0].strip()
            done = subprocess.run(command, shell=True, capture_output=True, timeout=harness.BOUND, check=False,
                                  env=harness.environment(PATH=path, **SETTINGS))
            self.assertEqual((done.returncode, done.stderr), (0, b""), command)
            if "counters" not in command:
                self.assertTrue(done.stdout, command)


if __name__ == "__main__":
    unittest.main()
