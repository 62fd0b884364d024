# SPDX-License-Identifier: MIT
"""The ping-pong programs of RC, SRQ, UC and UD: polling, events, the extended interface, checked data, sizes."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import foreign  # noqa: E402

# Program, options, bytes of a message, messages in each direction. With -c both sides check the received data.
RC, SRQ = "ibv_rc_pingpong", "ibv_srq_pingpong"
CASES = [
    (RC, (), 4096, 1000),
    (RC, ("-e",), 4096, 300),
    (RC, ("-N", "-c"), 4096, 300),
    (RC, ("-c",), 4096, 300),
    (RC, ("-c", "-e"), 1 << 20, 200),
    (RC, ("-c", "-N", "-e"), 65536, 100),
    (RC, ("-c", "-m", "1024", "-r", "7"), 1, 500),
    (RC, ("-c", "-t"), 4096, 100),
    (RC, ("-c",), 5 << 20, 20),
    (RC, ("-N",), 8, 20_000),
    (SRQ, (), 4096, 1000),
    (SRQ, ("-c", "-e"), 4096, 300),
    (SRQ, ("-c", "-q", "3", "-r", "20"), 65536, 100),
    (SRQ, ("-c", "-o", "-q", "64"), 1, 500),
    (RC, ("-c", "-o"), 4096, 100),
    (RC, ("-c", "-O", "-P"), 65536, 100),
]
# These programs cannot check the data. A message is at most one packet.
UNRELIABLE = [
    ("ibv_uc_pingpong", (), 4096, 1000),
    ("ibv_ud_pingpong", (), 1024, 1000),
    ("ibv_uc_pingpong", ("-e",), 1 << 20, 100),
    ("ibv_ud_pingpong", ("-e",), 4096, 300),
]

# The programs on InfiniBand personas: addressed by LID only, and with a GRH.
SUBNET_CASES = [
    ("ibv_rc_pingpong", ("-c",), 4096, 100),
    ("ibv_rc_pingpong", ("-c", "-g", "0"), 4096, 100),
    ("ibv_uc_pingpong", (), 4096, 100),
    ("ibv_ud_pingpong", (), 1024, 100),
    ("ibv_ud_pingpong", ("-g", "0"), 1024, 100),
]


class PingPong(foreign.Case):
    def check(self, program, options, size, count):
        with foreign.reserved_port() as port:
            ends = foreign.pair(port, program, "-d", "soft0", "-p", port, "-s", size, "-n", count, *options)
        self.assert_succeeded(*ends)
        for end in ends:
            self.assertNotIn("invalid data", end.output)
            self.assertRegex(end.output, re.compile(rf"^{2 * size * count} bytes in [\d.]+ seconds", re.MULTILINE))
            self.assertRegex(end.output, re.compile(rf"^{count} iters in [\d.]+ seconds", re.MULTILINE))

    def check_all(self, cases):
        for program, options, size, count in (case for index, case in enumerate(cases) if foreign.Setting.runs(index)):
            with self.subTest(program=program, options=" ".join(options), size=size, count=count):
                self.check(program, options, size, count)

    def test_pingpong(self):
        self.check_all([(program, ("-g", "0", *options), *rest) for program, options, *rest in CASES])

    def test_unreliable_pingpong(self):
        self.check_all([(program, ("-g", "0", *options), *rest) for program, options, *rest in UNRELIABLE])

    def test_pingpong_of_infiniband_adapters(self):
        with foreign.Setting.also(VERBENA_SOFTDEV_PERSONA="infiniband"):
            for program, options, size, count in SUBNET_CASES:
                with self.subTest(program=program, options=" ".join(options)):
                    self.check(program, options, size, count)


if __name__ == "__main__":
    foreign.main()
