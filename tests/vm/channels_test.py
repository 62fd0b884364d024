#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs inside the virtual machine: the tests of the module channel, except those listed here, on a device of the kernel.

channels_test.py DEVICE PROGRAM: DEVICE is rxe0 or siw0, PROGRAM is channel_test. The campaigns are run by rounds.py.
"""
import os
import pathlib
import subprocess
import sys

import machine_test

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))
from googletest import tests_of  # noqa: E402

# Tests that no kernel device supports: injected failures and changes, and use by a forked child that violates a rule.
EVERYWHERE = (
    "*death*", "port_flap.*", "inject_event.*", "second_port.*", "recovery_processes.flapping_port_delivers_each_number_once",
    "message_channel_failure.failure_of_each_data_path_call_is_reported",
    "message_channel_failure.failure_of_each_creation_call_leaves_no_object",
    "killed_peers/*", "*campaign.*")
# Opens the first device: on siw0, it waits for a request of the connection manager instead of a TCP connection.
FIRST_DEVICE = "message_channel.listening_ends_if_the_peer_does_not_negotiate"
MORE = {
    "rxe0": (FIRST_DEVICE,),
    "siw0": (
        FIRST_DEVICE,
        # These tests connect by a stream or a handshake, which iWARP does not support.
        "recovery.*", "recovery_processes.killed_peer_leaves_known_and_unknown_messages", "reconnect.*",
        "message_channel.connects_over_a_stream", "message_channel.receives_use_a_pool_of_the_program",
        "message_channel_failure.invalid_credit_of_the_peer_is_ignored",
        # iWARP ends the connection if no receive is posted for a message, which can occur without credits.
        "message_channel.without_credits_rnr_error_is_reported", "message_channel.send_with_full_queue_is_refused",
        # siw completes a send when TCP accepts the data. It reports a lost peer by flushed receives.
        "message_channel_failure.lost_peer_leaves_a_range_of_unknown_messages",
        "message_channel_failure.flush_returns_all_memory_and_reports_the_unknown_range"),
}


def main(device, program):
    left_out = [*EVERYWHERE, *machine_test.Channels.left_out[device], *MORE[device]]
    stale = [name for name in left_out if not tests_of(program, name)]
    if stale:
        print(f"no such tests: {', '.join(stale)}")
        return 1
    chosen = f"-{':'.join(left_out)}"
    print(f"{device}: {len(tests_of(program, chosen))} of {len(tests_of(program, '*'))} tests", flush=True)
    return subprocess.run([program, "--gtest_brief=1", f"--gtest_filter={chosen}"], stdin=subprocess.DEVNULL, check=False,
                          env={**os.environ, "VERBENA_SOFTDEV": "off", "VERBENA_TEST_DEVICE": device}).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
