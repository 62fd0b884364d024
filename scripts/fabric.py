#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs seeds of the simulated network. scripts/dev/help/fabric.txt describes `./dev fabric`."""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time

from build_step import ROOT, run_step

BUILD = ROOT / "build" / "release"
TESTS = BUILD / "tests" / "unit" / "softdev"
PACKETS = TESTS / "wire" / "simulation" / "wire_fabric"
CONNECTIONS = TESTS / "cm" / "simulation" / "cm_fabric"
JOBS = os.cpu_count() or 2
SEEDS_AT_A_TIME = 500
NAMES = {PACKETS: ("requests", "packets"), CONNECTIONS: ("attempts", "messages")}
SUM = re.compile(r"^\d+ of \d+ seeds, (\d+) failed; (\d+) (?:requests|attempts), (\d+) (?:packets|messages), (\d+) faults$",
                 re.MULTILINE)


def build(program):
    options = [] if (BUILD / "CMakeCache.txt").exists() else ["-DVERBENA_UNITY=ON"]
    run_step("fabric", "configuring", "cmake", "--preset", "release", *options)
    run_step("fabric", "building", "cmake", "--build", BUILD, "--target", program.name)


def run_part(program, first, count):
    """Runs consecutive seeds. Returns what the program printed about failures, and the sums."""
    done = subprocess.run([program, "seeds", str(count), str(first)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    found = SUM.findall(done.stdout)
    if not found:  # the program ended before its last line
        return f"seeds {first} to {first + count - 1}: status {done.returncode}\n{done.stdout[-2000:]}", (1, 0, 0, 0)
    return SUM.sub("", done.stdout).strip(), tuple(map(int, found[-1]))


def run_seeds(program, first, count, jobs):
    started = shown = time.monotonic()
    sums = [0, 0, 0, 0]
    ended = 0
    names = NAMES[program]
    parts = [(at, min(SEEDS_AT_A_TIME, first + count - at)) for at in range(first, first + count, SEEDS_AT_A_TIME)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(run_part, program, *part): part for part in parts}
        for done in concurrent.futures.as_completed(running):
            text, numbers = done.result()
            ended += running[done][1]
            sums = [total + number for total, number in zip(sums, numbers)]
            if text:
                print(text, flush=True)
            now = time.monotonic()
            if now - shown >= 5 or ended == count:
                shown = now
                print(f"{ended} of {count} seeds, {sums[0]} failed; {sums[1]} {names[0]}, {sums[2]} {names[1]}, {sums[3]} faults; "
                      f"{now - started:.0f} s", flush=True)
    return 1 if sums[0] else 0


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev fabric", add_help=False)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int)
    which.add_argument("--seeds", type=int)
    parser.add_argument("--connections", dest="program", action="store_const", const=CONNECTIONS, default=PACKETS)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=JOBS)
    chosen = parser.parse_args(arguments)
    if chosen.trace and chosen.seed is None:
        parser.error("--trace needs --seed")
    if chosen.jobs < 1 or (chosen.seeds is not None and chosen.seeds < 1):
        parser.error("--jobs and --seeds are at least 1")
    return chosen


def main(arguments):
    chosen = parse(arguments)
    build(chosen.program)
    if chosen.seed is not None:
        return subprocess.run([chosen.program, "trace" if chosen.trace else "seed", str(chosen.seed)], check=False).returncode
    return run_seeds(chosen.program, chosen.first, chosen.seeds, chosen.jobs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
