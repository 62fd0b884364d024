# SPDX-License-Identifier: MIT
"""net: barriers and all-reduce of groups on soft0, compared with Open MPI over shared memory."""
from __future__ import annotations

import pathlib
import shutil

from bench.harness import build
from bench.harness.figure import Figure
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
    return figures


def versions(options) -> dict[str, str]:
    return {"compiler": build.version(build.COMPILERS[options.compiler][1]), "Open MPI": build.version("mpirun.openmpi")}
