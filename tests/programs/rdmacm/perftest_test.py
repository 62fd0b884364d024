# SPDX-License-Identifier: MIT
"""perftest with queue pairs that librdmacm connects (-R)."""
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent), str(FOLDER.parent / "perftest")]
import connections  # noqa: E402
import foreign  # noqa: E402
import rows  # noqa: E402

# Program, options, bytes, printed number of messages. By default each combination runs one of the first four.
RUNS = [
    ("ib_write_bw", ("-n", 200), 65536, 200),
    ("ib_send_lat", ("-n", 100), 2, 100),
    ("ib_send_bw", ("-n", 100, "-c", "UD", "-s", 1024), 1024, 100),
    ("ib_read_bw", ("-n", 200), 65536, 200),
    ("ib_send_bw", ("-n", 100, "-q", 4), 65536, 400),
    ("ib_write_lat", ("-n", 100), 2, 100),
    ("ib_read_lat", ("-n", 100), 2, 100),
    ("ib_atomic_bw", ("-n", 100), 8, 100),
    ("ib_send_lat", ("-n", 100, "-c", "UD"), 2, 100),
    ("ib_write_bw", ("-n", 100, "-b"), 65536, 100),
    ("ib_send_bw", ("-n", 100, "-e", "-s", 64), 64, 100),
    ("ib_write_bw", ("-n", 100, "-q", 4), 65536, 400),
]


class Connected(foreign.Case):
    def check(self, program, options, size, count):
        with connections.port() as port:
            words = (program, "-R", "-p", port, *options)
            server, client = connections.server_and_client(port, words, (*words, "127.0.0.1"))
        self.assert_succeeded(server, client)
        for end in (server, client):
            self.assertEqual(rows.complaints(end.output), [], end)
        found = rows.rows(client.output)
        self.assertEqual([row[:2] for row in found], [[size, count]], client)
        doubt = (rows.doubt_latency if program.endswith("_lat") else rows.doubt_bandwidth)(found[0])
        self.assertIsNone(doubt, f"{found[0]}\n{client}")

    def test_measures(self):
        for index, run in enumerate(RUNS):
            if foreign.Setting.full or index == foreign.Setting.number():
                with self.subTest(run=str(run)):
                    self.check(*run)


if __name__ == "__main__":
    foreign.main()
