# SPDX-License-Identifier: MIT
"""scale: soft0 with many queue pairs, threads and processes, compared with one."""
from __future__ import annotations

import dataclasses
import pathlib
import subprocess

from bench.harness import build
from bench.harness.figure import Bound, Better, Figure
from bench.harness.local import Group, Peer, at_least, at_most, last_number, measure_group

NAME = "scale"
SUMMARY = "soft0 with many queue pairs, threads and processes, compared with one"
DEPENDS_ON_COMPILER = False
NOTES = "rates and times: medians of the kept rounds; x is many / one in the same round; counts: one run"
PROGRAM = "scale_device"
CROWD = 64
MANY_THREADS = (8, 64)

# Arguments of scale_device; the peer is the same measurement with the number in its label.
GROUPS = (
    Group("write, 1000 QPs", ("write_rate", "1000"), "msg/s", (Peer("1", limit=at_least(0.6)),)),
    Group("write, 10000 QPs", ("write_rate", "10000"), "msg/s", (Peer("1", limit=at_least(0.3)),)),
    Group("send, 1000 QPs", ("send_rate", "1000"), "msg/s", (Peer("1", limit=at_least(0.6)),)),
    Group("send, 10000 QPs", ("send_rate", "10000"), "msg/s", (Peer("1", limit=at_least(0.3)),)),
    Group("arm CQ of 1000 QPs", ("arming", "1000"), "ns", (Peer("1", limit=at_most(1.5)),)),
    Group("send beside 1000 RNR", ("beside", "1000"), "msg/s", (Peer("0", limit=at_least(0.8)),)),
    Group("send, 8 threads", ("thread_rate", "8"), "msg/s", (Peer("1"),)),
    Group("send, 64 threads", ("thread_rate", "64"), "msg/s", (Peer("1"),)),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Count:
    """A number of the crowd, or of the idle processes. A number without a limit is not judged."""

    key: str
    figure: str
    unit: str
    most: float | None = None


CROWD_COUNTS = (
    Count("pair_kib", "memory of an idle pair", "KiB", 64),
    Count("peer_descriptors", "descriptors of a peer", "", 2),
    Count("process_kib", "memory of a process", "KiB"),
    Count("process_descriptors", "descriptors of a process", ""),
    Count("process_threads", "threads of a process", "", 2),
    Count("connect_ms", "connect all to all", "ms"),
    Count("idle_ms_per_s", "idle, 63 peers", "ms/s", 1),
)
IDLE = Count("idle", "idle, 1000 QPs", "ms/s", 1)


def count_figure(what: Count, value: float, run: str) -> Figure:
    limit = None if what.most is None else Bound("count", what.most, Better.LESS)
    return Figure(what.figure, f"{value:.2f} {what.unit}".strip(), run, {"count": value}, limit=limit,
                  details={"unit": what.unit or "count"})  # fmt: skip


def read_counts(text: str) -> dict[str, float]:
    """Reads lines `NAME NUMBER`."""
    pairs = (line.split() for line in text.splitlines() if line.strip())
    return {name: float(number) for name, number in pairs}


def instruction_figures(name: str, by_threads: dict[int, tuple[float, float]]) -> list[Figure]:
    """Compares instructions and locked instructions per operation with those of the fewest threads.

    The peer is two threads: a process with one thread needs no locked instruction at all.
    """
    least = min(by_threads)
    alone = by_threads[least]
    figures = []
    for threads, (instructions, locked) in by_threads.items():
        if threads == least:
            continue
        label = f"{name}, {threads} threads"
        peer = f"{least} threads"
        figures.append(Figure(
            f"{label}", f"{instructions:.0f} instr {instructions / alone[0]:.2f}x",
            f"{peer} {alone[0]:.0f}", {"ratio": instructions / alone[0]}, limit=at_most(1.1),
            details={"unit": "instructions"}))  # fmt: skip
        figures.append(Figure(
            f"{label}, locked", f"{locked:.1f} +{locked - alone[1]:.1f}", f"{peer} {alone[1]:.1f}",
            {"extra": locked - alone[1]}, limit=Bound("extra", 0.5, Better.LESS),
            details={"unit": "locked instructions"}))  # fmt: skip
    return figures


def output_of(program: pathlib.Path, *arguments: str) -> str:
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=400, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"{program.name} {' '.join(arguments)}: {done.stderr.strip()[-300:] or done.returncode}"
        )
    return done.stdout


def measure_instructions(program: pathlib.Path, mode: str, name: str) -> list[Figure]:
    try:
        counts = {}
        for threads in (2, *MANY_THREADS):
            instructions, locked = output_of(program, mode, str(threads)).split()
            counts[threads] = (float(instructions), float(locked))
    except (RuntimeError, subprocess.SubprocessError, ValueError) as problem:
        return [Figure(name, limit=at_most(1.1), reason=str(problem))]
    return instruction_figures(name, counts)


def measure_crowd(program: pathlib.Path) -> list[Figure]:
    run = f"{CROWD} processes"
    try:
        counts = read_counts(output_of(program, "crowd", str(CROWD)))
        return [count_figure(one, counts[one.key], run) for one in CROWD_COUNTS]
    except (RuntimeError, subprocess.SubprocessError, ValueError, KeyError) as problem:
        return [Figure(one.figure, reason=str(problem)) for one in CROWD_COUNTS[:1]]


def measure(options) -> list[Figure]:
    folder = build.build(options.compiler, [PROGRAM, *build.SOFT_DEVICE])
    program = folder / PROGRAM
    figures = measure_instructions(program, "send_instructions", "SEND")
    figures += measure_instructions(program, "write_instructions", "WRITE")
    figures += measure_crowd(program)
    figures.append(count_figure(IDLE, last_number(program, "idle", "1000"), "2 processes"))
    for group in GROUPS:
        mode = group.device[0]
        peers = {
            peer.program: (lambda mode=mode, peer=peer: last_number(program, mode, peer.program))
            for peer in group.peers
        }
        ours = lambda group=group: last_number(program, *group.device)  # noqa: E731
        figures += measure_group(group, ours, peers, options.rounds)
    return figures


def versions(options) -> dict[str, str]:
    return {"compiler": build.version(build.COMPILERS[options.compiler][1])}
