# SPDX-License-Identifier: MIT
"""channel: operations of a channel beside raw post and poll, in instructions, on a device that does nothing."""
from __future__ import annotations

import os
import subprocess

from bench.harness import build, callgrind
from bench.harness.figure import Bound, Figure

NAME = "channel"
SUMMARY = "safe operations of a channel against raw post and poll in C, in instructions"
NOTES = "instructions per operation, the device's few among them; x is ours / raw"
DEPENDS_ON_COMPILER = True
CALLS = 64
GOAL, LIMIT = Bound("ratio", 1.6), Bound("ratio", 2.0)
NO_ALLOCATION = Bound("allocations", 0)

# Case: its peer in C, which is one operation, and the operations of one call. The unpolled level has no bound of its own: it moves a buffer.
CASES = {
    "blocking_write": ("raw_write", 1),
    "blocking_receive": ("raw_receive", 1),
    "scoped_write_16": ("raw_write", 16),
    "unpolled_write": ("raw_write", 1),
}
BOUNDED = ("blocking_write", "blocking_receive", "scoped_write_16")


def measure(options) -> list[Figure]:
    folder = build.build(options.compiler, ["channel_operations", *build.SOFT_DEVICE])
    program = str(folder / "channel_operations")
    os.environ["VERBENA_SOFTDEV_LIBRARY"] = str(folder.parent / "lib" / "libverbena-soft.so.0")
    functions = callgrind.run([program, "--count", str(CALLS)], "case_*")
    spent = {name.removeprefix("case_"): one.inclusive / CALLS for name, one in functions.items()}
    listed = subprocess.run([program, "--allocations"], capture_output=True, text=True, check=True)
    allocations = {name: int(count) for name, count in map(str.split, listed.stdout.splitlines())}
    figures = []
    for case, (peer, operations) in CASES.items():
        ours = spent[case] / operations
        ratio = ours / spent[peer]
        bounds = {"goal": GOAL, "limit": LIMIT} if case in BOUNDED else {}
        figures.append(
            Figure(case, value=f"{ours:g} {ratio:.2f}x",
                   peer=f"{spent[peer]:g}", numbers={"ratio": ratio}, **bounds)
        )  # fmt: skip
    count = sum(allocations[case] for case in CASES)
    figures.append(
        Figure("allocations", value=str(count), numbers={"allocations": count}, goal=NO_ALLOCATION, limit=NO_ALLOCATION)
    )
    return figures


def versions(options) -> dict[str, str]:
    return {
        "compiler": build.version(build.COMPILERS[options.compiler][1]),
        "valgrind": build.version("valgrind"),
    }
