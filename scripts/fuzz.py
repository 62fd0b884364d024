#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds and runs the fuzz targets of tests/fuzz. scripts/dev/help/fuzz.txt describes `./dev fuzz`."""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from build_step import ROOT, run_step

BUILD = ROOT / "build" / "fuzz"
STORED = ROOT / "tests" / "fuzz" / "corpus"
FOUND = BUILD / "found"
CRASHES = BUILD / "crashes"
LOGS = ROOT / "build" / "logs"
JOBS = max(2, os.cpu_count() or 2)
LONGEST_INPUT_S = 10  # an input that takes longer is a finding
STARTUP_S = 120  # for loading the inputs, and for the report of a sanitizer
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "VERBENA_LOG": "error",
}


@dataclasses.dataclass
class Result:
    """The outcome of a target."""
    target: str
    executions: int = 0
    per_second: int = 0
    edges: int = 0
    new_inputs: int = 0
    status: int = 0
    crash: str = ""  # the input that ended the program
    reason: str = ""

    @property
    def failed(self):
        return self.status != 0


def shown(path):
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def configure():
    """Configures the build and returns the targets with the largest size of their inputs."""
    launcher = os.environ.get("VERBENA_COMPILER_LAUNCHER")
    run_step("fuzz", "configuring", "cmake", "--preset", "fuzz", *([f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"] if launcher else []))
    lines = (BUILD / "tests" / "fuzz" / "targets.txt").read_text().split("\n")
    return {name: int(most) for name, most in (line.split() for line in lines if line)}


def stored_inputs(target):
    return sorted(path for path in (STORED / target).glob("*"))


def number(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def read_output(result, text):
    result.executions = number(r"stat::number_of_executed_units: (\d+)", text)
    result.per_second = number(r"stat::average_exec_per_sec: +(\d+)", text)
    result.edges = number(r"cov: (\d+)", text)
    crash = re.findall(r"Test unit written to (\S+)", text)
    result.crash = crash[-1] if crash else ""
    reasons = re.findall(r"^(?:==\d+==ERROR: |SUMMARY: |.*runtime error: |.*a required property )(.*)$", text,
                         re.MULTILINE)
    result.reason = reasons[0].strip() if reasons else ""


def run_target(target, most_bytes, seconds):
    found = FOUND / target
    for folder in (found, CRASHES, LOGS):
        folder.mkdir(parents=True, exist_ok=True)
    before = len(list(found.iterdir()))
    log = LOGS / f"fuzz-{target}.log"
    command = [BUILD / "tests" / "fuzz" / f"fuzz_{target}", f"-max_total_time={seconds}", f"-timeout={LONGEST_INPUT_S}",
               f"-max_len={most_bytes}", "-print_final_stats=1", f"-artifact_prefix={CRASHES}/{target}-",
               found, STORED / target]
    result = Result(target)
    # Targets that write files write them to memory.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with log.open("w") as output, tempfile.TemporaryDirectory(prefix="verbena-fuzz-", dir=memory) as temporary:
        try:
            done = subprocess.run(list(map(str, command)), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT, check=False, timeout=seconds + STARTUP_S,
                                  env={**os.environ, **ENVIRONMENT, "TMPDIR": temporary})
            result.status = done.returncode
        except subprocess.TimeoutExpired:
            result.status = 124
    read_output(result, log.read_text(errors="replace"))
    result.new_inputs = len(list(found.iterdir())) - before
    return result


NAME = 80 - len("  ") - len(" 1000000000 1000000  edges   new  result")


def print_heading():
    print(f"  {'target':<{NAME}} {'executions':>10} {'per s':>7} {'edges':>6} {'new':>5}  result", flush=True)


def print_row(of):
    print(f"  {of.target:<{NAME}} {of.executions:>10} {of.per_second:>7} {of.edges:>6} {of.new_inputs:>5}  "
          f"{'FAILED' if of.failed else 'ok'}", flush=True)


def print_failure(of):
    print(f"FAILED {of.target}: {of.reason or f'status {of.status}'}\n  log: {shown(LOGS / f'fuzz-{of.target}.log')}")
    if of.crash:
        crash = pathlib.Path(of.crash)
        program = BUILD / "tests" / "fuzz" / f"fuzz_{of.target}"
        print(f"  input: {shown(crash)}\n  repeat: {shown(program)} {shown(crash)}\n"
              f"  after the fix, store the input: cp {shown(crash)} \\\n    {shown(STORED / of.target)}/DEFECT")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev fuzz", add_help=False)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args(arguments)
    if options.seconds < 1 or options.jobs < 1:
        parser.error("--seconds and --jobs must be at least 1")
    known = configure()
    for name in options.targets:
        if name not in known:
            parser.error(f"unknown target '{name}'; --list prints the targets")
    return options, known


def main(arguments):
    options, known = parse(arguments)
    if options.list:
        for name, most in known.items():
            print(f"{name:<{NAME}} inputs of at most {most:>5} bytes, {len(stored_inputs(name)):>3} stored")
        return 0
    chosen = options.targets or list(known)
    empty = [name for name in chosen if not stored_inputs(name)]
    if empty:
        sys.exit(f"fuzz: no stored inputs in tests/fuzz/corpus for {', '.join(empty)}")
    print("Building the fuzz targets ...", file=sys.stderr, flush=True)
    run_step("fuzz", "the build", "cmake", "--build", BUILD, "--parallel", JOBS, "--target", *(f"fuzz_{name}" for name in chosen))
    print_heading()
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(run_target, name, known[name], options.seconds) for name in chosen]
        for future in concurrent.futures.as_completed(running):
            results.append(future.result())
            print_row(results[-1])
    failed = [each for each in results if each.failed]
    for each in failed:
        print_failure(each)
    print(f"{len(results)} targets, {sum(each.executions for each in results)} executions, {len(failed)} failed")
    if options.json:
        options.json.write_text(json.dumps([{**dataclasses.asdict(each), "failed": each.failed} for each in results],
                                           indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("fuzz: interrupted")
