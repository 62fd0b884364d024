# SPDX-License-Identifier: MIT
"""Formats the table for the terminal, at most 80 columns wide, and writes the JSON file."""
from __future__ import annotations

import datetime
import json
import os
import pathlib
import platform

from bench.harness.figure import Figure, Verdict

WIDTH = 80
MARKS = {Verdict.SHOWN: " ", Verdict.WITHIN: " ", Verdict.BEYOND: "!", Verdict.NO_RESULT: "?"}


def table(figures: list[Figure]) -> str:
    """Returns the table. `!` marks a figure beyond its limit, `?` a figure without a result."""
    rows = [("figure", "value", "goal", "limit", "peer")]
    for one in figures:
        value = one.value if one.numbers else "no result"
        rows.append((one.name, value, str(one.goal or "-"), str(one.limit or "-"), one.peer))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for index, row in enumerate(rows):
        mark = " " if index == 0 else MARKS[figures[index - 1].verdict]
        cells = [
            row[0].ljust(widths[0]),
            row[1].rjust(widths[1]),
            row[2].rjust(widths[2]),
            row[3].rjust(widths[3]),
        ]
        lines.append(f"{mark} {'  '.join(cells)}  {row[4]}".rstrip()[:WIDTH])
    lines.insert(1, "-" * min(WIDTH, max(len(line) for line in lines)))
    for one in figures:
        if one.reason:
            lines.append(f"{one.name}: {one.reason}"[: WIDTH * 3])
    return "\n".join(lines)


def summary(figures: list[Figure]) -> str:
    def number(verdict: Verdict) -> int:
        return sum(one.verdict is verdict for one in figures)

    goals = [one for one in figures if one.goal is not None]
    return (
        f"{sum(one.reaches_goal for one in goals)} of {len(goals)} goals reached; "
        f"{number(Verdict.BEYOND)} beyond limit, {number(Verdict.NO_RESULT)} without result"
    )


def machine() -> dict:
    """Returns hardware, system and load of the machine, without its host name."""
    model = "unknown"
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return {
        "processor": model,
        "processors": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "system": system_name(),
        "load": round(os.getloadavg()[0], 2),
    }


def system_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def write_json(
    path: str, bench: str, command: str, figures: list[Figure], versions: dict[str, str]
) -> None:
    document = {
        "bench": bench,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": command,
        "machine": machine(),
        "versions": versions,
        "figures": [one.as_json() for one in figures],
    }
    pathlib.Path(path).write_text(json.dumps(document, indent=1) + "\n")
