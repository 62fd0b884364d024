# SPDX-License-Identifier: MIT
"""local: soft0 between two processes, compared with UCX, a cache-line ping-pong, memcpy and TCP."""
from __future__ import annotations

import dataclasses
import math
import pathlib
import subprocess
from collections.abc import Callable

from bench.harness import build, rounds, ucx
from bench.harness.figure import Better, Bound, Figure

NAME = "local"
SUMMARY = "soft0 between two processes, compared with UCX, memcpy and TCP"
DEPENDS_ON_COMPILER = False
NOTES = "medians of the kept rounds; x is ours / peer in the same round; GB is 10^9 bytes"
OURS = "ours"
KIB64, MIB1 = 64 << 10, 1 << 20


def at_most(value: float) -> Bound:
    return Bound("ratio", value, Better.LESS)


def at_least(value: float) -> Bound:
    return Bound("ratio", value, Better.MORE)


def time_at_most(nanoseconds: float) -> Bound:
    return Bound("ours", nanoseconds, Better.LESS)


@dataclasses.dataclass(frozen=True)
class Peer:
    """A program to compare with, a key of peer_programs(). A peer without bounds is not judged."""

    program: str  # the part before the comma is the label in the table
    goal: Bound | None = None
    limit: Bound | None = None

    @property
    def label(self) -> str:
        return self.program.split(",")[0]


@dataclasses.dataclass(frozen=True)
class Group:
    """A measurement on soft0 and its peers. Their programs run alternately."""

    name: str
    device: tuple[str, ...]  # arguments of the program
    unit: str  # ns, msg/s, B/s
    peers: tuple[Peer, ...]
    program: str = "local_device"


def bandwidth(size: int, label: str) -> tuple[Group, Group]:
    tcp = Peer(f"TCP, {label}")
    return (
        Group(f"write {label}", ("write_bandwidth", "shareable", str(size)), "B/s",
              (Peer(f"memcpy, {label}", at_least(0.95), at_least(0.85)),
               Peer(f"UCX put, {label}"), tcp)),
        Group(f"write {label} ordinary", ("write_bandwidth", "ordinary", str(size)), "B/s",
              (Peer(f"UCX cma, {label}", at_least(1.2), at_least(1.0)), tcp)),
    )  # fmt: skip


def registration(label: str, kind: str, size: int) -> Group:
    return Group(f"register {label}", ("registration", kind, str(size)), "ns",
                 (Peer("of 4 KiB", time_at_most(1000), time_at_most(3000)),))  # fmt: skip


def one_process(operation: str) -> Group:
    return Group(f"{operation} 8 B one process", ("soft0", operation), "ns",
                 (Peer(f"null, {operation}", at_most(15.0), at_most(30.0)),),
                 "same_process")  # fmt: skip


# Goals and limits are ratios, and times for registration. docs/benchmarks.md explains their values.
GROUPS = (
    Group("write 8 B latency", ("write_latency", "shareable", "8"), "ns",
          (Peer("ping-pong", at_most(2.0), at_most(3.0)), Peer("UCX put"), Peer("TCP"))),
    Group("send 8 B latency", ("send_latency", "shareable", "8"), "ns",
          (Peer("UCX tag", at_most(2.0), at_most(3.0)),
           Peer("ping-pong", at_most(5.0), at_most(8.0)), Peer("TCP"))),
    Group("send 8 B ordinary", ("send_latency", "ordinary", "8"), "ns",
          (Peer("UCX tag"), Peer("TCP"))),
    Group("send 8 B asleep", ("event_latency", "shareable", "8"), "ns",
          (Peer("eventfd", at_most(1.2), at_most(1.5)),
           Peer("TCP asleep", at_most(1.0), at_most(1.3)))),
    Group("atomic 8 B ordinary", ("atomic_latency", "ordinary", "8"), "ns",
          (Peer("eventfd", at_most(1.1), at_most(1.5)),)),
    Group("write 8 B rate", ("write_rate", "shareable", "8"), "msg/s",
          (Peer("UCX put, rate", at_least(0.5), at_least(0.3)),)),
    Group("write 8 B ordinary", ("write_rate", "ordinary", "8"), "msg/s",
          (Peer("writev", at_least(6.0), at_least(3.0)),)),
    Group("send 8 B rate", ("send_rate", "shareable", "8"), "msg/s",
          (Peer("UCX tag, rate", at_least(0.9), at_least(0.6)),)),
    *bandwidth(KIB64, "64 KiB"),
    *bandwidth(MIB1, "1 MiB"),
    Group("send 64 KiB", ("send_bandwidth", "shareable", str(KIB64)), "B/s",
          (Peer("memcpy, 64 KiB", at_least(0.5), at_least(0.35)),)),
    Group("read 64 KiB", ("read_bandwidth", "shareable", str(KIB64)), "B/s",
          (Peer("WRITE, 64 KiB", at_least(0.9), at_least(0.7)),)),
    one_process("write"),
    one_process("send"),
    Group("connect again", ("connection", "shareable", "64"), "ns",
          (Peer("AF_UNIX", at_most(1.5), at_most(3.0)),)),
    registration("64 KiB", "ordinary", 64 << 10),
    registration("1 GiB", "ordinary", 1 << 30),
    registration("shareable", "shareable", 64 << 10),
)  # fmt: skip


def text(value: float, unit: str) -> str:
    if unit == "ns" and value < 100:
        return f"{value:.1f} ns"
    if unit == "ns":
        return f"{value:.0f} ns" if value < 10_000 else f"{value / 1e3:.1f} us"
    if unit == "msg/s":
        return f"{value / 1e6:.2f} M/s"
    return f"{value / 1e9:.1f} GB/s"


def last_number(program: pathlib.Path, *arguments: str) -> float:
    command = [str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"{program.name} {' '.join(arguments)}: {done.stderr.strip()[-300:] or done.returncode}"
        )
    value = float(done.stdout.split()[-1])
    if not math.isfinite(value) or value <= 0:
        raise RuntimeError(f"{program.name} {' '.join(arguments)}: {value} is not a positive number")
    return value


def peer_programs(folder: pathlib.Path) -> dict[str, Callable[[], float]]:
    """Returns functions that run a peer and return its value, in the unit of the groups that use it."""
    limits, device = folder / "limits", folder / "local_device"
    same_process = folder / "same_process"
    programs: dict[str, Callable[[], float]] = {
        "ping-pong": lambda: last_number(limits, "ping_pong"),
        "eventfd": lambda: last_number(limits, "eventfd"),
        "writev": lambda: last_number(limits, "writev"),
        "AF_UNIX": lambda: last_number(limits, "unix_descriptor"),
        "null, write": lambda: last_number(same_process, "null", "write"),
        "null, send": lambda: last_number(same_process, "null", "send"),
        "TCP": lambda: last_number(limits, "tcp_latency"),
        "TCP asleep": lambda: last_number(limits, "tcp_sleeping"),
        "WRITE, 64 KiB": lambda: last_number(device, "write_bandwidth", "shareable", str(KIB64)),
        "of 4 KiB": lambda: last_number(device, "registration", "ordinary", "4096"),
        "UCX put": lambda: ucx.run("ucp_put_lat", 8, 500_000).latency_ns,
        "UCX tag": lambda: ucx.run("tag_lat", 8, 250_000).latency_ns,
        "UCX put, rate": lambda: ucx.run("ucp_put_bw", 8, 5_000_000).messages_per_second,
        "UCX tag, rate": lambda: ucx.run("tag_bw", 8, 2_000_000).messages_per_second,
    }
    for size, label, times in ((KIB64, "64 KiB", 40_000), (MIB1, "1 MiB", 4_000)):
        programs[f"memcpy, {label}"] = lambda size=size: last_number(limits, "memcpy", str(size))
        programs[f"TCP, {label}"] = lambda size=size: last_number(
            limits, "tcp_bandwidth", str(size)
        )
        programs[f"UCX put, {label}"] = lambda size=size, times=times: ucx.run(
            "ucp_put_bw", size, times
        ).bytes_per_second
        programs[f"UCX cma, {label}"] = lambda size=size, times=times: ucx.run(
            "tag_bw", size, times // 2, "posix,cma"
        ).bytes_per_second
    return programs


def figure(group: Group, peer: Peer, outcome: rounds.Outcome) -> Figure:
    details = {
        "group": group.name,
        "unit": group.unit,
        "rounds": outcome.total,
        "rounds_kept": len(outcome.kept),
    }
    one = Figure(group.name, goal=peer.goal, limit=peer.limit, peer=peer.label, details=details)
    if not outcome.has_result:
        one.reason = f"{peer.label} was steady in {len(outcome.kept)} of {outcome.total} rounds"
        return one
    one.numbers = {"ratio": outcome.ratio, "ours": outcome.ours, "peer": outcome.peer}
    one.value = f"{text(outcome.ours, group.unit)} {outcome.ratio:#.3g}x"
    one.peer = f"{peer.label} {text(outcome.peer, group.unit)}"
    details["samples"] = [[pair.ours, pair.peer] for pair in outcome.kept]
    return one


def measure_group(
    group: Group, device: Callable[[], float], peers: dict, least_rounds: int
) -> list[Figure]:
    programs = {peer.program: peers[peer.program] for peer in group.peers} | {OURS: device}
    try:
        samples = rounds.interleave(programs, OURS, least_rounds)
    except (RuntimeError, subprocess.SubprocessError, OSError) as problem:
        return [
            Figure(
                group.name, goal=peer.goal, limit=peer.limit, peer=peer.label, reason=str(problem)
            )
            for peer in group.peers
        ]
    return [
        figure(group, peer, rounds.outcome(samples, peer.program, OURS)) for peer in group.peers
    ]


def measure(options) -> list[Figure]:
    folder = build.build(options.compiler, ["limits", "local_device", "same_process", *build.SOFT_DEVICE])
    peers = peer_programs(folder)
    figures = []
    for group in GROUPS:
        device = lambda group=group: last_number(
            folder / group.program, *group.device
        )  # noqa: E731
        figures += measure_group(group, device, peers, options.rounds)
    return figures


def versions(options) -> dict[str, str]:
    done = subprocess.run(["ucx_info", "-v"], capture_output=True, text=True, check=False)
    return {
        "compiler": build.version(build.COMPILERS[options.compiler][1]),
        "ucx": (done.stdout.splitlines() or ["unknown"])[0].lstrip("# "),
    }
