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


@contextlib.contextmanager
def server(rcopy, folder, port):
    process = subprocess.Popen([rcopy, "serve", folder, "--port", str(port)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()  # it says so when it listens
        if not line:
            fail(f"rcopy serve ended with status {process.wait()}")
        print(line.rstrip(), flush=True)
        yield
    finally:
        process.terminate()
        process.wait()


def copy_by_rdma(rcopy, file, folder):
    port = free_port()
    with server(rcopy, folder, port):
        started = time.monotonic()
        done = subprocess.run([rcopy, "put", file, f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL, check=False)
        seconds = time.monotonic() - started
    if done.returncode != 0:
        fail(f"rcopy put ended with status {done.returncode}")
    return seconds


def receive_by_tcp(listener, path):
    """The receiving process: its whole life."""
    connection, _ = listener.accept()
    buffer = memoryview(bytearray(CHUNK))
    with connection, path.open("wb") as out:
        while count := connection.recv_into(buffer):
            out.write(buffer[:count])


def copy_by_tcp(file, target):
    """The same copy over a TCP connection between two processes, with sendfile(2) on the sending side."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                receive_by_tcp(listener, target)
                status = 0
            finally:
                os._exit(status)
        started = time.monotonic()
        with socket.create_connection(listener.getsockname()) as connection, file.open("rb") as source:
            connection.sendfile(source)
            connection.shutdown(socket.SHUT_WR)
            _, status = os.waitpid(child, 0)
        seconds = time.monotonic() - started
    if status != 0:
        fail("the TCP copy failed")
    return seconds


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
    file = options.dir / "demo.bin"
    copy, tcp_copy = served / file.name, options.dir / "tcp_copy.bin"
    for old in (copy, tcp_copy):
        old.unlink(missing_ok=True)
    if not file.exists():
        check_room(options.dir, size)
    make_file(file, size)
    print("\nCopying it between two processes by RDMA, over the software device:", flush=True)
    rdma_seconds = copy_by_rdma(rcopy, file, served)
    if not filecmp.cmp(file, copy, shallow=False):
        fail("the copy differs from the original")
    print("The copy is identical, byte by byte.\n\nCopying it between two processes over TCP ...", flush=True)
    tcp_seconds = copy_by_tcp(file, tcp_copy)
    if not filecmp.cmp(file, tcp_copy, shallow=False):
        fail("the TCP copy differs from the original")
    tcp_copy.unlink()
    print()
    show("RDMA, with checksums", rdma_seconds, size)
    show("TCP (sendfile), without", tcp_seconds, size)
    shown = rcopy.relative_to(ROOT)
    print(f"""
Both numbers include reading the file from the page cache and writing the copy.

Next:
  {shown} serve DIR          in one terminal
  {shown} put FILE localhost in another
  less examples/01_loopback/loopback.cpp   the smallest program
  ./dev test                               every check of this repository""")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
