# SPDX-License-Identifier: MIT
"""connect: connection set-up with librdmacm on soft0, compared with TCP, between two processes."""
from __future__ import annotations

import pathlib

from bench.harness import build
from bench.harness.figure import Figure
from bench.harness.local import Group, Peer, at_most, last_number, measure_group

NAME = "connect"
SUMMARY = "connection set-up with librdmacm on soft0, compared with TCP"
DEPENDS_ON_COMPILER = False
NOTES = "medians of the kept rounds; x is ours / peer in the same round"
CONNECTIONS = "500"

GROUP = Group("connect", ("rdma", CONNECTIONS), "ns", (Peer("TCP", at_most(3.0), at_most(6.0)),))


def measure(options) -> list[Figure]:
    folder = build.build(options.compiler, ["connections", "verbena-preload", *build.SOFT_DEVICE])
    program = folder / "connections"
    preload = folder.parent / "lib" / "libverbena-preload.so"

    def ours() -> float:
        return last_number(pathlib.Path("env"), "VERBENA_SOFTDEV=only", f"LD_PRELOAD={preload}",
                           str(program), *GROUP.device)  # fmt: skip

    def tcp() -> float:
        return last_number(program, "tcp", CONNECTIONS)

    return measure_group(GROUP, ours, {"TCP": tcp}, options.rounds)


def versions(options) -> dict[str, str]:
    return {"compiler": build.version(build.COMPILERS[options.compiler][1])}
