# SPDX-License-Identifier: MIT
"""rcopy refuses unsupported requests with one line of error and changes no file."""
import os
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (BLOB, BOUND, CM, ENDPOINT, GET, GREETING, MIB, OFFER, OLD_GREETING, PUT, RCOPY, RDMA,  # noqa: E402
                     READY, REFUSAL, SERVER_GREETING, Case, RawClient, frame, limit_file_size, rcopy, request, summary)


class Refusals(Case):
    def test_missing_files(self):
        server = self.serve()
        self.assert_refused(rcopy("put", self.work / "missing", server.place), "there is no such file")
        self.assert_refused(rcopy("get", "missing", server.place, "-o", self.work / "x"), "there is no such file")
        self.assertFalse((self.work / "x").exists())
        self.assert_serves(server)

    def test_what_is_no_regular_file(self):
        server = self.serve()
        (self.served / "folder").mkdir()
        os.mkfifo(self.served / "fifo")
        (self.served / "link").symlink_to("/etc/passwd")
        self.assert_refused(rcopy("put", self.work, server.place, "--name", "x"), "it is a directory")
        self.assert_refused(rcopy("get", "folder", server.place, "-o", self.work / "x"), "it is a directory")
        self.assert_refused(rcopy("get", "fifo", server.place, "-o", self.work / "x"), "not a regular file")
        self.assert_refused(rcopy("get", "link", server.place, "-o", self.work / "x"), "symbolic link")
        self.assert_refused(rcopy("put", self.file("f", 1), server.place, "--name", "folder"), "is a directory")
        self.assertEqual(self.names(), ["fifo", "folder", "link"])

    def test_names_that_leave_the_directory(self):
        server = self.serve()
        file = self.file("f", 1)
        for name in ("../up", "/etc/absolute", "a/b", "..", ".", "x\n", ".rcopy-1.part", "n" * 256):
            self.assert_refused(rcopy("put", file, server.place, "--name", name), "use a plain name")
            self.assert_refused(rcopy("get", name, server.place, "-o", self.work / "x"), "use a plain name")
        self.assertEqual(self.names(), [])

    def test_names_that_leave_the_directory_from_a_client_that_does_not_check(self):
        server = self.serve()
        for name in (b"../up", b"/etc/absolute", b"a/b", b"..", b".", b"", b"nul\0nul", b"x\n", b".rcopy-x",
                     b"n" * 256):
            for what in (1, GET):
                with RawClient(server) as client:
                    client.greeted().say(frame(BLOB, request(what=what, name=name)))
                    kind, words = client.hear_frame()
                    self.assertEqual(kind, REFUSAL, name)
                    self.assertIn(b"use a plain name", words)
        self.assertEqual(self.names(), [])
        self.assertEqual(sorted(os.listdir(self.work)), ["served"])
        self.assert_serves(server)

    def test_a_file_beyond_the_limit_of_the_receiver(self):
        server = self.serve()
        server.limit_file_size(64 * MIB)  # enough for the device's own memory
        (self.served / "large.bin").write_bytes(b"old")
        large = self.work / "large.bin"
        with large.open("wb") as file:
            file.truncate(65 * MIB)
        for over in ("rdma", "tcp"):
            self.assert_refused(rcopy("put", large, server.place, "--over", over), "larger than is allowed")
        self.assertEqual(self.names(), ["large.bin"])
        self.assertEqual((self.served / "large.bin").read_bytes(), b"old")
        self.assert_serves(server)

    def test_a_file_beyond_the_limit_of_the_client(self):
        server = self.serve()
        (self.served / "big.bin").write_bytes(bytes(2 * MIB))
        self.assert_refused(rcopy("get", "big.bin", server.place, "-o", self.work / "got.bin", "--over", "tcp",
                                  preexec_fn=limit_file_size(MIB)), "larger than is allowed")
        self.assertEqual(sorted(os.listdir(self.work)), ["served"])
        self.assert_serves(server)

    def test_a_file_that_no_disk_has_room_for(self):
        server = self.serve()
        with RawClient(server) as client:
            client.greeted().say(frame(BLOB, request(size=1 << 62)))
            kind, words = client.hear_frame()
        self.assertEqual(kind, REFUSAL)
        self.assertRegex(words.decode(), "disk is full|larger than is allowed")
        self.assertEqual(self.names(), [])

    def test_a_server_that_is_not_there(self):
        server = self.serve()
        server.stop()
        self.assert_refused(rcopy("put", self.file("f", 1), server.place), "start the peer first")

    def test_a_server_that_is_something_else(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            place = f"127.0.0.1:{other.getsockname()[1]}"
            self.assert_refused(rcopy("put", self.file("f", 1), place, "--timeout", "0.5"), "sent no greeting in time")

    def test_a_device_that_is_not_there(self):
        server = self.serve()
        self.assert_refused(rcopy("put", self.file("f", 1), server.place, "--device", "mlx5_9"), "mlx5_9")
        self.assert_refused(rcopy("put", self.file("f", 1), server.place, "--device", "mlx5_9", "--over", "cm"),
                            "is reached by soft0")
        self.assert_serves(server)

    def test_a_port_that_is_taken(self):
        server = self.serve()
        self.assert_refused(rcopy("serve", self.served, "--port", server.port), "another process uses this port")

    def test_a_directory_that_is_not_there(self):
        self.assert_refused(rcopy("serve", self.work / "missing"), "there is no such file")

    def test_wrong_usage(self):
        for words in ((), ("copy",), ("put", "f"), ("put", "f", "host:notaport"), ("put", "f", "h", "--over", "ip"),
                      ("put", "f", "h", "--chunk", "1"), ("put", "f", "h", "--window", "65"), ("serve",)):
            self.assert_refused(rcopy(*words), "rcopy", status=2)

    def test_more_clients_than_there_are_places(self):
        server = self.serve("--max-clients", 1, "--timeout", "2")
        with RawClient(server) as first:
            first.greeted()  # has the only place until the timeout of the server
            self.assert_refused(rcopy("put", self.file("f", 1), server.place), "places for clients are taken")

    def test_a_client_beyond_the_places_waits_for_one(self):
        server = self.serve("--max-clients", 1)
        with RawClient(server) as first:
            first.greeted()
            second = subprocess.Popen([RCOPY, "put", str(self.file("f", 1)), server.place, "--quiet"])
            with self.assertRaises(subprocess.TimeoutExpired):
                second.wait(1)
        self.assertEqual(second.wait(BOUND), 0)
        self.assertEqual(self.names(), ["f"])


class Nonsense(Case):
    """A client that speaks nonsense is told so where it can be, and harms nobody else."""

    def test_bytes_of_another_protocol(self):
        server = self.serve()
        with RawClient(server, greeting=b"GET / HTTP/1.1\r\n\r\n") as client:
            self.assertEqual(client.hear_end(), b"")
        self.assert_serves(server)

    def test_another_version_of_the_bring_up(self):
        server = self.serve()
        with RawClient(server, greeting=bytes.fromhex("56425550 0009 000a")) as client:
            self.assertEqual(client.hear_end(), SERVER_GREETING)
        self.assert_serves(server)

    def test_another_version_of_the_request(self):
        server = self.serve()
        with RawClient(server) as client:
            client.greeted().say(frame(BLOB, request(version=1)))
            kind, words = client.hear_frame()
        self.assertEqual(kind, REFUSAL)
        self.assertIn(b"version 1 of rcopy's protocol", words)
        self.assert_serves(server)

    def test_requests_beyond_the_limits(self):
        server = self.serve()
        for bad in (request(what=3), request(over=0), request(over=4), request(chunk=1), request(chunk=1 << 31), request(window=0),
                    request(window=65535), request(chunk=16 * MIB, window=64), request(size=(1 << 64) - 1),
                    request()[:10], b"", b"x" * 1000):
            with RawClient(server) as client:
                client.greeted().say(frame(BLOB, bad))
                kind, _ = client.hear_frame()
                self.assertEqual(kind, REFUSAL, bad)
        self.assert_serves(server)

    def test_frames_that_do_not_exist(self):
        server = self.serve()
        for bad in (b"\xff" * 64, frame(9), frame(BLOB, b"")[:4] + b"\xff\xff\xff\xff", frame(ENDPOINT, b"x" * 30),
                    frame(READY)):
            with RawClient(server) as client:
                client.greeted().say(bad)
                client.hear_end()
        self.assert_serves(server)

    def test_nonsense_where_the_queue_pair_was_due(self):
        server = self.serve()
        (self.served / "f").write_bytes(b"x" * 100)
        for what in (1, GET):
            for greeting, due in ((OLD_GREETING, ENDPOINT), (GREETING, OFFER)):
                for bad in (frame(BLOB) + frame(due, b"\xff" * 30), frame(BLOB, b"\xff" * 21) + frame(BLOB),
                            frame(READY), b"\xff" * 100):
                    with RawClient(server, greeting=greeting) as client:
                        client.greeted().say(frame(BLOB, request(what=what, over=RDMA, name=b"f")))
                        self.assertEqual(client.hear_frame()[0], BLOB)
                        client.say(bad)
                        client.hear_end()
        self.assertEqual((self.served / "f").read_bytes(), b"x" * 100)
        self.assertEqual(self.names(), ["f"])
        self.assert_serves(server)

    def test_nonsense_where_the_connection_manager_was_due(self):
        server = self.serve()
        (self.served / "f").write_bytes(b"x" * 100)
        for what, bad in ((PUT, frame(BLOB)), (GET, b"\xff" * 100)):
            with RawClient(server) as client:
                client.greeted().say(frame(BLOB, request(what=what, over=CM, name=b"f")))
                self.assertEqual(client.hear_frame()[0], BLOB)
                kind, place = client.hear_frame()
                self.assertEqual((kind, len(place)), (BLOB, 18))
                client.say(bad)
                client.hear_end()
        self.assertEqual((self.served / "f").read_bytes(), b"x" * 100)
        self.assert_serves(server)

    def test_content_that_is_not_what_was_announced(self):
        server = self.serve()
        (self.served / "raw.bin").write_bytes(b"old")
        for size, checksum in ((10, b"\0" * 16), (11, b"\0" * 16)):
            with RawClient(server) as client:
                client.greeted().say(frame(BLOB, request()))
                self.assertEqual(client.hear_frame()[0], BLOB)
                client.say(b"0123456789", frame(BLOB, summary(size, checksum)))
                kind, words = client.hear_frame()
                self.assertEqual(kind, REFUSAL)
                self.assertIn(b"what arrived is not what was sent", words)
        self.assertEqual((self.served / "raw.bin").read_bytes(), b"old")
        self.assertEqual(self.names(), ["raw.bin"])

    def test_clients_that_stop_half_way(self):
        server = self.serve()
        idle = [RawClient(server, greeting=b"VB") for _ in range(5)]
        idle += [RawClient(server).greeted() for _ in range(2)]
        idle.append(RawClient(server).greeted())
        idle[-1].say(frame(BLOB, request(size=MIB)), b"half")
        self.assert_serves(server)
        for client in idle:
            client.socket.close()
        self.assert_serves(server)
        self.assertEqual(self.names(), [])

    def test_a_client_that_hangs_is_given_up(self):
        server = self.serve("--timeout", "0.2")
        with RawClient(server) as client:
            client.greeted().say(frame(BLOB, request(size=MIB)), b"half")
            client.hear_frame()
            self.assertIn(b"nothing moved", client.hear_end())
        self.assertEqual(server.stop(), 0)
        self.assertIn("nothing moved", server.errors())
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
