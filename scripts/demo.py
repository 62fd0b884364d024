#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The demonstration behind `./dev demo`: scripts/dev/help/demo.txt says what it does."""
import argparse
import contextlib
import filecmp
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
LOG = ROOT / "build" / "logs" / "demo.log"
GIB = 1 << 30
CHUNK = 1 << 20
SOURCES = ("/usr/lib", "/usr/share", "/usr/bin", "/usr/include", "/bin", "/lib")
ROUNDS = 2  # of each way, in turns, so that neither has the warmer machine; the better one counts


def fail(text):
    sys.exit(f"demo: {text}")


def build():
    """Builds rcopy and the software device in release mode; quiet unless it fails."""
    print("Building Verbena in release mode ...", flush=True)
    started = time.monotonic()
    LOG.parent.mkdir(parents=True, exist_ok=True)
    configure = ["cmake", "--preset", "release", "-DVERBENA_BUILD_TESTS=OFF"]
    if os.environ.get("VERBENA_LAUNCHER"):
        configure.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={os.environ['VERBENA_LAUNCHER']}")
    compile_ = ["cmake", "--build", str(BUILD), "--parallel", str(os.cpu_count() or 2), "--target", "rcopy",
                "verbena-soft"]
    with LOG.open("w") as log:
        for words in (configure, compile_):
            done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                  check=False)
            if done.returncode != 0:
                print(LOG.read_text(errors="replace")[-4000:])
                fail(f"the build failed; the whole log is {LOG.relative_to(ROOT)}")
    print(f"Built in {time.monotonic() - started:.0f} s.", flush=True)
    return BUILD / "examples" / "rcopy" / "rcopy"


def pieces():
    """Readable regular files of this machine, over and over."""
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
            fail("there is no readable file under /usr to make the demo's file of")


def make_file(path, size):
    """One file of `size` bytes, made of the files that this machine has."""
    print(f"Making a file of {size / GIB:.1f} GiB from the files under /usr ...", flush=True)
    left = size
    with path.open("wb") as out:
        for piece in pieces():
            with contextlib.suppress(OSError), open(piece, "rb") as source:
                while left and (block := source.read(min(CHUNK, left))):
                    out.write(block)
                    left -= len(block)
            if not left:
                break
        out.flush()
        os.fsync(out.fileno())  # or the first copy would wait for it


@contextlib.contextmanager
def server(rcopy, folder):
    """`rcopy serve` on a free port; yields where it listens."""
    process = subprocess.Popen([rcopy, "serve", folder, "--port", "0", "--device", "soft0"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()  # it says so when it listens
        found = re.search(r"at (127\.0\.0\.1:\d+) ", line)
        if not found:
            fail(f"rcopy serve did not start (status {process.wait()})")
        print(line.rstrip().replace(str(ROOT) + "/", ""), flush=True)
        yield found.group(1)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def copy(rcopy, file, place, over, target):
    """One `rcopy put` with its progress; returns what it reports about itself."""
    print(f"\nrcopy put {file.name} {place} --over {over}", flush=True)
    words = [rcopy, "put", file, place, "--over", over, "--name", target.name, "--json"]
    if over == "rdma":
        words += ["--device", "soft0"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        fail(f"rcopy put ended with status {done.returncode}")
    told = json.loads(done.stdout)
    if not filecmp.cmp(file, target, shallow=False):
        fail(f"the copy over {over} differs from the original")
    print(f"  {rate(told)} for {told['copy_seconds']:.2f} s, then {told['store_seconds']:.2f} s until the disk had it;\n"
          f"  XXH3 {told['xxh3_128']} at both ends, and identical byte by byte", flush=True)
    target.unlink()
    return told


def rate(told):
    return f"{told['bytes_per_second'] / 1e9:.2f} GB/s"


def check_room(folder, size):
    needed = 2 * size + GIB // 4
    free = shutil.disk_usage(folder).free
    if free < needed:
        fail(f"{folder} has {free / GIB:.1f} GiB free and the demo needs {needed / GIB:.1f}: "
             "give another place with --dir, or a smaller --size")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev demo", add_help=False)
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "build" / "demo")
    options = parser.parse_args(arguments)
    if not 0.001 <= options.size <= 1024:
        parser.error("--size is given in GiB, from 0.001 to 1024")
    return options


def copy_in_turns(rcopy, file, served):
    """Both ways, in turns; returns the best report of each."""
    best = {}
    with server(rcopy, served) as place:
        for turn in range(ROUNDS):
            for over in ("rdma", "tcp"):
                told = copy(rcopy, file, place, over, served / f"{over}{turn}.bin")
                if over not in best or told["copy_seconds"] < best[over]["copy_seconds"]:
                    best[over] = told
    return best


def main(arguments):
    options = parse(arguments)
    size = int(options.size * GIB)
    work = options.dir / "work"
    served = work / "served"
    rcopy = build()
    shutil.rmtree(work, ignore_errors=True)  # of a demo that was killed
    served.mkdir(parents=True)
    check_room(work, size)
    file = work / "demo.bin"
    try:
        make_file(file, size)
        best = copy_in_turns(rcopy, file, served)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    shown = rcopy.relative_to(ROOT)
    print(f"""
The same {size / GIB:.1f} GiB between the same two processes, best of {ROUNDS} each:

  RDMA writes on soft0   {rate(best['rdma']):>11}
  TCP on loopback        {rate(best['tcp']):>11}

Both read the file, copy it, checksum it at both ends and write it; only the way between differs.

Next:
  {shown} serve DIR            in one terminal, and
  {shown} put FILE localhost   in another
  less examples/01_loopback/loopback.cpp    the smallest program
  less examples/rcopy/README.md             how the file crossed
  ./dev test                                every check of this repository""")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("demo: interrupted")
