#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""./dev bench: runs a benchmark and prints the value, goal, limit and peer of each figure."""
from __future__ import annotations

import argparse
import pathlib
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bench.harness import (  # noqa: E402
    async_operations, build, channel, compile_time, connect, local, loss, net, overhead, profile, report, scale, wire,
)  # fmt: skip
from bench.harness.figure import Figure, gate  # noqa: E402

BENCHES = {
    bench.NAME: bench
    for bench in (overhead, local, scale, connect, channel, async_operations, net, wire, loss, profile, compile_time)
}


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument(
        "name", nargs="?", choices=sorted(BENCHES), metavar="NAME", help=", ".join(sorted(BENCHES))
    )
    parser.add_argument("--list", action="store_true", help="print the benchmarks and exit; the default without NAME")
    parser.add_argument(
        "--plot",
        metavar="FOLDER",
        nargs="?",
        const="build/bench/plots",
        help="draw each file of bench/results as an SVG in FOLDER (default: build/bench/plots) and exit",
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument(
        "--gate",
        action="store_true",
        help="exit 1 if a figure is beyond its limit or has no result",
    )
    parser.add_argument(
        "--compiler",
        choices=sorted(build.COMPILERS),
        help="default: gcc; with --gate, overhead and channel use each installed compiler",
    )
    parser.add_argument(
        "--rounds", type=int, default=9, help="rounds; a round runs each program once (minimum 7, default 9)"
    )
    options = parser.parse_args(arguments)
    if options.rounds < 7:
        parser.error("--rounds must be at least 7")
    return options


def chosen_compilers(options: argparse.Namespace, bench) -> list[str]:
    """Returns the compilers to use: the one in the options, all installed ones for a gate on code, otherwise gcc."""
    if options.compiler:
        return [options.compiler]
    if not (options.gate and bench.DEPENDS_ON_COMPILER):
        return ["gcc"]
    installed = [name for name in ("gcc", "clang") if shutil.which(build.COMPILERS[name][1])]
    return installed or ["gcc"]


def draw(folder: str) -> int:
    """Runs bench/plot.py with the system Python, which has Debian's matplotlib."""
    python = "/usr/bin/python3" if pathlib.Path("/usr/bin/python3").exists() else sys.executable
    script = pathlib.Path(__file__).resolve().parent / "plot.py"
    return subprocess.run([python, str(script), folder], check=False).returncode


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    if options.plot:
        return draw(options.plot)
    if options.list or options.name is None:
        for name, bench in sorted(BENCHES.items()):
            print(f"{name:10} {bench.SUMMARY}")
        return 0
    bench = BENCHES[options.name]
    figures: list[Figure] = []
    versions: dict[str, str] = {}
    compilers = chosen_compilers(options, bench)
    for options.compiler in compilers:
        try:
            measured = bench.measure(options)
        except (build.BuildFailed, RuntimeError, OSError, subprocess.SubprocessError) as problem:
            print(f"./dev bench {options.name}: {problem}", file=sys.stderr)
            return 1
        versions |= bench.versions(options)
        if len(compilers) > 1:
            print(f"{options.compiler}: {versions['compiler']}")
            versions[options.compiler] = versions.pop("compiler")
            for figure in measured:
                figure.details["compiler"] = options.compiler
        print(report.table(measured))
        print(report.summary(measured), flush=True)
        figures += measured
    print(bench.NOTES)
    if options.json:
        command = shlex.join(["./dev", "bench", *arguments])
        report.write_json(options.json, options.name, command, figures, versions)
    return gate(figures) if options.gate else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
