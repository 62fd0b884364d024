#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs `./dev demo`; scripts/dev/help/demo.txt describes it."""
import argparse
import collections
import contextlib
import filecmp
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "demo" / "release"  # not build/release: the demo builds neither the tests nor the tool
LOG = ROOT / "build" / "logs" / "demo.log"
GIB = 1 << 30
CHUNK = 1 << 20
SOURCES = ("/usr/lib", "/usr/share", "/usr/bin", "/usr/include", "/bin", "/lib")
ROUNDS = 2  # copies over each transport, alternating so that both run with equally warm caches
LOG_TAIL_LINES = 60


def fail(text):
    sys.exit(f"demo: {text}")


class Progress:
    """One line of progress: rewritten in place on a terminal, printed every few seconds elsewhere."""

    def __init__(self, what):
        self.terminal = sys.stdout.isatty()
        self.period_s = 0.2 if self.terminal else 5.0
        self.started = self.shown = time.monotonic()
        print(f"{what} ...", flush=True)

    def seconds(self):
        return time.monotonic() - self.started

    def show(self, text):
        if time.monotonic() - self.shown >= self.period_s:
            self.shown = time.monotonic()
            line = f"  {text}, {self.seconds():.0f} s"
            print(f"\r{line:<78}" if self.terminal else line, end="" if self.terminal else "\n", flush=True)

    def done(self, text):
        line = f"  {text} in {self.seconds():.0f} s"
        print(f"\r{line:<78}" if self.terminal else line, flush=True)


def run_logged(words, log, progress, text_of):
    """Runs a command and appends its output to the log; `text_of(line)` is the progress that a line shows, or None.

    The progress is shown at least once a period, even if the command prints no output.
    """
    shown, pending = "starting", b""
    last = collections.deque(maxlen=LOG_TAIL_LINES)
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as process:
        while True:
            if select.select([process.stdout], [], [], progress.period_s)[0]:
                block = os.read(process.stdout.fileno(), 1 << 16)
                if not block:
                    break
                *lines, pending = (pending + block).split(b"\n")
                for line in (line.decode(errors="replace") for line in lines):
                    log.write(line + "\n")
                    last.append(line)
                    shown = text_of(line) or shown
            progress.show(shown)
    if process.returncode != 0:
        print("\n" + "\n".join(last))
        fail(f"the build failed with status {process.returncode}; the whole output is in {LOG.relative_to(ROOT)}")


def build():
    """Builds rcopy and the software device in release mode and shows ninja's count of finished steps."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    configure = ["cmake", "--preset", "release", "-B", str(BUILD), "-DVERBENA_UNITY=ON", "-DVERBENA_BUILD_TESTS=OFF",
                 "-DVERBENA_BUILD_TOOLS=OFF"]
    if os.environ.get("VERBENA_COMPILER_LAUNCHER"):
        configure.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={os.environ['VERBENA_COMPILER_LAUNCHER']}")
    compile_ = ["cmake", "--build", str(BUILD), "--parallel", str(os.cpu_count() or 2), "--target", "rcopy",
                "verbena-soft"]
    progress = Progress("Building rcopy and the software device in release mode")

    def count(line):
        step = re.match(r"\[(\d+)/(\d+)\]", line)
        return f"{step[1]} of {step[2]} build steps" if step else None

    with LOG.open("w") as log:
        run_logged(configure, log, progress, lambda line: "configuring with CMake")
        run_logged(compile_, log, progress, count)
    progress.done("built")
    return BUILD / "examples" / "rcopy" / "rcopy"


def readable_files():
    """Yields the readable regular files of this machine, repeatedly."""
    while True:
        found = False
        for top in SOURCES:
            for folder, folders, names in os.walk(top):
                folders.sort()
                for name in sorted(names):
                    path = os.path.join(folder, name)
                    if os.path.isfile(path) and not os.path.islink(path) and os.access(path, os.R_OK):
                        found = True
                        yield path
        if not found:
            fail(f"no readable file in {', '.join(SOURCES)}, so there is no content for the file to copy")


def make_file(path, size):
    """Writes a file of `size` bytes with the contents of files of this machine."""
    progress = Progress(f"Creating the file to copy: {size / GIB:.1f} GiB, concatenated from files in /usr")
    left = size
    with path.open("wb") as out:
        for name in readable_files():
            with contextlib.suppress(OSError), open(name, "rb") as source:
                while left and (block := source.read(min(CHUNK, left))):
                    out.write(block)
                    left -= len(block)
                    progress.show(f"{(size - left) / GIB:.2f} of {size / GIB:.2f} GiB written")
            if not left:
                break
        out.flush()
        progress.show("waiting for the disk")
        os.fsync(out.fileno())  # otherwise the first copy would wait for the disk
    progress.done(f"{size / GIB:.2f} GiB written")


@contextlib.contextmanager
def server(rcopy, folder):
    """Runs `rcopy serve` on a free port and yields the address on which it listens."""
    process = subprocess.Popen([rcopy, "serve", folder, "--port", "0", "--device", "soft0"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()  # printed when the server listens
        found = re.search(r"at (127\.0\.0\.1:\d+) ", line)
        if not found:
            fail(f"rcopy serve ended with status {process.wait()} before it listened")
        print(line.rstrip().replace(str(ROOT) + "/", ""), flush=True)
        yield found.group(1)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def copy(rcopy, file, place, over, target):
    """Runs one `rcopy put`, compares the copy and returns the report of rcopy."""
    print(f"\nrcopy put {file.name} {place} --over {over}", flush=True)
    words = [rcopy, "put", file, place, "--over", over, "--name", target.name, "--json"]
    if over == "rdma":
        words += ["--device", "soft0"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        fail(f"rcopy put ended with status {done.returncode}")
    report = json.loads(done.stdout)
    print(f"  {rate(report)} for {report['copy_seconds']:.2f} s, then {report['store_seconds']:.2f} s to flush to disk\n"
          f"  XXH3 {report['xxh3_128']} on both sides; comparing byte by byte ...", flush=True)
    if not filecmp.cmp(file, target, shallow=False):
        fail(f"the copy over {over} differs from the original")
    print("  the copy is identical", flush=True)
    target.unlink()
    return report


def rate(report):
    return f"{report['bytes_per_second'] / 1e9:.2f} GB/s"


def check_room(folder, size):
    needed = 2 * size + GIB // 4
    free = shutil.disk_usage(folder).free
    if free < needed:
        fail(f"{folder} has {free / GIB:.1f} GiB free, but the demo needs {needed / GIB:.1f} GiB: "
             "choose another folder with --dir or a smaller file with --size")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev demo", add_help=False)
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "build" / "demo")
    options = parser.parse_args(arguments)
    if not 0.001 <= options.size <= 1024:
        parser.error(f"--size {options.size}: the size is in GiB, from 0.001 to 1024")
    return options


def copy_alternating(rcopy, file, served):
    """Copies over both transports, alternating; returns the reports of each."""
    reports = {"rdma": [], "tcp": []}
    with server(rcopy, served) as place:
        for turn in range(ROUNDS):
            for over in reports:
                reports[over].append(copy(rcopy, file, place, over, served / f"{over}{turn}.bin"))
    return reports


def seconds_of(report):
    return report["copy_seconds"]


def result_lines(reports):
    """The rate of the first and of the best copy, and the ratio of the best ones.

    On virtual machines, writing a new file can take a second longer than rcopy's work, whatever the transport.
    """
    yield f"  {'':<24}{'first copy':>12}{'best copy':>12}"
    for over, label in (("rdma", "RDMA writes over soft0"), ("tcp", "TCP over loopback")):
        yield f"  {label:<24}{rate(reports[over][0]):>12}{rate(min(reports[over], key=seconds_of)):>12}"
    best_tcp, best_rdma = (min(map(seconds_of, reports[over])) for over in ("tcp", "rdma"))
    yield f"\nBest copies: RDMA has {best_tcp / best_rdma:.2f} times the rate of TCP."


def time_lines(reports):
    """Where the time of the best copies goes."""
    yield f"  {'seconds':<24}{'file':>9}{'checksum':>10}{'transport':>11}{'waiting':>9}"
    for over in reports:
        best = min(reports[over], key=seconds_of)
        for side, file, does in (("sender", "read_seconds", "reads"), ("receiver", "write_seconds", "writes")):
            time_ = best[side]
            yield (f"  {over.upper() + ' ' + side + ' (' + does + ')':<24}{time_[file]:>9.2f}{time_['checksum_seconds']:>10.2f}"
                   f"{time_['transport_seconds']:>11.2f}{time_['waiting_seconds']:>9.2f}")


def main(arguments):
    options = parse(arguments)
    size = int(options.size * GIB)
    work = options.dir / "work"
    served = work / "served"
    rcopy = build()
    shutil.rmtree(work, ignore_errors=True)  # left by a demo that was killed
    served.mkdir(parents=True)
    check_room(work, size)
    file = work / "demo.bin"
    try:
        make_file(file, size)
        reports = copy_alternating(rcopy, file, served)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    shown = rcopy.relative_to(ROOT)
    results, times = ("\n".join(lines(reports)) for lines in (result_lines, time_lines))
    print(f"""
{size / GIB:.1f} GiB between two processes, {ROUNDS} copies over each transport:

{results}

Both read the file, checksum it on both sides and write it to disk; only the
transport differs. The time of the best copies:

{times}

Next:
  {shown} serve DIR              in one terminal, and
  {shown} put FILE localhost     in another terminal
  less examples/01_loopback/loopback.cpp    the smallest program
  less examples/rcopy/README.md             how rcopy transfers a file
  ./dev test                                all checks of this repository""")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("demo: interrupted")
