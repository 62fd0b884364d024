# SPDX-License-Identifier: MIT
"""compile: the cost of including a public header, compared with <infiniband/verbs.h>, <vector>, <string> and <span>.

Each file contains only includes. The files are compiled alternately with `-O2 -c`, without a compiler cache. The
cost covers the compiler driver and its children: instructions if perf counts them, otherwise processor time in user
mode.
"""
from __future__ import annotations

import os
import pathlib
import resource
import shlex
import shutil
import subprocess
import tempfile

from bench.harness import build, rounds
from bench.harness.figure import Bound, Figure

NAME = "compile"
SUMMARY = "compile time of public headers, compared with <infiniband/verbs.h>"
DEPENDS_ON_COMPILER = False
NOTES = "x is ours / peer (median of the kept rounds); lines after preprocessing"
PEER = "verbs.h"
PEER_INCLUDES = ("infiniband/verbs.h", "vector", "string", "span")
# Goal and limit of the ratio. Headers without an entry are reported but not judged.
BOUNDS = {"verbena.hpp": (3.0, 4.0), "message_channel.hpp": (1.5, 2.0)}
HEADERS = (
    "verbena.hpp",
    "fwd.hpp",
    "channel/message_channel.hpp",
    "channel/channel.hpp",
    "verbs/queue_pair.hpp",
    "verbs/context.hpp",
    "memory/buffer_pool.hpp",
    "bringup/connect_queue_pair.hpp",
    "cm/connector.hpp",
    "base/result.hpp",
)


def flags() -> list[str]:
    """Returns the compiler flags of a user of the library, with the include paths of verbena and rdma-core."""
    done = subprocess.run(["pkg-config", "--cflags", "libibverbs"], capture_output=True, text=True, check=False)
    return ["-std=c++20", "-O2", f"-I{build.ROOT / 'include'}", *shlex.split(done.stdout)]


def can_count_instructions() -> bool:
    if not shutil.which("perf"):
        return False
    done = subprocess.run(["perf", "stat", "-x,", "-e", "instructions:u", "true"], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stderr.split(",")[0].isdigit()


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr.strip()[-500:]}")


def user_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run(command)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def instructions(command: list[str]) -> float:
    done = subprocess.run(["perf", "stat", "-x,", "-e", "instructions:u", *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr.strip()[-500:]}")
    return float(done.stderr.strip().splitlines()[-1].split(",")[0])


def lines_of(command: list[str]) -> int:
    """Returns the number of preprocessed lines, without empty lines and line markers."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return sum(1 for line in done.stdout.splitlines() if line.strip() and not line.startswith("#"))


def text(cost: float, unit: str) -> str:
    return f"{cost / 1e9:.2f} G" if unit == "instructions" else f"{cost:.2f} s"


def figure(name: str, unit: str, outcome: rounds.Outcome, lines: int, peer_lines: int) -> Figure:
    goal, limit = (Bound("ratio", value) for value in BOUNDS[name]) if name in BOUNDS else (None, None)
    details = {"unit": unit, "lines": lines, "peer_lines": peer_lines, "rounds": outcome.total, "rounds_kept": len(outcome.kept)}
    one = Figure(name, goal=goal, limit=limit, peer=PEER, details=details)
    if not outcome.has_result:
        one.reason = f"{PEER} was steady in {len(outcome.kept)} of {outcome.total} rounds"
        return one
    one.numbers = {"ratio": outcome.ratio, "ours": outcome.ours, "peer": outcome.peer, "lines_ratio": lines / peer_lines}
    one.value = f"{text(outcome.ours, unit)} {outcome.ratio:.2f}x {lines / 1000:.1f}k lines"
    one.peer = f"{text(outcome.peer, unit)} {peer_lines / 1000:.1f}k"
    details["samples"] = [[pair.ours, pair.peer] for pair in outcome.kept]
    return one


def measure(options) -> list[Figure]:
    compiler = build.COMPILERS[options.compiler][1]
    present = [header for header in HEADERS if (build.ROOT / "include/verbena" / header).is_file()]
    includes = {PEER: PEER_INCLUDES} | {pathlib.Path(one).name: (f"verbena/{one}",) for one in present}
    unit = "instructions" if can_count_instructions() else "s"
    cost = instructions if unit == "instructions" else user_seconds
    # With ccache, only the first round would run the compiler.
    os.environ["CCACHE_DISABLE"] = "1"
    with tempfile.TemporaryDirectory(prefix="verbena_compile_") as name:
        folder = pathlib.Path(name)
        compile_commands, lines = {}, {}
        for one, headers in includes.items():
            source = folder / f"{one.removesuffix('.hpp')}.cpp"
            source.write_text("".join(f"#include <{header}>\n" for header in headers))
            compile_commands[one] = [compiler, *flags(), "-c", str(source), "-o", str(source.with_suffix(".o"))]
            lines[one] = lines_of([compiler, *flags(), "-E", str(source)])
        programs = {one: (lambda command=command: cost(command)) for one, command in compile_commands.items()}
        # Whether more rounds are needed depends on the time of the peer only.
        samples = rounds.interleave(programs, next(one for one in programs if one != PEER), options.rounds, judged=(PEER,))
    return [figure(one, unit, rounds.outcome(samples, PEER, one), lines[one], lines[PEER]) for one in programs if one != PEER]


def versions(options) -> dict[str, str]:
    counted = "perf instructions:u" if can_count_instructions() else "processor time in user mode"
    return {"compiler": build.version(build.COMPILERS[options.compiler][1]), "measured": counted}
