# SPDX-License-Identifier: MIT
"""Runs ucx_perftest between two pinned processes and parses its output."""
from __future__ import annotations

import dataclasses
import os
import pathlib
import socket
import subprocess
import time

PROGRAM = "ucx_perftest"
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Numbers:
    """The overall values, from the last line of `ucx_perftest -f -v`."""

    latency_ns: float
    bytes_per_second: float
    messages_per_second: float


def parse(text: str) -> Numbers:
    """Parses the last line that has the fields: iterations; percentile, average and overall latency in
    us; average and overall MiB/s; average and overall messages/s."""
    for line in reversed(text.splitlines()):
        fields = line.split(",")
        if len(fields) != 8:
            continue
        try:
            numbers = [float(field) for field in fields]
        except ValueError:
            continue
        return Numbers(numbers[3] * 1e3, numbers[5] * MIB, numbers[7])
    raise RuntimeError(f"{PROGRAM} printed no result: {text[-300:]!r}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(port: int) -> bool:
    """Reads the state of the port from /proc: the server would accept a test connection as its client."""
    suffix = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        path = pathlib.Path(table)
        if not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(suffix) and fields[3] == "0A":
                return True
    return False


def wait_until_listening(server: subprocess.Popen, port: int, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not is_listening(port):
        if server.poll() is not None:
            raise RuntimeError(f"{PROGRAM}: the server ended with status {server.returncode}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{PROGRAM}: the server does not listen after {seconds:g} s")
        time.sleep(0.01)


def two_processors() -> tuple[int, int]:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise RuntimeError("two processes that spin need two processors")
    return allowed[0], allowed[1]


def run(test: str, size: int, iterations: int, transports: str = "posix") -> Numbers:
    """Runs the client on the first processor and the server on the second. Returns the client's values."""
    client_cpu, server_cpu = two_processors()
    port = free_port()
    environment = dict(os.environ, UCX_TLS=transports, UCX_LOG_LEVEL="error")
    common = ["-p", str(port)]
    server = subprocess.Popen(
        [PROGRAM, "-c", str(server_cpu), *common],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until_listening(server, port)
        client = [
            PROGRAM, "127.0.0.1", "-c", str(client_cpu), *common, "-t", test, "-s", str(size),
            "-n", str(iterations),
            "-w", str(max(1, iterations // 10)), "-f", "-v",
        ]  # fmt: skip
        done = subprocess.run(
            client, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(
                f"{PROGRAM} -t {test}: exit status {done.returncode}: {done.stderr[-300:]}"
            )
        return parse(done.stdout)
    finally:
        try:
            server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
