# SPDX-License-Identifier: MIT
"""loss: goodput of soft0 over UDP if packets are lost."""
from __future__ import annotations

import statistics
import subprocess

from bench.harness import build, wire
from bench.harness.figure import Figure

NAME = "loss"
SUMMARY = "goodput of soft0 over UDP with 0 to 3 % of the packets lost"
DEPENDS_ON_COMPILER = False
NOTES = ("RDMA WRITEs of 64 KiB; each process loses this part of the packets that it receives; medians; x is goodput / goodput"
         " without loss in the same round")  # fmt: skip
# The label and VERBENA_SOFTDEV_WIRE_FAULTS in percent.
RATES = (("0", 0.0), ("1/4096", 0.0244), ("0.1 %", 0.1), ("0.3 %", 0.3), ("1 %", 1.0), ("3 %", 3.0))


def faults_of(percent: float) -> str:
    return f"loss={percent:.4f}%" if percent else ""


def figures_of(network: str, samples: dict[str, list[float]]) -> list[Figure]:
    """Returns a figure for each rate from the goodputs of each round."""
    figures = []
    for label, percent in RATES:
        goodput = statistics.median(samples[label])
        ratio = statistics.median(one / none for one, none in zip(samples[label], samples["0"]))
        figures.append(Figure(f"{label} lost, {network}", f"{goodput / 1e6:.0f} MB/s {ratio:#.3g}x", "none lost",
                              {"ratio": ratio, "ours": goodput},
                              details={"unit": "B/s", "network": network, "loss_percent": percent, "samples": samples[label]}))  # fmt: skip
    return figures


def measure(options) -> list[Figure]:
    program = build.build(options.compiler, ["wire_device", *build.SOFT_DEVICE]) / "wire_device"
    figures = []
    for network in wire.NETWORKS:
        samples: dict[str, list[float]] = {label: [] for label, _ in RATES}
        try:
            for number in range(options.rounds):
                for label, percent in RATES if number % 2 == 0 else reversed(RATES):
                    samples[label].append(wire.run(program, network, "write_bandwidth", faults_of(percent)))
        except (RuntimeError, subprocess.SubprocessError, OSError) as problem:
            figures += [Figure(f"{label} lost, {network}", reason=str(problem)) for label, _ in RATES]
            continue
        figures += figures_of(network, samples)
    return figures


def versions(options) -> dict[str, str]:
    return wire.versions(options)
