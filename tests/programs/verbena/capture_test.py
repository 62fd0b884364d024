#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of `verbena capture`: what Wireshark and an independent decoder (packets.py) find in the captures of programs."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

import harness
import packets

MTU = 1024  # of the ibv_*_pingpong programs
# Wireshark guesses the protocol of payloads, and takes zeros for the first bytes of these.
NO_GUESSES = ["--disable-protocol", "rpcordma", "--disable-protocol", "infiniband.eoib"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def gid_indexes():
    """Returns an index of an IPv4 address and one of an IPv6 address in the GID table of soft0."""
    devices = json.loads(harness.verbena("devinfo", "--json").stdout)["devices"]
    gids = devices[0]["ports"][0]["gids"]
    return {"ipv4": [each["index"] for each in gids if each["ipv4"] is not None][:1],
            "ipv6": [each["index"] for each in gids if each["ipv4"] is None][:1]}


def listens(port):
    """True if a process listens on this TCP port."""
    return any(re.search(rf":{port:04X} [0-9A-F:]+ 0A ", line)
               for name in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines())


def accepts_connections(port):
    """True if a program listens on this port of the connection manager of soft0."""
    return re.search(rf"@verbena-cm-port\.{os.getuid()}\.[0-9a-f]+\.{port}$",
                     pathlib.Path("/proc/net/unix").read_text(), re.MULTILINE) is not None


class Capture(harness.Case):
    def setUp(self):
        super().setUp()
        self.file = self.work / "soft0.pcapng"

    def pair(self, server, client, port, is_ready=listens):
        """Runs a server and, once it is ready, a client; both captured into one file."""
        with subprocess.Popen([harness.VERBENA, "capture", "-w", str(self.file), "--", *map(str, server)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as serving:
            try:
                end = time.monotonic() + harness.BOUND
                while not is_ready(port) and serving.poll() is None and time.monotonic() < end:
                    time.sleep(0.02)
                done = harness.verbena("capture", "-w", self.file, "--append", "--", *client)
                _, said = serving.communicate(timeout=harness.BOUND)
            finally:
                serving.kill()
        self.assert_ended(done)
        self.assertEqual(serving.returncode, 0, harness.text(said))
        self.assertRegex(harness.text(said), r"verbena capture: \d+ packets in ")
        return packets.read(self.file)

    def tshark(self, *words):
        done = subprocess.run(["tshark", "-r", str(self.file), *NO_GUESSES, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=harness.BOUND, check=False)
        self.assert_ended(done)
        return harness.text(done.stdout).splitlines()

    def assert_wireshark_agrees(self, found):
        """Wireshark decodes each packet as RoCE, as the same opcode, without a finding."""
        self.assertEqual(self.tshark("-Y", "_ws.malformed || !infiniband.bth"), [])
        said = set(self.tshark("-Y", "_ws.expert", "-T", "fields", "-e", "_ws.expert.message"))
        # The programs of ibverbs-utils and perftest ask for a hop limit of 1.
        comments = {each.comment for each in found if each.comment}
        self.assertLessEqual(said, {'"Time To Live" only 1', *comments})
        rows = self.tshark("-T", "fields", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn")
        self.assertEqual(len(rows), len(found))
        family = {"rc": 0x00, "uc": 0x20, "ud": 0x60, "vendor": 0x00}
        for row, packet in zip(rows, found):
            opcode, psn = (int(each, 0) for each in row.split("\t"))
            self.assertEqual((opcode, psn), (family[packet.transport] | packet.operation, packet.psn))

    def queue_pairs(self, found):
        return sorted({packet.to_qp for packet in found})

    def pingpong(self, transport, *words, gid):
        port = free_port()
        common = [f"ibv_{transport}_pingpong", "-p", port, "-g", gid, *words]
        return self.pair(common, [*common, "localhost"], port)


class Pingpong(Capture):
    def check(self, transport, size, iterations, gid):
        found = self.pingpong(transport, "-s", size, "-n", iterations, gid=gid)
        self.assert_wireshark_agrees(found)
        self.assertEqual({packet.transport for packet in found}, {transport})
        queue_pairs = self.queue_pairs(found)
        self.assertEqual(len(queue_pairs), 2)
        mtu = 4096 if transport == "ud" else MTU
        for one in queue_pairs:
            sent = packets.requests(found, one, mtu)
            self.assertEqual([len(each.payload) for each in sent], [size] * iterations)
        return found, queue_pairs

    def test_messages_of_rc_are_segmented_and_acknowledged(self):
        for family, indexes in gid_indexes().items():
            for gid in indexes:
                with self.subTest(family):
                    self.file.unlink(missing_ok=True)
                    found, queue_pairs = self.check("rc", 2500, 20, gid)
                    self.assertEqual(len(found[0].source), 4 if family == "ipv4" else 16)
                    for one, other in (queue_pairs, queue_pairs[::-1]):
                        last = packets.requests(found, one, MTU)[-1]
                        answers = [each for each in found if each.to_qp == other and
                                   each.operation == packets.ACKNOWLEDGE]
                        self.assertTrue(all(each.fields["syndrome"] == 0x1f for each in answers))
                        self.assertEqual((answers[-1].psn, answers[-1].fields["msn"]), (last.last_psn, 20))

    def test_messages_of_uc_have_no_answers(self):
        for indexes in gid_indexes().values():
            for gid in indexes:
                self.file.unlink(missing_ok=True)
                found, _ = self.check("uc", 3000, 10, gid)
                self.assertTrue(all(packets.is_request(each) and not each.ack_requested for each in found))

    def test_datagrams_name_their_sender(self):
        for indexes in gid_indexes().values():
            for gid in indexes:
                self.file.unlink(missing_ok=True)
                found, queue_pairs = self.check("ud", 1021, 10, gid)
                for packet in found:
                    self.assertIn(packet.fields["source_qp"], queue_pairs)
                    self.assertNotEqual(packet.fields["source_qp"], packet.to_qp)


class Operations(Capture):
    def test_writes_and_reads_of_rping_carry_its_data(self):
        port = free_port()
        common = ["-a", "127.0.0.1", "-p", port, "-C", "3", "-S", "9000"]
        found = self.pair(["rping", "-s", *common], ["rping", "-c", *common], port, accepts_connections)
        self.assert_wireshark_agrees(found)
        mtu = max(len(each.payload) for each in found)
        read, written = [], []
        one, other = self.queue_pairs(found)
        for to_qp, from_qp in ((one, other), (other, one)):
            for message in packets.requests(found, to_qp, mtu):
                if message.operation == packets.READ:
                    read.append(packets.read_data(found, message, from_qp, mtu))
                elif message.operation in packets.WRITE:
                    written.append(message.payload)
        # The server reads what the client prepared, and writes it to the client.
        self.assertEqual(len(read), 3)
        self.assertEqual(read, written)
        self.assertTrue(all(each.startswith(b"rdma-ping-") and len(each) == 9000 for each in read))

    def test_datagrams_of_udaddy_have_immediate_data(self):
        udaddy_port = 7174
        common = ["udaddy", "-C", "5", "-S", "101"]
        found = self.pair([*common, "-b", "127.0.0.1"], [*common, "-s", "127.0.0.1"], udaddy_port, accepts_connections)
        self.assert_wireshark_agrees(found)
        self.assertEqual({(each.transport, each.operation, len(each.payload)) for each in found}, {("ud", 0x05, 101)})
        numbers = {each.fields["source_qp"] for each in found}
        self.assertTrue(all(each.fields["immediate"] in numbers for each in found))

    def perftest(self, *words):
        port = free_port()
        return self.pair([*words, "-p", port], [*words, "-p", port, "localhost"], port)

    def test_atomics_are_answered_with_the_value_before(self):
        for kind, operation in (("FETCH_AND_ADD", packets.FETCH_ADD), ("CMP_AND_SWAP", packets.COMPARE_SWAP)):
            self.file.unlink(missing_ok=True)
            found = self.perftest("ib_atomic_lat", "-n", 10, "-A", kind)
            self.assert_wireshark_agrees(found)
            asked = [each for each in found if each.operation == operation]
            answers = [each for each in found if each.operation == packets.ATOMIC_ACKNOWLEDGE]
            self.assertGreaterEqual(len(asked), 10)
            self.assertEqual([each.psn for each in asked], [each.psn for each in answers])
            if operation == packets.FETCH_ADD:
                for before, after, request in zip(answers, answers[1:], asked):
                    self.assertEqual(after.fields["original"] - before.fields["original"] & (1 << 64) - 1,
                                     request.fields["swap_or_add"])

    def test_writes_in_lists_are_all_captured(self):
        found = self.perftest("ib_write_bw", "-n", 128, "-s", 5000, "--post_list", 16, "-m", MTU)
        self.assert_wireshark_agrees(found)
        written = [message for each in self.queue_pairs(found) for message in packets.requests(found, each, MTU)
                   if message.operation in packets.WRITE]
        self.assertEqual([len(each.payload) for each in written], [5000] * len(written))
        self.assertGreaterEqual(len(written), 128)

    def test_traffic_of_the_conformance_suite_is_decoded(self):
        """All operations, lengths and refusals that the suite tests, within a process and between two."""
        suite = pathlib.Path(os.environ["BUILD"]) / "tests" / "conformance" / "conformance"
        done = harness.verbena("capture", "-w", self.file, "--", suite, timeout=240,
                               env={"VERBENA_TEST_TIMEOUT_FACTOR": "4"})
        self.assert_ended(done)
        found = packets.read(self.file)
        self.assert_wireshark_agrees(found)
        self.assertGreater(len(found), 10000)
        syndromes = {each.fields["syndrome"] for each in found if each.operation == packets.ACKNOWLEDGE}
        self.assertLessEqual({0x1f, 0x61, 0x62}, syndromes)
        self.assertTrue(any(0x20 <= each < 0x40 for each in syndromes))

    def test_traffic_inside_a_process_is_captured(self):
        self.assert_ended(harness.verbena("capture", "-w", self.file, "--", harness.VERBENA, "doctor"))
        found = packets.read(self.file)
        self.assert_wireshark_agrees(found)
        self.assertTrue(any(each.operation in packets.SEND for each in found))


class Wire(Capture):
    """Packets between processes of one host that use the wire."""

    SETTINGS = {"VERBENA_SOFTDEV_WIRE": "on", "VERBENA_SOFTDEV_PATH": "wire"}

    def setUp(self):
        super().setUp()
        for name, value in self.SETTINGS.items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)

    def counters_of(self, pid):
        device, = json.loads(harness.verbena("devinfo", "soft0", "--counters", "--json").stdout)["devices"]
        counters, = (each["counters"] for each in device["processes"] if each["pid"] == pid)
        return counters

    def settled(self, pid):
        """Returns the captured packets, and the counters of a process, when neither changes."""
        end = time.monotonic() + harness.BOUND
        while True:
            before = self.counters_of(pid)
            time.sleep(0.2)
            found = packets.read(self.file)
            if self.counters_of(pid) == before:
                return found, before
            self.assertLess(time.monotonic(), end)

    def test_captured_packets_are_those_that_the_process_counts(self):
        """A server that stays, with a loss of 10 %: its capture and its counters have the same packets of each kind."""
        port = free_port()
        words = ["-a", "127.0.0.1", "-p", str(port), "-S", "30000"]
        server = subprocess.Popen([harness.VERBENA, "run", "--", "rping", "-s", "-P", *words], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                  env=harness.environment(VERBENA_SOFTDEV_CAPTURE=str(self.file),
                                                          VERBENA_SOFTDEV_WIRE_FAULTS="loss=10%,seed=3"))
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        while not accepts_connections(port) and server.poll() is None:
            time.sleep(0.02)
        self.assert_ended(harness.verbena("run", "--", "rping", "-c", "-C", "20", *words))
        found, counters = self.settled(server.pid)
        self.assert_wireshark_agrees(found)
        self.assertEqual(len(self.tshark("-Y", "frame.comment")), counters["injected_faults"])

        def count(direction, which=lambda packet: True):
            return sum(each.direction == direction and not each.comment and which(each) for each in found)

        def is_nak(syndrome):
            return lambda packet: packet.operation == packets.ACKNOWLEDGE and packet.fields["syndrome"] == syndrome

        self.assertEqual({each.comment for each in found}, {"", "injected_faults: lost"})
        self.assertEqual(counters["injected_faults"], sum(bool(each.comment) for each in found))
        self.assertEqual(counters["sent_pkts"], count(packets.OUTBOUND))
        self.assertEqual(counters["sent_bytes"], sum(len(each.raw) for each in found if each.direction == packets.OUTBOUND))
        self.assertEqual(counters["rcvd_pkts"], count(packets.INBOUND))
        self.assertEqual(counters["out_of_seq_request"], count(packets.OUTBOUND, is_nak(0x60)))
        self.assertEqual(counters["rcvd_seq_err"], count(packets.INBOUND, is_nak(0x60)))
        # A packet that was lost comes again.
        arrived = {(each.to_qp, each.psn) for each in found if each.direction == packets.INBOUND and not each.comment}
        lost = {(each.to_qp, each.psn) for each in found if each.comment and packets.is_request(each)}
        self.assertTrue(lost)
        self.assertLessEqual(lost, arrived)
        # Requests of the server whose acknowledgement was lost leave again.
        left = [(each.to_qp, each.psn) for each in found if each.direction == packets.OUTBOUND
                and each.operation in {**packets.SEND, **packets.WRITE}]
        self.assertGreaterEqual(counters["retransmitted_pkts"], len(left) - len(set(left)))
        self.assertGreater(counters["retransmitted_pkts"], 0)

    def test_packets_of_another_port_are_shown_with_the_option_of_the_guide(self):
        port = free_port()
        os.environ["VERBENA_SOFTDEV_WIRE_PORT"] = "14791"
        self.addCleanup(os.environ.pop, "VERBENA_SOFTDEV_WIRE_PORT")
        words = ["ibv_rc_pingpong", "-g", "1", "-n", "5", "-p", str(port)]
        with subprocess.Popen([harness.VERBENA, "run", "--", *words], stdout=subprocess.DEVNULL) as server:
            while not listens(port) and server.poll() is None:
                time.sleep(0.02)
            self.assert_ended(harness.verbena("capture", "-w", self.file, "--", *words, "localhost"))
            self.assertEqual(server.wait(harness.BOUND), 0)
        option = re.search(r"`(-d udp\.port==14791,\w+)`", (harness.ROOT / "docs/guide/capture.md").read_text()).group(1)
        shown = self.tshark(*option.split(), "-Y", "infiniband.bth")
        self.assertGreaterEqual(len(shown), 20)
        self.assertEqual(len(shown), len(list(packets.frames(self.file))))


class Files(Capture):
    def test_file_is_for_its_user_only(self):
        self.pingpong("rc", "-n", 2, gid=0)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)

    def test_snap_length_cuts_packets_and_keeps_their_length(self):
        self.assert_ended(harness.verbena("capture", "-w", self.file, "--snapshot-length", "70", "--", harness.VERBENA, "doctor"))
        found = list(packets.frames(self.file))
        self.assertTrue(all(len(each.data) == min(70, each.original) for each in found))
        self.assertTrue(any(each.original > 70 for each in found))
        self.assertEqual(len(self.tshark("-Y", "infiniband.bth")), len(found))

    def test_new_capture_replaces_an_old_one(self):
        for _ in range(2):
            self.assert_ended(harness.verbena("capture", "-w", self.file, "--", harness.VERBENA, "doctor"))
            count = len(packets.read(self.file))
        self.assert_ended(harness.verbena("capture", "-w", self.file, "--append", "--", harness.VERBENA, "doctor"))
        self.assertEqual(len(packets.read(self.file)), 2 * count)

    def test_other_file_is_kept(self):
        self.file.write_text("a text of the user\n")
        for words in ([], ["--append"]):
            done = harness.verbena("capture", "-w", self.file, *words, "--", harness.VERBENA, "doctor")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("is not a capture", harness.text(done.stderr))
            self.assertEqual(self.file.read_text(), "a text of the user\n")

    def test_device_does_not_open_if_its_file_cannot_be_opened(self):
        for path in (self.work, self.work / "absent" / "file", "/dev/null"):
            done = harness.verbena("run", "-v", "--", harness.VERBENA, "doctor", env={"VERBENA_SOFTDEV_CAPTURE": str(path)})
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("VERBENA_SOFTDEV_CAPTURE", harness.text(done.stdout) + harness.text(done.stderr))


class Stream(Capture):
    def test_standard_output_has_packets_only(self):
        done = harness.verbena("capture", "-w", "-", "--", harness.VERBENA, "doctor")
        self.assert_ended(done)
        self.file.write_bytes(done.stdout)
        found = packets.read(self.file)
        self.assert_wireshark_agrees(found)
        self.assertIn(f"{len(found)} packets in the stream", harness.text(done.stderr))
        self.assertIn("soft0", harness.text(done.stderr))  # what doctor prints

    def test_tshark_reads_the_stream(self):
        with subprocess.Popen([harness.VERBENA, "capture", "-w", "-", "--", harness.VERBENA, "doctor"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as capturing:
            reading = subprocess.run(["tshark", "-i", "-", "-l"], stdin=capturing.stdout, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, timeout=harness.BOUND, check=False)
            capturing.communicate(timeout=harness.BOUND)
        self.assertIn("Send", harness.text(reading.stdout))

    def test_reader_that_does_not_read_loses_packets_with_a_count(self):
        port = free_port()
        words = ["ib_send_bw", "-n", "400", "-s", "65536", "-p", port]
        serving = subprocess.Popen([harness.VERBENA, "run", "--", *map(str, words)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(serving.kill)
        while not listens(port):
            time.sleep(0.02)
        with subprocess.Popen([harness.VERBENA, "capture", "-w", "-", "--", *map(str, words), "localhost"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as capturing:
            # The program ends although nobody reads: its packets are dropped.
            self.assertEqual(serving.wait(harness.BOUND), 0)
            data, said = capturing.communicate(timeout=harness.BOUND)
        self.assertEqual(capturing.returncode, 0, harness.text(said))
        self.assertIn("the capture is incomplete: its reader is too slow", harness.text(said))
        self.file.write_bytes(data)
        stored = list(packets.frames(self.file))
        self.assertLess(len(stored), 400 * 64)

    def test_whose_reader_ends_counts_written_packets_only(self):
        for status in (0, 3):
            with subprocess.Popen([harness.VERBENA, "capture", "-w", "-", "--", "sh", "-c", f"{harness.VERBENA} doctor; exit {status}"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as capturing:
                capturing.stdout.close()
                said = harness.text(capturing.stderr.read())
                self.assertEqual(capturing.wait(harness.BOUND), status or 125, said)
            self.assertRegex(said, r"verbena capture: 0 packets in the stream, [1-9]\d* packets are missing\n"
                             r"verbena capture: the packets could not be written to standard output: Broken pipe; its reader ended ")


class Program(Capture):
    def test_has_its_own_exit_status(self):
        for status in (0, 3, 125):
            self.assert_ended(harness.verbena("capture", "-w", self.file, "--", "sh", "-c", f"exit {status}"), status)
        self.assert_ended(harness.verbena("capture", "-w", self.file, "--", "sh", "-c", "kill -KILL $$"), 137)

    def test_status_is_returned_with_ignored_signals_of_children(self):
        done = subprocess.run([harness.VERBENA, "capture", "-w", str(self.file), "--", "sh", "-c", "exit 3"], check=False,
                              capture_output=True, timeout=harness.BOUND,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assert_ended(done, 3)

    def test_gets_signals(self):
        with subprocess.Popen([harness.VERBENA, "capture", "-w", str(self.file), "--", "sh", "-c", "echo; exec sleep 60"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as capturing:
            capturing.stdout.readline()
            capturing.send_signal(signal.SIGTERM)
            self.assertEqual(capturing.wait(harness.BOUND), 128 + signal.SIGTERM)

    def test_gets_each_interrupt_once(self):
        for by in ("the terminal", "kill"):
            with self.subTest(by):
                started, keyboard = self.start_on_terminal("capture", "-w", self.file, "--", sys.executable, "-c",
                                                           harness.COUNT_INTERRUPTS)
                self.assert_ready(started)
                if by == "kill":
                    started.send_signal(signal.SIGINT)
                    self.assert_interrupted(started)
                else:
                    self.interrupt(started, keyboard)
                started.send_signal(signal.SIGTERM)
                self.assertEqual(started.wait(harness.BOUND), 0, started.stderr.read())

    def test_that_does_not_open_soft0_is_reported(self):
        done = harness.verbena("capture", "-w", self.file, "--", "true")
        self.assert_ended(done)
        self.assertIn("no packets: the program did not open soft0", harness.text(done.stderr))

    def test_that_is_missing_is_refused(self):
        for words in ([], ["-w", self.file], ["-w", self.file, "--"], ["-w", self.file, "true"]):
            self.assert_refused(harness.verbena("capture", *words), 125, "", command="verbena capture")
        done = harness.verbena("capture", "-w", self.file, "--", "/absent/program")
        self.assertEqual(done.returncode, 127)


class Help(harness.Case):
    def test_fits_in_80_columns_and_names_each_option(self):
        printed = harness.text(harness.verbena("capture", "--help").stdout)
        self.assert_narrow(printed)
        for option in ("--write", "--append", "--snapshot-length", "--preload", "--dropin"):
            self.assertIn(option, printed)

    def test_guide_names_each_option(self):
        guide = (harness.ROOT / "docs/guide/capture.md").read_text()
        for option in ("-w", "--append", "--snapshot-length"):
            self.assertIn(option, guide)


class Guide(Capture):
    """The commands of docs/guide/capture.md."""

    @classmethod
    def setUpClass(cls):
        text = (harness.ROOT / "docs/guide/capture.md").read_text()
        parts = text.partition("## Packets to and from other hosts")
        cls.commands, cls.wire_commands = ([line.split(" # ")[0].strip() for block in re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
                                            for line in block.splitlines()] for part in (parts[0], parts[2]))

    def runs(self, command):
        path = f"{pathlib.Path(harness.VERBENA).parent}:{os.environ['PATH']}"
        return subprocess.run(command, shell=True, cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=harness.BOUND, check=False, env=harness.environment(PATH=path))

    def test_commands_show_packets(self):
        setting, server, client, *rest = self.commands
        name, value = setting.removeprefix("export ").split("=")
        before = os.environ.get(name)
        self.addCleanup(os.environ.pop if before is None else os.environ.__setitem__, name, before)
        os.environ[name] = value
        port = free_port()
        started = subprocess.Popen(f"exec {server} -p {port}", shell=True, cwd=self.work, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL,
                                   env=harness.environment(PATH=f"{pathlib.Path(harness.VERBENA).parent}:{os.environ['PATH']}"))
        self.addCleanup(started.kill)
        while not listens(port) and started.poll() is None:
            time.sleep(0.02)
        self.assert_ended(self.runs(client.replace("localhost", f"-p {port} localhost")))
        self.assertEqual(started.wait(harness.BOUND), 0)
        shown = [command for command in rest if command.startswith("tshark")]
        self.assertEqual(len(shown), 4)
        for command in shown:
            done = self.runs(command)
            self.assert_ended(done)
            self.assertEqual(bool(done.stdout), "!=" not in command, command)

    def test_commands_show_packets_of_other_hosts(self):
        """All but the last one, for which there is no packet within one host: tests/programs/wire has it."""
        settings = {"VERBENA_SOFTDEV_WIRE": "on", "VERBENA_SOFTDEV_PATH": "wire", "VERBENA_SOFTDEV_WIRE_FAULTS": "loss=5%"}
        for name, value in settings.items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        # perftest ends when both sides have finished. A program that ends earlier leaves its peer without an acknowledgement if
        # the last one is lost.
        port = free_port()
        words = ["ib_send_lat", "-x", "1", "-F", "-n", "200", "-s", "8192", "-p", port]
        self.pair(words, [*words, "localhost"], port)
        *shown, last = self.wire_commands
        self.assertEqual((len(shown), last), (3, "tshark -r soft0.pcapng -Y infiniband.mad"))
        for command in shown:
            done = self.runs(command)
            self.assert_ended(done)
            self.assertTrue(done.stdout, command)
            if "frame.comment" in command:
                self.assertRegex(harness.text(done.stdout), r"\A(\d+\tinjected_faults: lost\n)+\Z")


if __name__ == "__main__":
    os.environ.pop("VERBENA_SOFTDEV_CAPTURE", None)
    unittest.main(verbosity=1)
