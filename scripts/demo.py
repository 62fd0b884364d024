#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The demonstration behind `./dev demo`: scripts/dev/help/demo.txt says what it does."""
import argparse
import contextlib
import filecmp
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
LOG = ROOT / "build" / "logs" / "demo.log"
GIB = 1 << 30
CHUNK = 1 << 20
SOURCES = ("/usr/lib", "/usr/share", "/usr/bin", "/usr/include", "/bin", "/lib")


def fail(text):
    sys.exit(f"demo: {text}")


def build():
    """Builds rcopy and the software device in release mode; quiet unless it fails."""
    print("Building Verbena in release mode ...", flush=True)
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
                print(LOG.read_text()[-4000:])
                fail(f"the build failed; the whole log is {LOG.relative_to(ROOT)}")
    return next(path for path in BUILD.rglob("rcopy") if path.is_file() and os.access(path, os.X_OK))


def pieces():
    """Readable regular files of this machine, for ever."""
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
    if path.exists() and path.stat().st_size == size:
        return
    print(f"Making a file of {size / GIB:.1f} GiB from the files under /usr ...", flush=True)
    left = size
    with path.open("wb") as out:
        for piece in pieces():
            with contextlib.suppress(OSError), open(piece, "rb") as source:
                while left and (block := source.read(min(CHUNK, left))):
                    out.write(block)
                    left -= len(block)
            if not left:
                return


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_it_listens(process, port):
    """Returns when the server accepts connections; gives up after 20 seconds or when it has ended."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if process.poll() is not None:
            fail(f"rcopy serve ended with status {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    fail("rcopy serve did not begin to listen")


@contextlib.contextmanager
def server(rcopy, folder, port):
    process = subprocess.Popen([rcopy, "serve", folder, "--port", str(port), "--device", "soft0", "--quiet"],
                               stdin=subprocess.DEVNULL)
    try:
        wait_until_it_listens(process, port)
        yield
    finally:
        process.terminate()
        process.wait()


def copy(rcopy, file, port, over):
    """One `rcopy put` with its progress bar; returns the seconds that the whole program took."""
    words = [rcopy, "put", file, f"127.0.0.1:{port}", "--over", over, "--name", f"{over}_copy.bin"]
    if over == "rdma":
        words += ["--device", "soft0"]
    started = time.monotonic()
    done = subprocess.run(words, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        fail(f"rcopy put ended with status {done.returncode}")
    return time.monotonic() - started


def check_room(folder, size):
    needed = 3 * size + GIB // 4
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


def show(what, seconds, size):
    print(f"  {what:28} {seconds:7.2f} s  {size / seconds / 1e9:6.2f} GB/s")


def main(arguments):
    options = parse(arguments)
    size = int(options.size * GIB)
    rcopy = build()
    served = options.dir / "served"
    served.mkdir(parents=True, exist_ok=True)
    for old in served.iterdir():
        old.unlink()
    file = options.dir / "demo.bin"
    if not (file.exists() and file.stat().st_size == size):
        check_room(options.dir, size)
    make_file(file, size)
    port = free_port()
    seconds = {}
    with server(rcopy, served, port):
        for over, words in (("rdma", "by RDMA, over the software device"), ("tcp", "over TCP, to compare")):
            print(f"\nCopying it between two processes {words}:", flush=True)
            seconds[over] = copy(rcopy, file, port, over)
    for over in seconds:
        if not filecmp.cmp(file, served / f"{over}_copy.bin", shallow=False):
            fail(f"the {over} copy differs from the original")
    print("\nBoth copies are identical to the original, byte by byte.\n")
    show("RDMA", seconds["rdma"], size)
    show("TCP", seconds["tcp"], size)
    shown = rcopy.relative_to(ROOT)
    print(f"""
Both times are those of the whole program: reading the file, copying, checking the copy's checksum, writing it.

Next:
  {shown} serve DIR           in one terminal, and
  {shown} put FILE localhost  in another
  less examples/01_loopback/loopback.cpp   the smallest program
  ./dev test                               every check of this repository""")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
