# SPDX-License-Identifier: MIT
"""profile: the instructions of an operation of soft0 by group of functions, and the time of the demo."""
from __future__ import annotations

import bisect
import collections
import contextlib
import dataclasses
import fnmatch
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from bench.harness import build
from bench.harness.figure import Figure

NAME = "profile"
SUMMARY = "instructions of soft0's operations by group of functions, time shares of the demo"
DEPENDS_ON_COMPILER = False
NOTES = ("instructions per operation of 8 bytes, initiator + target; C library and program: both sides; "
         "demo: share of the samples of a process")  # fmt: skip
OPERATIONS = ("send", "sends", "write", "writes", "read", "event", "idle")
DEMO_BYTES = 512 << 20
SAMPLES_PER_SECOND = 2000
PROGRESS_THREAD = "verbena-soft"  # the name that the device gives its thread

# The group of the functions that a source file of the device contains; the first pattern that fits.
GROUPS = (
    ("shim/*", "verbs calls"),
    ("core/posting", "work queues"), ("core/work_queue", "work queues"), ("core/shared_receive_queue", "work queues"),
    ("core/requester", "requester"), ("core/send_window", "requester"), ("core/route", "requester"),
    ("core/*requester", "requester"), ("core/make_requester", "requester"), ("core/rules", "requester"),
    ("core/responder*", "responder"), ("core/atomic", "responder"),
    ("core/memory_region", "region checks"), ("core/region_check", "region checks"),
    ("core/completion_queue", "completion queue"),
    ("core/access_epoch", "guards and locks"), ("core/*_lock", "guards and locks"),
    ("core/process_barrier", "guards and locks"),
    ("core/copy", "copy of payload"),
    ("core/*", "engine"),
    ("fabric/*", "path"),
    ("shm/*", "rings and peers"), ("peers/*", "rings and peers"),
    ("ipc/*", "wake-ups"), ("host/*", "progress"),
)  # fmt: skip


@dataclasses.dataclass
class Cost:
    """Counts per operation, by side: initiator, target. Code outside the device counts as initiator's."""

    instructions: list[float] = dataclasses.field(default_factory=lambda: [0.0, 0.0])
    locked: float = 0.0
    system_calls: float = 0.0


def group_of(source: str) -> str:
    return next((group for pattern, group in GROUPS if fnmatch.fnmatch(source, pattern)), "other")


def without_clone(function: str) -> str:
    """Returns the name of a function of which the compiler has made several."""
    return re.sub(r"( \[clone [^]]*\])+$", "", function)


def defined_functions(*files: str) -> list[tuple[str, str]]:
    """Returns pairs of file, or member of an archive, and function."""
    done = subprocess.run(["nm", "-A", "-C", "--defined-only", *files], capture_output=True, text=True, check=True)
    pairs = (re.match(r"(.*?):[0-9a-f]+ [tTwWuVv] (.*)$", line) for line in done.stdout.splitlines())
    return [(found[1], without_clone(found[2])) for found in pairs if found]


def groups_by_function(folder: pathlib.Path) -> dict[str, str]:
    """Returns the group of each function of the device, by the source file that defines it."""
    groups: dict[str, str] = {}
    archives = sorted((folder / "softdev").glob("libsoftdev_*.a"))
    objects = sorted((folder / "softdev").glob("CMakeFiles/softdev_shim.dir/shim/*.o"))
    if not archives or not objects:
        raise RuntimeError("profile: the libraries of the device are not where they are expected")
    for place, function in defined_functions(*map(str, [*archives, *objects])):
        member = re.sub(r"(\.cpp)?\.o$", "", place.rsplit("/", 1)[-1].rsplit(":", 1)[-1])
        archive = re.search(r"libsoftdev_(\w+)\.a", place)
        groups.setdefault(function, group_of(f"{archive[1] if archive else 'shim'}/{member}"))
    return groups


class Symbols:
    """The functions of a library by address."""

    def __init__(self, library: pathlib.Path):
        done = subprocess.run(["nm", "-C", "-n", "--defined-only", str(library)], capture_output=True, text=True,
                              check=True)  # fmt: skip
        found = [re.match(r"([0-9a-f]+) [tTwW] (.*)$", line) for line in done.stdout.splitlines()]
        self._functions = [(int(one[1], 16), one[2]) for one in found if one]
        self._addresses = [address for address, _ in self._functions]

    def at(self, address: int) -> str:
        index = bisect.bisect_right(self._addresses, address) - 1
        name = self._functions[index][1] if index >= 0 else "?"
        return without_clone(name)


def parse_trace(text: str, symbols: Symbols, groups: dict[str, str]) -> dict[str, Cost]:
    """Reads the output of profile_device. Returns the cost per operation by group."""
    costs: dict[str, Cost] = collections.defaultdict(Cost)
    *lines, last = text.splitlines()
    operations = int(last.removeprefix("operations "))
    for line in lines:
        module, offset, times, is_locked, is_system_call = line.split()
        share = int(times) / operations
        if module in ("first", "second"):
            group = groups.get(symbols.at(int(offset, 16)), "other")
        else:
            group = {"program": "program", "library": "C library"}[module]
        cost = costs[group]
        cost.instructions[1 if module == "second" else 0] += share
        cost.locked += share * int(is_locked)
        cost.system_calls += share * int(is_system_call)
    return dict(costs)


def sides(instructions: list[float]) -> str:
    one, other = (f"{each:.0f}" for each in instructions)
    return one if other == "0" else f"{one} + {other}"


def notes(cost: Cost) -> str:
    parts = ((cost.locked, "locked"), (cost.system_calls, "system calls"))
    return ", ".join(f"{number:.0f} {what}" for number, what in parts if number >= 0.5)


def operation_figures(operation: str, costs: dict[str, Cost]) -> list[Figure]:
    total = Cost()
    for cost in costs.values():
        for side in (0, 1):
            total.instructions[side] += cost.instructions[side]
        total.locked += cost.locked
        total.system_calls += cost.system_calls
    rows = sorted(costs.items(), key=lambda row: -sum(row[1].instructions))
    named = [(operation, total)] + [(f"  {group}", cost) for group, cost in rows if sum(cost.instructions) >= 0.5]
    return [
        Figure(name, sides(cost.instructions), notes(cost),
               {"initiator": cost.instructions[0], "target": cost.instructions[1], "locked": cost.locked,
                "system_calls": cost.system_calls}, details={"operation": operation})
        for name, cost in named
    ]  # fmt: skip


def device_figures(folder: pathlib.Path) -> list[Figure]:
    library = folder / "lib" / "libverbena-soft.so.0"
    symbols, groups = Symbols(library), groups_by_function(folder)
    figures = []
    with tempfile.TemporaryDirectory() as place:
        copy = shutil.copy(library, pathlib.Path(place) / "second-soft.so")
        for operation in OPERATIONS:
            command = [str(folder / "bench" / "profile_device"), str(library), copy, operation]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"profile_device {operation}: {done.stderr.strip()[-300:] or done.returncode}")
            figures += operation_figures(operation, parse_trace(done.stdout, symbols, groups))
    return figures


# The kinds of functions in which the processes of the demo spend their time: library, function, kind.
KINDS = (
    (r"libverbena-soft", r"copy_", "device: copy of payload"),
    (r"libverbena-soft", r"", "device: other"),
    (r"/rcopy$", r"XXH|checksum", "checksum"),
    (r"/rcopy$", r"", "rcopy and library"),
    (r"kernel", r"copy_|clear_page|rep_movs|memcpy|_copy", "kernel: copies"),
    (r"kernel", r"", "kernel: other"),
    (r"", r"", "C library and others"),
)


def kind_of(library: str, function: str) -> str:
    return next(kind for of, name, kind in KINDS if re.search(of, library) and re.search(name, function))


def parse_samples(text: str) -> tuple[collections.Counter, collections.Counter]:
    """Reads `perf script -F comm,ip,sym,dso`. Returns samples by kind, of all threads and of the progress thread."""
    kinds: collections.Counter = collections.Counter()
    progress: collections.Counter = collections.Counter()
    for line in text.splitlines():
        found = re.match(r"\s*(\S+)\s+[0-9a-f]+ (.*) \((.*)\)\s*$", line)
        if not found:
            continue
        kind = kind_of(found[3], found[2])
        kinds[kind] += 1
        progress[kind] += found[1] == PROGRESS_THREAD
    return kinds, progress


def demo_figures(process: str, data: pathlib.Path) -> list[Figure]:
    done = subprocess.run(["perf", "script", "-i", str(data), "-F", "comm,ip,sym,dso"], capture_output=True,
                          text=True, check=True)  # fmt: skip
    kinds, progress = parse_samples(done.stdout)
    total = sum(kinds.values())
    if total == 0:
        return [Figure(f"demo, {process}", reason="perf recorded no sample")]
    seconds = total / SAMPLES_PER_SECOND
    figures = [Figure(f"demo, {process}", f"{seconds:.2f} s", f"{DEMO_BYTES >> 20} MiB", {"seconds": seconds})]
    shares = [*kinds.most_common(), ("of these, progress thread", progress.total())]
    shares += [(f"  {kind}", samples) for kind, samples in progress.most_common(3) if samples]
    figures += [Figure(f"  {kind}", f"{100 * samples / total:.1f} %", "", {"share": samples / total},
                       details={"process": process}) for kind, samples in shares]  # fmt: skip
    return figures


@contextlib.contextmanager
def recorded_server(record: list[str], rcopy: pathlib.Path, folder: pathlib.Path):
    """Runs `rcopy serve` under perf and yields its address."""
    words = [*record, str(rcopy), "serve", str(folder), "--port", "0", "--device", "soft0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            found = re.search(r"at (127\.0\.0\.1:\d+) ", process.stdout.readline())
            if not found:
                raise RuntimeError("rcopy serve ended before it listened")
            yield found[1]
        finally:
            process.send_signal(signal.SIGINT)  # perf then writes its file


def profile_demo() -> list[Figure]:
    if shutil.which("perf") is None:
        return [Figure("demo", reason="perf is not installed (Debian: linux-perf)")]
    sys.path.insert(0, str(build.ROOT / "scripts"))
    import demo  # noqa: PLC0415

    rcopy = demo.build()
    with tempfile.TemporaryDirectory(dir=demo.BUILD.parent) as place:
        folder = pathlib.Path(place)
        (folder / "served").mkdir()
        file = folder / "demo.bin"
        demo.make_file(file, DEMO_BYTES)

        def record(process: str) -> list[str]:
            return ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(SAMPLES_PER_SECOND), "-o",
                    str(folder / f"{process}.data"), "--"]  # fmt: skip

        with recorded_server(record("receiver"), rcopy, folder / "served") as address:
            words = [str(rcopy), "put", str(file), address, "--over", "rdma", "--device", "soft0", "--quiet"]
            done = subprocess.run([*record("sender"), *words], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"rcopy put: {done.stderr.strip()[-300:]}")
        return [figure for process in ("sender", "receiver")
                for figure in demo_figures(process, folder / f"{process}.data")]  # fmt: skip


def measure(options) -> list[Figure]:
    folder = build.build(options.compiler, ["profile_device", *build.SOFT_DEVICE]).parent
    return device_figures(folder) + profile_demo()


def versions(options) -> dict[str, str]:
    return {"compiler": build.version(build.COMPILERS[options.compiler][1])}
