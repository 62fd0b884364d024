# SPDX-License-Identifier: MIT
"""perftest over RC, UC, UD and SRD: it prints plausible results for the requested sizes and counts, without errors.

Every program runs with default options in each combination of way and user; the variants are distributed over the
combinations. Slow variants run only with --full: perftest measures the processor's clock for 0.2 s at each size.
"""
import dataclasses
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]
import foreign  # noqa: E402
import rows  # noqa: E402

ALL_SIZES = [2 ** power for power in range(1, 24)]
LATENCY = ("ib_send_lat", "ib_write_lat", "ib_read_lat")
BANDWIDTH = ("ib_send_bw", "ib_write_bw", "ib_read_bw")
ALL_SIZES_BY_DEFAULT = ("ib_write_bw", "ib_read_lat")
ATOMIC = ("FETCH_AND_ADD", "CMP_AND_SWAP")
WITHOUT_EVENTS = ("ib_write_lat", "ib_write_bw")  # perftest's rule
WITH_INLINE = ("ib_send_lat", "ib_write_lat", "ib_send_bw", "ib_write_bw")

UNRELIABLE = (("ib_send_lat", "UC", 2), ("ib_send_bw", "UC", 65536), ("ib_write_lat", "UC", 2),
              ("ib_write_bw", "UC", 65536), ("ib_send_lat", "UD", 2), ("ib_send_bw", "UD", 4096))


@dataclasses.dataclass(frozen=True)
class Run:
    """A run and the expected values of its rows."""
    program: str
    options: tuple
    sizes: tuple
    iterations: int  # the printed number: the sum of all queue pairs, in one direction

    def __str__(self):
        return " ".join((self.program, *map(str, self.options)))

    @property
    def latencies(self):
        return self.program.endswith("_lat")


def plain():
    for program in LATENCY:
        yield Run(program, ("-n", 100), (2,), 100)
    for program in BANDWIDTH:
        yield Run(program, ("-n", 200), (65536,), 200)
    yield Run("ib_atomic_lat", ("-A", ATOMIC[0], "-n", 100), (8,), 100)
    yield Run("ib_atomic_bw", ("-A", ATOMIC[0], "-n", 200), (8,), 200)


def variants():
    """Yields the variants sorted by kind, so that each kind is distributed over the combinations."""
    for program in (*LATENCY, *BANDWIDTH):
        if foreign.Setting.full or program in ALL_SIZES_BY_DEFAULT:
            yield Run(program, ("-a", "-n", 10), tuple(ALL_SIZES), 10)
    for program in BANDWIDTH:
        yield Run(program, ("-q", 4, "-n", 100), (65536,), 400)
        yield Run(program, ("-b", "-n", 200), (65536,), 200)
        yield Run(program, ("-n", 20_000, "-s", 64), (64,), 20_000)
    for program in (*LATENCY, *BANDWIDTH):
        if program not in WITHOUT_EVENTS:
            yield Run(program, ("-e", "-n", 200, "-s", 64), (64,), 200)
        if program in WITH_INLINE:
            yield Run(program, ("-I", 64, "-s", 64, "-n", 200), (64,), 200)
    # Bidirectional runs with events use one queue pair. perftest polls once for each event, and takes at most as many
    # completions as one queue pair has receives. With four queue pairs, completions can remain without another event.
    yield Run("ib_send_bw", ("-e", "-b", "-n", 200), (65536,), 200)
    yield Run("ib_send_lat", ("-n", 5000), (2,), 5000)
    for operation in ATOMIC:
        yield Run("ib_atomic_lat", ("-A", operation, "-e", "-n", 200), (8,), 200)
        yield Run("ib_atomic_bw", ("-A", operation, "-q", 4, "-n", 100), (8,), 400)
        yield Run("ib_atomic_bw", ("-A", operation, "-b", "-n", 100), (8,), 100)
        yield Run("ib_atomic_bw", ("-A", operation, "-e", "-n", 100), (8,), 100)
    # Fewer messages than posted receives: a message without a receive is dropped, and perftest would wait for it.
    for program, transport, size in UNRELIABLE:
        yield Run(program, ("-c", transport, "-n", 200), (size,), 200)
        if foreign.Setting.full and program not in WITHOUT_EVENTS:
            yield Run(program, ("-c", transport, "-e", "-n", 200, "-s", 64), (64,), 200)
        if foreign.Setting.full:
            yield Run(program, ("-c", transport, "-I", 64, "-s", 64, "-n", 200), (64,), 200)
    yield Run("ib_atomic_lat", ("-A", ATOMIC[1], "-n", 200), (8,), 200)
    yield Run("ib_atomic_bw", ("-A", ATOMIC[1], "-n", 5000), (8,), 5000)
    yield Run("ib_send_bw", ("--use-srq", "-q", 4, "-n", 100), (65536,), 400)
    yield Run("ib_send_lat", ("--use-srq", "-n", 200), (2,), 200)
    yield Run("ib_send_bw", ("--use-srq", "-e", "-q", 2, "-n", 100), (65536,), 200)
    yield Run("ib_write_bw", ("--odp", "-n", 200), (65536,), 200)


def scalable():
    """Yields SRD runs on soft0 as an Elastic Fabric Adapter: sends and reads, which perftest supports. -x: the GID index."""
    srd = ("-c", "SRD", "-x", 0)
    yield Run("ib_send_lat", (*srd, "-n", 200), (2,), 200)
    yield Run("ib_send_bw", (*srd, "-n", 200, "-s", 4096), (4096,), 200)
    yield Run("ib_read_lat", (*srd, "-n", 200), (2,), 200)
    yield Run("ib_read_bw", (*srd, "-n", 200), (65536,), 200)
    if foreign.Setting.full:
        yield Run("ib_send_bw", (*srd, "-b", "-n", 200, "-s", 4096), (4096,), 200)
        yield Run("ib_send_lat", (*srd, "-I", 32, "-s", 32, "-n", 200), (32,), 200)
        yield Run("ib_send_lat", (*srd, "-a", "-n", 10), tuple(2 ** power for power in range(1, 14)), 10)
        yield Run("ib_read_bw", (*srd, "-q", 4, "-n", 100), (65536,), 400)


class Measures(foreign.Case):
    def check(self, one):
        with foreign.reserved_port() as port:
            ends = foreign.pair(port, one.program, "-d", "soft0", "-p", port, *one.options)
        self.assert_succeeded(*ends)
        server, client = ends
        for end in ends:
            self.assertEqual(rows.complaints(end.output), [], end)
        found = rows.rows(client.output)
        self.assertEqual([row[:2] for row in found], [[size, one.iterations] for size in one.sizes], client)
        for row in found:
            doubt = rows.doubt_latency(row) if one.latencies else rows.doubt_bandwidth(row)
            self.assertIsNone(doubt, f"{row}\n{client}")
        self.assertIn("Device         : soft0", server.output)

    def test_plainly(self):
        for one in plain():
            with self.subTest(run=str(one)):
                self.check(one)

    def test_variants(self):
        for index, one in enumerate(variants()):
            if foreign.Setting.runs(index):
                with self.subTest(run=str(one)):
                    self.check(one)

    def test_scalable_datagrams(self):
        with foreign.Setting.also(VERBENA_SOFTDEV_PERSONA="efa"):
            for index, one in enumerate(scalable()):
                if foreign.Setting.runs(index):
                    with self.subTest(run=str(one)):
                        self.check(one)


if __name__ == "__main__":
    foreign.main()
