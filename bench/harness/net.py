# SPDX-License-Identifier: MIT
"""net: barriers and all-reduce of groups on soft0, compared with Open MPI over shared memory; memory per peer."""
from __future__ import annotations

import pathlib
import shutil
import statistics
import subprocess

from bench.harness import build
from bench.harness.figure import Bound, Figure
from bench.harness.local import Group, Peer, at_most, last_number, measure_group

NAME = "net"
SUMMARY = "barriers and all-reduce of groups, compared with Open MPI over shared memory"
DEPENDS_ON_COMPILER = False
NOTES = "medians of the kept rounds; x is ours / peer in the same round; the processes share the processors of the host"


def all_reduce(label: str, size: int) -> Group:
    return Group(f"all_reduce {label}, 4 ranks", ("all_reduce", "4", str(size)), "ns",
                 (Peer("Open MPI", at_most(1.2), at_most(2.0)),))  # fmt: skip


GROUPS = (
    Group("barrier, 8 ranks", ("barrier", "8"), "ns", (Peer("Open MPI", at_most(1.0), at_most(2.0)),)),
    all_reduce("8 B", 8),
    all_reduce("64 KiB", 64 << 10),
    all_reduce("1 MiB", 1 << 20),
)  # fmt: skip


IDLE_PEERS = 32


def idle_peer(program: pathlib.Path) -> Figure:
    """Returns the memory that a process needs for each further peer that is connected and idle."""
    goal, limit = Bound("count", 32), Bound("count", 64)
    name = "memory of an idle peer"
    try:
        sizes = [statistics.median(last_number(program, "memory", str(ranks)) for _ in range(3))
                 for ranks in (2, 2 + IDLE_PEERS)]  # fmt: skip
    except (RuntimeError, subprocess.SubprocessError, OSError) as problem:
        return Figure(name, goal=goal, limit=limit, reason=str(problem))
    kib = (sizes[1] - sizes[0]) / IDLE_PEERS / 1024
    return Figure(name, f"{kib:.1f} KiB", f"{2 + IDLE_PEERS} and 2 ranks", {"count": kib}, goal=goal, limit=limit,
                  details={"unit": "KiB"})  # fmt: skip


def measure(options) -> list[Figure]:
    folder = build.build(options.compiler, ["group_operations", "mpi_operations", *build.SOFT_DEVICE])
    mpirun = pathlib.Path(shutil.which("mpirun.openmpi") or "mpirun.openmpi")

    def by_mpi(group: Group) -> float:
        operation, ranks, *size = group.device
        return last_number(mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader",
                           "-n", ranks, str(folder / "mpi_operations"), operation, *size)  # fmt: skip

    figures = []
    for group in GROUPS:
        figures += measure_group(
            group, lambda group=group: last_number(folder / "group_operations", *group.device),
            {"Open MPI": lambda group=group: by_mpi(group)}, options.rounds,
        )  # fmt: skip
    figures.append(idle_peer(folder / "group_operations"))
    return figures


def versions(options) -> dict[str, str]:
    return {"compiler": build.version(build.COMPILERS[options.compiler][1]), "Open MPI": build.version("mpirun.openmpi")}
