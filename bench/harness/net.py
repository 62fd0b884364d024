# SPDX-License-Identifier: MIT
"""net: groups on soft0, compared with Open MPI over shared memory; connections, memory per peer, failure of a rail."""
from __future__ import annotations

import pathlib
import shutil
import statistics
import subprocess

from bench.harness import build
from bench.harness.figure import Better, Bound, Figure
from bench.harness.local import Group, Peer, at_most, last_number, measure_group

NAME = "net"
SUMMARY = "groups of ranks, compared with Open MPI over shared memory; connections, failure of a rail"
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


CONNECTIONS = Group("connect 64 ranks", ("connect", "64"), "ns", (Peer("one after another", at_most(1.2), at_most(2.0)),))

IDLE_PEERS = 32
MANY = 1000
TIMES = 5  # runs of the programs without a peer


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


def many_connections(program: pathlib.Path) -> Figure:
    """Returns the time in which 99 % of many clients that start together are connected to one process."""
    goal, limit = Bound("seconds", 1), Bound("seconds", 3)
    name = f"connect {MANY} clients"
    try:
        samples = [last_number(program, str(MANY)) / 1e9 for _ in range(TIMES)]
    except (RuntimeError, subprocess.SubprocessError, OSError) as problem:
        return Figure(name, goal=goal, limit=limit, reason=str(problem))
    seconds = statistics.median(samples)
    return Figure(name, f"{seconds:.2f} s", "99th percentile", {"seconds": seconds}, goal=goal, limit=limit,
                  details={"unit": "s", "samples": samples})  # fmt: skip


def rail_flap(program: pathlib.Path) -> list[Figure]:
    """Returns the operations that failed, and the throughput after one of two rails has failed and returned."""
    none = Bound("count", 0)
    goal, limit = Bound("ratio", 0.95, Better.MORE), Bound("ratio", 0.8, Better.MORE)
    names = ("rail flaps: failed", "rail flaps: throughput")
    try:
        runs = [subprocess.run([str(program)], capture_output=True, text=True, timeout=150, check=True).stdout.split()
                for _ in range(TIMES)]  # fmt: skip
        failed, samples = sum(int(run[0]) for run in runs), [float(run[1]) for run in runs]
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as problem:
        return [Figure(names[0], goal=none, limit=none, reason=str(problem)),
                Figure(names[1], goal=goal, limit=limit, reason=str(problem))]  # fmt: skip
    ratio = statistics.median(samples)
    return [
        Figure(names[0], f"{failed} operations", "", {"count": failed}, goal=none, limit=none),
        Figure(names[1], f"{ratio:#.3g}x", "before the failure", {"ratio": ratio}, goal=goal, limit=limit,
               details={"samples": samples}),
    ]  # fmt: skip


def measure(options) -> list[Figure]:
    folder = build.build(options.compiler, ["group_operations", "many_connections", "rail_flap", "mpi_operations",
                                            *build.SOFT_DEVICE])  # fmt: skip
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
    figures += measure_group(
        CONNECTIONS, lambda: last_number(folder / "group_operations", *CONNECTIONS.device),
        {"one after another": lambda: last_number(folder / "group_operations", "connect_alone", "64")}, options.rounds,
    )  # fmt: skip
    figures.append(many_connections(folder / "many_connections"))
    figures.append(idle_peer(folder / "group_operations"))
    return figures + rail_flap(folder / "rail_flap")


def versions(options) -> dict[str, str]:
    return {"compiler": build.version(build.COMPILERS[options.compiler][1]), "Open MPI": build.version("mpirun.openmpi")}
