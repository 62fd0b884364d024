# SPDX-License-Identifier: MIT
"""async: coroutines on soft0 between two processes, compared with verbs, TCP, and one connection.

Also counts the instructions of each kind of operation, like the benchmark channel.
"""
from __future__ import annotations

from bench.harness import build, channel
from bench.harness.figure import Figure
from bench.harness.local import Group, Peer, at_least, at_most, last_number, measure_group

NAME = "async"
SUMMARY = "coroutines on soft0, compared with verbs, TCP, and one connection; instructions of each operation"
DEPENDS_ON_COMPILER = False
NOTES = (
    "medians of the kept rounds; x is ours / peer in the same round; echo: processor time of both processes per round trip; "
    "channel's cases: instructions"
)

GROUPS = (
    Group("ping-pong 8 B", ("ping_pong",), "ns", (Peer("verbs", at_most(1.1), at_most(1.3)),)),
    Group("echo 64 B asleep", ("echo",), "ns", (Peer("TCP", at_most(0.5), at_most(0.8)),)),
    Group("echo, 1000 connections", ("many", "1000"), "msg/s",
          (Peer("1 connection", at_least(0.7), at_least(0.5)),)),
)  # fmt: skip


def measure(options) -> list[Figure]:
    programs = ["async_device", "channel_operations", "channel_ping_pong"]
    folder = build.build(options.compiler, [*programs, *build.SOFT_DEVICE])
    channel.use_soft_device(folder)
    program = folder / "async_device"
    peers = {
        "verbs": lambda: last_number(folder / "channel_ping_pong", "raw"),
        "TCP": lambda: last_number(program, "tcp_echo"),
        "1 connection": lambda: last_number(program, "many", "1"),
    }
    figures = channel.instructions(folder / "channel_operations")
    for group in GROUPS:
        figures += measure_group(
            group, lambda group=group: last_number(program, *group.device), peers, options.rounds
        )
    return figures


def versions(options) -> dict[str, str]:
    return {"compiler": build.version(build.COMPILERS[options.compiler][1])}
