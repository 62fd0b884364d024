# SPDX-License-Identifier: MIT
"""ibv_rc_pingpong: polling, events, the extended interface, checked data, sizes."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import foreign  # noqa: E402

# Options, bytes of a message, messages in each direction. -c lets both sides check what they receive.
CASES = [
    ((), 4096, 1000),
    (("-e",), 4096, 300),
    (("-N", "-c"), 4096, 300),
    (("-c",), 4096, 300),
    (("-c", "-e"), 1 << 20, 200),
    (("-c", "-N", "-e"), 65536, 100),
    (("-c", "-m", "1024", "-r", "7"), 1, 500),
    (("-c", "-t"), 4096, 100),
    (("-c",), 5 << 20, 20),
    (("-N",), 8, 20_000),
]


class PingPong(foreign.Case):
    def check(self, options, size, count):
        with foreign.reserved_port() as port:
            ends = foreign.pair(port, "ibv_rc_pingpong", "-d", "soft0", "-g", "0", "-p", port, "-s", size, "-n", count,
                                *options)
        self.assert_succeeded(*ends)
        for end in ends:
            self.assertNotIn("invalid data", end.output)
            self.assertRegex(end.output, re.compile(rf"^{2 * size * count} bytes in [\d.]+ seconds", re.MULTILINE))
            self.assertRegex(end.output, re.compile(rf"^{count} iters in [\d.]+ seconds", re.MULTILINE))

    def test_pingpong(self):
        for options, size, count in (case for index, case in enumerate(CASES) if foreign.Setting.runs(index)):
            with self.subTest(options=" ".join(options), size=size, count=count):
                self.check(options, size, count)


if __name__ == "__main__":
    foreign.main()
