# SPDX-License-Identifier: MIT
"""wire: packets of soft0 over UDP, compared with raw UDP, TCP and ISA-L, on loopback and on a veth pair."""
from __future__ import annotations

import dataclasses
import pathlib
import subprocess
from collections.abc import Callable

from bench.harness import build
from bench.harness.figure import Better, Bound, Figure
from bench.harness.local import Group, Peer, at_least, at_most, last_number, measure_group, time_at_most

NAME = "wire"
SUMMARY = "packets of soft0 over UDP, compared with raw UDP, TCP and ISA-L"
DEPENDS_ON_COMPILER = False
NOTES = ("medians of the kept rounds; x is ours / peer in the same round; loopback: two processes of one host, of which one"
         " forwards the packets of the other")  # fmt: skip
NETWORKS = ("veth", "loopback")
FAULTS = "VERBENA_SOFTDEV_WIRE_FAULTS"


@dataclasses.dataclass(frozen=True)
class Case:
    """A measurement on each network. `faults` is the setting for ours, without which a peer can be soft0 itself."""

    name: str
    mode: str
    unit: str
    peers: tuple[Peer, ...]  # Peer.program: a label, a comma, a mode of wire_device
    faults: str = ""
    networks: tuple[str, ...] = NETWORKS


CASES = (
    Case("send 8 B latency", "send_latency", "ns", (Peer("UDP, udp_latency", at_most(1.5), at_most(2.5)),)),
    Case("write 64 KiB", "write_bandwidth", "B/s",
         (Peer("UDP GSO, udp_bandwidth", at_least(0.6), at_least(0.4)),
          Peer("TCP, tcp_bandwidth", at_least(1.0), at_least(0.5)),
          Peer("UDP, udp_single_bandwidth"))),
    Case("send 8 B rate", "send_rate", "msg/s", (Peer("libfabric, libfabric_rate", at_least(10), at_least(4)),)),
    Case("1/4096 lost", "write_bandwidth", "B/s", (Peer("none lost, write_bandwidth", at_least(0.98), at_least(0.9)),),
         "loss=0.0244%"),
    Case("1 % lost", "write_bandwidth", "B/s", (Peer("none lost, write_bandwidth", at_least(0.7), at_least(0.5)),), "loss=1%"),
    Case("last packet lost", "repair_time", "ns", (Peer("UDP, udp_latency", None, time_at_most(2e6)),), "loss=2%"),
    Case("1,000 connections", "connections", "msg/s", (Peer("one, one_connection", at_least(0.7), at_least(0.5)),)),
    Case("ICRC of 4 KiB", "icrc", "ns", (Peer("memcpy + ISA-L, isal", at_most(1.0), at_most(1.3)),), networks=("loopback",)),
)  # fmt: skip


def run(program: pathlib.Path, network: str, mode: str, faults: str = "") -> float:
    """Returns the number that wire_device prints; of libfabric, that of its program, over loopback."""
    if mode == "libfabric_rate":
        return last_number(program.with_name(mode))
    environment = (f"{FAULTS}={faults}",) if faults else ("-u", FAULTS)
    return last_number(pathlib.Path("/usr/bin/env"), *environment, str(program), network, mode)


def has_namespaces(program: pathlib.Path) -> bool:
    done = subprocess.run([str(program), "veth", "udp_latency"], capture_output=True, timeout=150, check=False)
    return done.returncode == 0


def measure_case(case: Case, network: str, program: pathlib.Path, least_rounds: int) -> list[Figure]:
    def of(mode: str) -> Callable[[], float]:
        return lambda: run(program, network, mode)

    group = Group(f"{case.name}, {network}", (), case.unit, case.peers)
    peers = {peer.program: of(peer.program.split(", ")[1]) for peer in case.peers}
    return measure_group(group, lambda: run(program, network, case.mode, case.faults), peers, least_rounds)


def fairness(program: pathlib.Path, network: str) -> Figure:
    """Returns Jain's index of eight senders: 1 if all have the same rate."""
    goal, limit = Bound("index", 0.95, Better.MORE), Bound("index", 0.85, Better.MORE)
    name = f"8 senders, {network}"
    try:
        samples = sorted(run(program, network, "fairness") for _ in range(3))
    except (RuntimeError, subprocess.SubprocessError, OSError) as problem:
        return Figure(name, goal=goal, limit=limit, reason=str(problem))
    return Figure(name, f"{samples[1]:.3f}", "Jain's index", {"index": samples[1]}, goal=goal, limit=limit,
                  details={"samples": samples})  # fmt: skip


def measure(options) -> list[Figure]:
    program = build.build(options.compiler, ["wire_device", "libfabric_rate", *build.SOFT_DEVICE]) / "wire_device"
    networks = NETWORKS if has_namespaces(program) else ("loopback",)
    figures = []
    for case in CASES:
        for network in case.networks:
            if network in networks:
                figures += measure_case(case, network, program, options.rounds)
            else:
                figures.append(Figure(f"{case.name}, {network}", reason="no network namespace can be made"))
    figures.append(fairness(program, "loopback"))
    return figures


def versions(options) -> dict[str, str]:
    return {"compiler": build.version(build.COMPILERS[options.compiler][1])}
