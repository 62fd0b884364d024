# SPDX-License-Identifier: MIT
"""channel: channel operations compared with raw post and poll in C.

Counts instructions on a replaced data path, and measures the time of a message round trip on soft0.
"""
from __future__ import annotations

import os
import pathlib

from bench.harness import build, callgrind, local, overhead
from bench.harness.figure import Bound, Figure

NAME = "channel"
SUMMARY = "operations of a channel, compared with post and poll in C"
NOTES = "instructions per operation (device included); ping_pong: time; x is ours / raw"
DEPENDS_ON_COMPILER = True
CALLS = 64
NO_ALLOCATION = Bound("allocations", 0)


def bounds(goal: float, limit: float) -> dict[str, Bound]:
    return {"goal": Bound("ratio", goal), "limit": Bound("ratio", limit)}


# Each case: the C peer, which executes one operation; the number of operations per call; goal and limit. unpolled_write
# also moves a buffer into the operation and back. Coroutines: one that awaits one operation at a time, so that each poll
# of the completion queue finds one completion, and 16 that do so at the same time. Handlers of Asio likewise.
BLOCKING = bounds(1.6, 2.0)
SCOPED = bounds(1.6, 1.8)
OWNED = bounds(2.5, 3.0)
COROUTINES = bounds(1.6, 2.0)
HANDLERS = bounds(2.0, 3.0)
CASES = {
    "blocking_write": ("raw_write", 1, BLOCKING),
    "blocking_receive": ("raw_receive", 1, BLOCKING),
    "scoped_write_16": ("raw_write", 16, SCOPED),
    "scoped_receive_16": ("raw_receive", 16, SCOPED),
    "coroutine_write": ("raw_write", 16, COROUTINES),
    "coroutine_receive": ("raw_receive", 16, COROUTINES),
    "coroutine_write_16": ("raw_write", 256, COROUTINES),
    "coroutine_receive_16": ("raw_receive", 256, COROUTINES),
    "asio_write": ("raw_write", 16, HANDLERS),
    "asio_receive": ("raw_receive", 16, HANDLERS),
    "asio_write_16": ("raw_write", 256, HANDLERS),
    "asio_receive_16": ("raw_receive", 256, HANDLERS),
    "unpolled_write": ("raw_write", 1, OWNED),
}
PING_PONG = local.Group("ping_pong", (), "ns", (local.Peer("raw", local.at_most(1.15), local.at_most(1.3)),))


def use_soft_device(folder: pathlib.Path) -> None:
    """Has programs load the soft0 of the benchmark's build."""
    os.environ["VERBENA_SOFTDEV_LIBRARY"] = str(folder.parent / "lib" / "libverbena-soft.so.0")


def instructions(program: pathlib.Path) -> list[Figure]:
    """Counts the instructions and the allocations of all cases."""
    functions = callgrind.run([str(program), "--count", str(CALLS)], "case_*")
    spent = {name.removeprefix("case_"): one.inclusive / CALLS for name, one in functions.items()}
    figures = []
    for case, (peer, operations, limits) in CASES.items():
        ours = spent[case] / operations
        ratio = ours / spent[peer]
        figures.append(
            Figure(case, value=f"{ours:g} {ratio:.2f}x", peer=f"{spent[peer]:g}", numbers={"ratio": ratio}, **limits)
        )
    allocations = {name: int(count) for name, count in overhead.lines_of(program, "--allocations")}
    count = sum(allocations.values())
    figures.append(
        Figure("allocations", value=str(count), numbers={"allocations": count}, goal=NO_ALLOCATION, limit=NO_ALLOCATION)
    )
    return figures


def measure(options) -> list[Figure]:
    programs = ["channel_operations", "channel_ping_pong"]
    folder = build.build(options.compiler, [*programs, *build.SOFT_DEVICE])
    use_soft_device(folder)
    operations, ping_pong = (folder / name for name in programs)
    return instructions(operations) + local.measure_group(
        PING_PONG,
        lambda: local.last_number(ping_pong, "scoped"),
        {"raw": lambda: local.last_number(ping_pong, "raw")},
        options.rounds,
    )


versions = overhead.versions
