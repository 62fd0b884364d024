#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs inside the virtual machine (--devices rxe,siw): tests the devices of the kernel, and unmodified programs on them.

machine_test.py BUILD EXAMPLE...: the build folder, and the examples that need neither arguments nor a peer.
"""
import contextlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 100
RXE = ("rxe0", "rxe1")
SIW = ("siw0", "siw1")
# The veth pairs of the devices (tests/vm/guest/devices.sh).
WIRES = {"rxe": ("v0", "v1"), "siw": ("w0", "w1")}
ADDRESSES = {"rxe0": "10.0.0.1", "siw0": "10.0.1.1"}
NODES = sorted(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*"))
RCOPY_BYTES = 3 * (1 << 20) + 5
build = pathlib.Path()
examples = []


def run(*words, **variables):
    """Runs a program to its end; standard error is added to standard output."""
    try:
        return subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False, env={**os.environ, **variables})
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace")
        raise AssertionError(f"{words[0]} did not end within {TIMEOUT_S} s; its output:\n{output}") from None


def packets(interface):
    folder = pathlib.Path("/sys/class/net") / interface / "statistics"
    return {name: int((folder / f"{name}_packets").read_text()) for name in ("rx", "tx")}


class Devices(unittest.TestCase):
    def test_ibv_devinfo_shows_two_of_each_kind_active(self):
        shown = run("ibv_devinfo")
        self.assertEqual(shown.returncode, 0, shown.stdout)
        states = re.findall(r"hca_id:\s*(\w+).*?state:\s*(\w+)", shown.stdout, re.DOTALL)
        self.assertEqual(sorted(states), [(name, "PORT_ACTIVE") for name in RXE + SIW])

    def test_verbena_devinfo_agrees_with_ibv_devinfo(self):
        for device in ("rxe0", "siw0"):
            with self.subTest(device):
                done = run(sys.executable, ROOT / "tests/programs/verbena/compare_devinfo.py", "--device", device,
                           "--ours", build / "bin/verbena", "--theirs", "ibv_devinfo")
                self.assertEqual(done.returncode, 0, done.stdout)


class Doctor(unittest.TestCase):
    def test_doctor_finds_rxe_working(self):
        done = run(build / "bin/verbena", "doctor", "--require", "kernel", "--json", VERBENA_SOFTDEV="on")
        self.assertEqual(done.returncode, 0, done.stdout)
        report = json.loads(done.stdout)
        self.assertEqual(report["usable"], {"device": "rxe0", "port": 1, "kind": "kernel"})
        found = {(each["topic"], each["subject"]): each for each in report["findings"]}
        for device in RXE:
            self.assertEqual(found["message", f"{device} port 1"]["meaning"], "the message arrived")
            self.assertIn("RoCE v2 over IPv4", found["gid", f"{device} port 1"]["meaning"])
            self.assertEqual(found["permission", device]["severity"], "ok")
        self.assertIn(", over v0 with 1500", found["mtu", "rxe0 port 1"]["meaning"])
        self.assertIn("iWARP", found["message", "siw0 port 1"]["meaning"])
        self.assertIn("IP address", found["gid", "siw0 port 1"]["meaning"])
        self.assertNotIn(("attach", ""), found)


class Examples(unittest.TestCase):
    # Fewer clients than on the host: connecting takes about 15 times as long.
    arguments = {name: ("--clients", 20) for name in ("coroutines", "asio_echo", "senders")}
    # Fewer ranks, for the same reason; they also share one processor.
    arguments |= {name: (3,) for name in ("group", "hash_table", "training", "sort", "replicated_log", "batches")}

    # iWARP connects them by the connection manager, at an address of the device.
    on_siw = ("coroutines", "asio_echo", "senders", "epoll_loop")

    def test_echo_servers_run_on_siw0(self):
        for example in examples:
            name = pathlib.Path(example).name
            if name in self.on_siw:
                with self.subTest(example):
                    done = run(example, "--clients", 10, "--host", ADDRESSES["siw0"], VERBENA_SOFTDEV="off",
                               VERBENA_DEVICE="siw0")
                    self.assertEqual(done.returncode, 0, done.stdout)
        self.assertLessEqual(set(self.on_siw), {pathlib.Path(example).name for example in examples})

    def test_examples_run_on_rxe0(self):
        self.assertNotEqual(examples, [])
        for example in examples:
            with self.subTest(example):
                done = run(example, *self.arguments.get(pathlib.Path(example).name, ()), VERBENA_SOFTDEV="off")
                self.assertEqual(done.returncode, 0, done.stdout)


class ConnectionManager(unittest.TestCase):
    """The tests of the module cm and its examples, with the connection manager of the kernel."""

    # many_connections: hundreds of connections take too long on this slow machine.
    # iw_cm destroys the identifier of the active side only after the 10 s of siw's handshake (MPAREQ_TIMEOUT in siw_cm.h).
    # read_that_is_posted_in_part: fills a send queue, which rxe and siw empty without polls.
    # address_is_resolved_in_several_short_attempts: rdma_resolve_addr of the kernel fails at once without a route.
    on_neither = ("many_connections.*", "sessions.read_that_is_posted_in_part_closes_the_connection",
                  "cm_failures.address_is_resolved_in_several_short_attempts")
    left_out = {"rxe0": on_neither,
                "siw0": (*on_neither,
                         "connections.unanswered_request_times_out",
                         "connection_steps.deadline_ends_the_steps_of_each_side",
                         "connection_steps.listener_serves_clients_after_each_kind_of_end",
                         "sessions.deadline_ends_connect_and_wait")}

    skipped = {"rxe0": set(),
               "siw0": {"connections.read_depths_are_negotiated",  # the connection manager of iWARP does not report depths
                        "connections.initiator_depth_above_the_request_is_refused",
                        # iWARP has neither datagrams nor ECE, and no retries. Its handshake has no last message.
                        "identifiers.datagram_service_returns_its_address", "identifiers.ece_options_reach_the_peer",
                        "identifiers.multicast_groups_are_joined_and_left", "identifiers.multicast_join_returns_the_group_address",
                        "identifiers.retry_counts_of_the_options_reach_the_peer",
                        "identifiers.notify_replaces_the_last_message_of_the_handshake"}}

    def test_module_cm_passes_its_tests(self):
        for device, names in self.left_out.items():
            with self.subTest(device):
                done = run(build / "tests/cm_test", "--gtest_filter=-" + ":".join(names), VERBENA_SOFTDEV="off",
                           VERBENA_TEST_DEVICE=device)
                self.assertEqual(done.returncode, 0, done.stdout)
                ran = re.search(r"\[  PASSED  \] (\d+) tests", done.stdout)
                self.assertTrue(ran and int(ran.group(1)) >= 36, done.stdout)
                skipped = re.findall(r"^\[  SKIPPED \] (\S+) \(", done.stdout, re.MULTILINE)
                self.assertEqual(set(skipped), self.skipped[device])

    def test_examples_run_on_both_devices(self):
        for example in examples:
            if not example.endswith(("/cm_echo", "/key_value")):
                continue
            for device, address in ADDRESSES.items():
                with self.subTest(example, device=device):
                    done = run(example, address, VERBENA_SOFTDEV="off")
                    self.assertEqual(done.returncode, 0, done.stdout)


class Channels(unittest.TestCase):
    """The tests of the module channel, connected by a handshake on rxe and by the connection manager on siw."""

    # Without the tests of rule violations: they test only the library and need a forked child with the device's queues.
    suites = ("blocking_channel.*", "channel.*", "channel_creation.*", "channel_steps.*", "completion_hub.*",
              "managed_channel.*", "managed_channel_steps.*", "manual_scope.*", "operation_scope.*", "pending_operation.*")
    # These change the provider of soft0, or open soft0.
    software = ("channel_creation.failure_of_each_creation_call_leaves_no_object",
                "channel_creation.completion_queue_has_an_entry_for_each_operation",
                "channel_creation.peer_has_no_access_by_default",
                "channel.failed_polls_destroy_the_queue_pair_before_memory_is_returned")
    left_out = {"rxe0": software,
                "siw0": software + (
                    # iWARP is connected only by the connection manager, which selects path and retries.
                    "blocking_channel.channel_connected_to_itself_works", "channel.connects_over_a_stream",
                    "completion_hub.channels_share_a_hub_and_reserve_entries", "channel_creation.query_returns_the_options",
                    # iWARP has neither immediate data nor atomics, and a read has one SGE. It ends the connection if no
                    # receive is posted for a message.
                    "blocking_channel.send_is_received_on_another_thread",
                    "blocking_channel.atomics_change_remote_word_and_return_old_value",
                    "blocking_channel.scattered_write_and_read_transfer_all_slices",
                    "blocking_channel.inline_data_and_empty_messages_arrive",
                    "pending_operation.rdma_operations_transfer_bytes",
                    # siw completes a write when TCP accepts the data, and does not flush sends posted in the error state.
                    "blocking_channel.failed_completion_is_returned_with_all_fields",
                    "blocking_channel.passed_abort_at_ends_connection_and_returns_memory",
                    "operation_scope.inspected_failure_is_not_reported_again",
                    "operation_scope.failure_without_memory_for_its_result_is_counted",
                    # See ConnectionManager: iw_cm destroys the identifier of the active side only after 10 s.
                    "managed_channel_steps.deadline_ends_the_steps",
                    "managed_channel_steps.message_channels_can_be_destroyed_at_each_step",
                    "managed_channel_steps.sides_can_be_destroyed_at_each_step",
                    # The checker stops the program: the write of the ready word is still in flight when the hub has failed.
                    "managed_channel_steps.hub_that_fails_while_a_channel_connects_ends_it_afterwards",
                    # 24 connections take too long on this slow machine.
                    "pending_operation.objects_are_destroyed_in_any_order")}

    def test_module_channel_passes_its_tests(self):
        for device, names in self.left_out.items():
            # Both kernels have the same siw, and the newer one is the slower machine.
            if device == "siw0" and os.uname().release.startswith("6.12."):
                continue
            with self.subTest(device):
                done = run(build / "tests/channel_test", "--gtest_filter=" + ":".join(self.suites) + "-" + ":".join(names),
                           VERBENA_SOFTDEV="off", VERBENA_TEST_DEVICE=device)
                self.assertEqual(done.returncode, 0, done.stdout)
                ran = re.search(r"\[  PASSED  \] (\d+) tests", done.stdout)
                self.assertTrue(ran and int(ran.group(1)) >= 25, done.stdout)


class Asynchronous(unittest.TestCase):
    """Connections of the modules async and asio. The stage vm-matrix runs their other tests on rxe0."""

    suites = {"async_test": "managed_message_listeners.*:managed_async_channels.*", "asio_test": "asio_managed_connections.*:asio_steps.*"}
    # See ConnectionManager: iw_cm destroys the identifier of the active side only after 10 s.
    left_out = {"rxe0": (), "siw0": ("asio_managed_connections.cancelled_attempt_leaves_nothing",)}

    def test_channels_connect_by_the_connection_manager(self):
        for device, names in self.left_out.items():
            for program, suites in self.suites.items():
                if not (build / "tests" / program).exists():
                    continue  # asio_test needs Asio
                with self.subTest(device, program=program):
                    done = run(build / "tests" / program, f"--gtest_filter={suites}-{':'.join(names)}", VERBENA_SOFTDEV="off",
                               VERBENA_TEST_DEVICE=device)
                    self.assertEqual(done.returncode, 0, done.stdout)
                    self.assertNotIn("SKIPPED", done.stdout)


@unittest.skipIf(os.uname().release.startswith("6.1."), "the machine with the newer kernel has two nodes")
class Nodes(unittest.TestCase):
    """Memory on two NUMA nodes, the second one small and without processors, for tests of the module memory."""

    def ran(self, pattern, count, **variables):
        done = run(build / "tests/memory_test", f"--gtest_filter={pattern}", VERBENA_SOFTDEV="on", **variables)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, rf"\[  PASSED  \] {count} tests?\.")
        self.assertNotIn("SKIPPED", done.stdout)

    def test_pools_and_threads_are_on_the_requested_node(self):
        self.assertEqual(len(NODES), 2)
        self.ran("placing.*:numa.*", 13, VERBENA_TEST_DEVICE="rxe0")

    def test_huge_pages_of_pools_are_on_the_requested_node(self):
        reserved = [node / "hugepages/hugepages-2048kB/nr_hugepages" for node in NODES]
        for file in reserved:
            file.write_text("4")
            self.assertEqual(file.read_text(), "4\n")
        self.ran("pool_huge_pages.*", 4)
        for file in reserved:
            file.write_text("0")

    def test_full_node_is_named_and_no_process_is_killed(self):
        self.ran("full_node.*", 1, VERBENA_TEST_DEVICE="rxe0", VERBENA_TEST_FULL_NODE=NODES[1].name.removeprefix("node"))
        self.assertNotIn("oom-kill", run("dmesg").stdout)


@contextlib.contextmanager
def rcopy_server(folder, device, address="127.0.0.1"):
    """`rcopy serve` on a device and a free port; yields its address."""
    words = [build / "examples/rcopy/rcopy", "serve", folder, "--port", "0", "--device", device, "--bind", address]
    with tempfile.TemporaryFile("w+") as log, \
         subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                          text=True, env={**os.environ, "VERBENA_SOFTDEV": "off"}) as server:
        found = re.search(r":(\d+) \(", server.stdout.readline())
        if not found:
            server.wait(TIMEOUT_S)
            log.seek(0)
            raise AssertionError(f"rcopy serve did not start: {log.read()}")
        try:
            yield f"{address}:{found.group(1)}"
        finally:
            server.terminate()
            server.wait(TIMEOUT_S)


class Rcopy(unittest.TestCase):
    def copy(self, server_device, client_device, *words, address="127.0.0.1"):
        content = random.Random(f"{server_device}/{client_device}").randbytes(RCOPY_BYTES)
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as served:
            (pathlib.Path(folder) / "there").write_bytes(content)
            back = pathlib.Path(folder) / "back"
            with rcopy_server(served, server_device, address) as place:
                more = ("--quiet", "--device", client_device, "--timeout", "60", *words)
                for task in (("put", f"{folder}/there", place), ("get", "there", place, "-o", back)):
                    done = run(build / "examples/rcopy/rcopy", *task, *more, VERBENA_SOFTDEV="off")
                    self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual((pathlib.Path(served) / "there").read_bytes(), content)
            self.assertEqual(back.read_bytes(), content)

    def test_rcopy_puts_and_gets_between_rxe0_and_rxe1_over_the_wire(self):
        before = {name: packets(name) for name in WIRES["rxe"]}
        self.copy("rxe0", "rxe1")
        after = {name: packets(name) for name in WIRES["rxe"]}
        least = RCOPY_BYTES // 4096  # rxe's largest packet
        for name in WIRES["rxe"]:
            for way in ("rx", "tx"):
                self.assertGreater(after[name][way] - before[name][way], least, f"{name} {way}")

    def test_rcopy_puts_and_gets_by_the_connection_manager_on_both_devices(self):
        for device, route in (("rxe0", "rxe1"), ("siw0", "siw1")):  # over the wire
            with self.subTest(device):
                self.copy(device, route, "--over", "cm", address=ADDRESSES[device])


class Negotiation(unittest.TestCase):
    """Returns the output of two incompatible sides, or of two sides whose packets are dropped."""

    def refusal(self, server_device, client_device):
        with tempfile.TemporaryDirectory() as folder:
            with rcopy_server(folder, server_device) as place:
                done = run(build / "examples/rcopy/rcopy", "put", __file__, place, "--quiet", "--device", client_device,
                           "--timeout", "60", VERBENA_SOFTDEV="off")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_route_that_drops_packets_is_named(self):
        neighbours = [("v0", "10.0.0.2"), ("v1", "10.0.0.1")]
        for interface, address in neighbours:
            done = run("ip", "neigh", "replace", address, "lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", interface)
            self.assertEqual(done.returncode, 0, done.stdout)
        try:
            self.assertIn("UDP port 4791 may be blocked", self.refusal("rxe0", "rxe1"))
        finally:
            for interface, address in neighbours:
                run("ip", "neigh", "del", address, "dev", interface)

    def test_iwarp_is_named(self):
        self.assertIn("siw0 here is iWARP", self.refusal("rxe0", "siw0"))


class Coexistence(unittest.TestCase):
    """rxe and soft0 in one process of an unmodified program."""

    ways = {
        "preload": lambda: {"LD_PRELOAD": str(build / "lib/libverbena-preload.so")},
        "drop-in": lambda: {"LD_LIBRARY_PATH": str(build / "lib/dropin")},
    }

    def test_both_are_listed_hardware_first_and_once(self):
        for way, variables in self.ways.items():
            with self.subTest(way):
                shown = run("ibv_devices", VERBENA_SOFTDEV="on", **variables())
                names = re.findall(r"^\s+(\w+)\s+[0-9a-f]{16}$", shown.stdout, re.MULTILINE)
                self.assertEqual(sorted(names[:4]), sorted(RXE + SIW), shown.stdout)
                self.assertEqual(names[4:], ["soft0"], shown.stdout)

    def test_both_transfer(self):
        for way, variables in self.ways.items():
            with self.subTest(way):
                done = run(build / "tests/abi/abi_transfer", "rxe0", "soft0", "rxe1", VERBENA_SOFTDEV="on", **variables())
                self.assertEqual((done.returncode, done.stdout), (0, "rxe0: ok\nsoft0: ok\nrxe1: ok\n"))


if __name__ == "__main__":
    build = pathlib.Path(sys.argv[1]).resolve()
    examples = sys.argv[2:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
