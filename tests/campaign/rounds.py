#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a GoogleTest program repeatedly, with shuffled tests and a different seed in each round. Stops at the first failure.

--seed is the seed of the first round, so a failing round can be repeated with its seed.
"""
import argparse
import subprocess
import sys
import time

SEEDS = 99999  # GoogleTest accepts 1 to 99999
# Lines of GoogleTest and of the device's log. Other lines are figures that the tests print.
NO_FIGURE = ("[", "Note: ", "Running main", "verbena: ", "YOU HAVE")


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--filter", default="*")
    parser.add_argument("--round-limit-s", type=float, default=300)
    parser.add_argument("program")
    return parser.parse_args()


def figures(text):
    return [line for line in text.splitlines() if line.strip() and not line.strip().startswith(NO_FIGURE)]


def main():
    options = parse()
    started = time.monotonic()
    last = []
    for step in range(options.rounds):
        seed = (options.seed + step - 1) % SEEDS + 1
        command = [options.program, f"--gtest_filter={options.filter}", "--gtest_shuffle",
                   f"--gtest_random_seed={seed}", "--gtest_brief=1", "--gtest_fail_fast"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                  timeout=options.round_limit_s, check=False)
            status, text = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            status, text = "no end", (late.stdout or b"").decode(errors="replace")
        if status != 0:
            print(text)
            print(f"FAILED in round {step + 1} ({status}); again: {' '.join(command)}")
            return 1
        if "[  PASSED  ] 0 tests" in text:
            print(f"no test of {options.program} is chosen by {options.filter}")
            return 1
        last = figures(text)
    for line in last:
        print(f"last round: {line}")
    print(f"{options.rounds} rounds from seed {options.seed} in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
