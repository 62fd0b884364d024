# SPDX-License-Identifier: MIT
"""rcopy copies files of all sizes over all transports."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import MIB, RCOPY, Case, content, rcopy  # noqa: E402

SIZES = (0, 1, 4095, MIB + 1, 64 * MIB)


class Copies(Case):
    def round_trip(self, server, size, *words):
        original = self.file(f"file{size}.bin", size)
        self.assert_done(rcopy("put", original, server.place, *words))
        self.assertEqual((self.served / original.name).read_bytes(), original.read_bytes())
        back = self.work / "back.bin"
        self.assert_done(rcopy("get", original.name, server.place, "-o", back, *words))
        self.assertEqual(back.read_bytes(), original.read_bytes())
        self.assertEqual(self.names(), [original.name])
        (self.served / original.name).unlink()

    def test_round_trip_of_all_sizes_over_rdma(self):
        server = self.serve()
        for size in SIZES:
            with self.subTest(size=size):
                self.round_trip(server, size)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(server.errors(), "")

    def test_round_trip_over_tcp(self):
        server = self.serve()
        for size in (0, 1, MIB + 1):
            with self.subTest(size=size):
                self.round_trip(server, size, "--over", "tcp")

    def test_round_trip_over_cm(self):
        server = self.serve()
        for size in (0, 1, 10 * MIB + 1):
            with self.subTest(size=size):
                self.round_trip(server, size, "--over", "cm")
        self.round_trip(server, MIB + 17, "--over", "cm", "--chunk", "4097", "--window", "1")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(server.errors(), "")

    def test_round_trip_with_all_chunk_sizes_and_windows(self):
        server = self.serve()
        for chunk, window in (("4096", 1), ("4097", 2), ("64K", 64), ("16M", 4)):
            with self.subTest(chunk=chunk, window=window):
                self.round_trip(server, 3 * MIB + 17, "--chunk", chunk, "--window", window)

    def test_put_replaces_an_existing_file(self):
        server = self.serve()
        (self.served / "same.bin").write_bytes(b"old")
        new = self.file("same.bin", 5000)
        self.assert_done(rcopy("put", new, server.place))
        self.assertEqual((self.served / "same.bin").read_bytes(), new.read_bytes())
        shorter = self.file("shorter.bin", 50)
        self.assert_done(rcopy("put", shorter, server.place, "--name", "same.bin"))
        self.assertEqual((self.served / "same.bin").read_bytes(), shorter.read_bytes())

    def test_put_replaces_a_symbolic_link(self):
        server = self.serve()
        outside = self.file("outside.bin", 10)
        (self.served / "link").symlink_to(outside)
        before = outside.read_bytes()
        new = self.file("new.bin", 20)
        self.assert_done(rcopy("put", new, server.place, "--name", "link"))
        self.assertEqual(outside.read_bytes(), before)
        self.assertFalse((self.served / "link").is_symlink())

    def test_clients_are_served_concurrently(self):
        server = self.serve()
        files = [self.file(f"many{i}.bin", 4 * MIB + i) for i in range(4)]
        clients = [subprocess.Popen([RCOPY, "put", str(file), server.place], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL) for file in files]
        self.assertEqual([client.wait(60) for client in clients], [0] * 4)
        for file in files:
            self.assertEqual((self.served / file.name).read_bytes(), file.read_bytes())

    def test_json_output_contains_the_result(self):
        server = self.serve()
        file = self.file("json.bin", 70_000)
        put = rcopy("put", file, server.place, "--json")
        self.assert_done(put)
        got = rcopy("get", "json.bin", server.place, "--json", "-o", self.work / "out.bin")
        sums = set()
        for finished, command in ((put, "put"), (got, "get")):
            printed = json.loads(finished.stdout)
            self.assertEqual((printed["command"], printed["ok"], printed["bytes"]), (command, True, 70_000))
            self.assertGreater(printed["copy_seconds"], 0)
            self.assertGreater(printed["bytes_per_second"], 0)
            sums.add(printed["xxh3_128"])
            for side, stage in (("sender", "read_seconds"), ("receiver", "write_seconds")):
                times = printed[side]
                self.assertEqual(set(times), {stage, "checksum_seconds", "transport_seconds", "waiting_seconds"})
                self.assertGreater(sum(times.values()), 0)
        self.assertEqual(len(sums), 1)
        failed = rcopy("get", "missing", server.place, "--json")
        self.assertEqual(failed.returncode, 1)
        printed = json.loads(failed.stdout)
        self.assertFalse(printed["ok"])
        self.assertIn("does not exist", printed["error"])

    def test_file_mode_follows_the_umask(self):
        server = self.serve(preexec_fn=lambda: os.umask(0o027))
        self.assert_done(rcopy("put", self.file("rights.bin", 1), server.place))
        self.assertEqual((self.served / "rights.bin").stat().st_mode & 0o777, 0o640)

    def test_help_fits_80_columns(self):
        for words in (["--help"], ["serve", "--help"], ["put", "--help"], ["get", "--help"]):
            finished = rcopy(*words)
            self.assertEqual(finished.returncode, 0)
            for line in finished.stdout.decode().splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_content_depends_on_the_seed(self):
        self.assertNotEqual(content(100, 1), content(100, 2))


if __name__ == "__main__":
    unittest.main()
