# SPDX-License-Identifier: MIT
"""rcopy refuses unsupported requests with one line of error and changes no file."""
import contextlib
import os
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (BLOB, BOUND, CM, ENDPOINT, GET, GREETING, MIB, OFFER, OLD_GREETING, PUT, RCOPY, RDMA,  # noqa: E402
                     READY, REFUSAL, SERVER_GREETING, Case, RawClient, frame, limit_file_size, rcopy, request, summary)

MAX_WAITING = 64  # clients that wait to be served (examples/rcopy/server.cpp)


class Refusals(Case):
    def test_missing_file_is_refused(self):
        server = self.serve()
        self.assert_refused(rcopy("put", self.work / "missing", server.place), "does not exist")
        self.assert_refused(rcopy("get", "missing", server.place, "-o", self.work / "x"), "does not exist")
        self.assertFalse((self.work / "x").exists())
        self.assert_serves(server)

    def test_irregular_file_is_refused(self):
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

    def test_name_outside_the_directory_is_refused_by_the_client(self):
        server = self.serve()
        file = self.file("f", 1)
        for name in ("../up", "/etc/absolute", "a/b", "..", ".", "x\n", ".rcopy-1.part", "n" * 256):
            self.assert_refused(rcopy("put", file, server.place, "--name", name), "use a plain name")
            self.assert_refused(rcopy("get", name, server.place, "-o", self.work / "x"), "use a plain name")
        self.assertEqual(self.names(), [])

    def test_name_outside_the_directory_is_refused_by_the_server(self):
        server = self.serve()
        for name in (b"../up", b"/etc/absolute", b"a/b", b"..", b".", b"", b"nul\0nul", b"x\n", b".rcopy-x",
                     b"n" * 256):
            for what in (1, GET):
                with RawClient(server) as client:
                    client.greeted().send(frame(BLOB, request(what=what, name=name)))
                    kind, words = client.receive_frame()
                    self.assertEqual(kind, REFUSAL, name)
                    self.assertIn(b"use a plain name", words)
        self.assertEqual(self.names(), [])
        self.assertEqual(sorted(os.listdir(self.work)), ["served"])
        self.assert_serves(server)

    def test_put_beyond_the_file_size_limit_of_the_server_is_refused(self):
        server = self.serve()
        server.limit_file_size(64 * MIB)  # enough for the memory of the software device
        (self.served / "large.bin").write_bytes(b"old")
        large = self.work / "large.bin"
        with large.open("wb") as file:
            file.truncate(65 * MIB)
        for over in ("rdma", "tcp"):
            self.assert_refused(rcopy("put", large, server.place, "--over", over), "exceeds the size limit")
        self.assertEqual(self.names(), ["large.bin"])
        self.assertEqual((self.served / "large.bin").read_bytes(), b"old")
        self.assert_serves(server)

    def test_get_beyond_the_file_size_limit_of_the_client_is_refused(self):
        server = self.serve()
        (self.served / "big.bin").write_bytes(bytes(2 * MIB))
        self.assert_refused(rcopy("get", "big.bin", server.place, "-o", self.work / "got.bin", "--over", "tcp",
                                  preexec_fn=limit_file_size(MIB)), "exceeds the size limit")
        self.assertEqual(sorted(os.listdir(self.work)), ["served"])
        self.assert_serves(server)

    def test_file_larger_than_the_disk_is_refused(self):
        server = self.serve()
        with RawClient(server) as client:
            client.greeted().send(frame(BLOB, request(size=1 << 62)))
            kind, words = client.receive_frame()
        self.assertEqual(kind, REFUSAL)
        self.assertRegex(words.decode(), "disk is full|exceeds the size limit")
        self.assertEqual(self.names(), [])

    def test_put_without_server_fails(self):
        server = self.serve()
        server.stop()
        self.assert_refused(rcopy("put", self.file("f", 1), server.place), "start the peer first")

    def test_put_to_another_service_fails(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            place = f"127.0.0.1:{other.getsockname()[1]}"
            self.assert_refused(rcopy("put", self.file("f", 1), place, "--timeout", "0.5"), "sent no greeting in time")

    def test_missing_device_is_refused(self):
        server = self.serve()
        self.assert_refused(rcopy("put", self.file("f", 1), server.place, "--device", "mlx5_9"), "mlx5_9")
        self.assert_refused(rcopy("put", self.file("f", 1), server.place, "--device", "mlx5_9", "--over", "cm"),
                            "uses soft0")
        self.assert_serves(server)

    def test_used_port_is_refused(self):
        server = self.serve()
        self.assert_refused(rcopy("serve", self.served, "--port", server.port), "another process uses this port")

    def test_missing_directory_is_refused(self):
        self.assert_refused(rcopy("serve", self.work / "missing"), "does not exist")

    def test_invalid_command_line_exits_with_2(self):
        for words in ((), ("copy",), ("put", "f"), ("put", "f", "host:notaport"), ("put", "f", "h", "--over", "ip"),
                      ("put", "f", "h", "--chunk", "1"), ("put", "f", "h", "--window", "65"), ("serve",)):
            self.assert_refused(rcopy(*words), "rcopy", status=2)

    def test_client_above_max_clients_is_refused_after_half_of_the_timeout(self):
        server = self.serve("--max-clients", 1, "--timeout", "2")
        with RawClient(server) as first, RawClient(server) as second:
            # One of them is the only client until the timeout of the server.
            received = sorted(client.greeted().receive_rest() for client in (first, second))
        self.assertEqual(received[0], b"")
        self.assertEqual(received[1][0], REFUSAL)
        self.assertIn(b"the server is already serving 1 clients", received[1])

    def busy_server(self, clients):
        """Starts a server that refuses each further client until `clients` is closed."""
        server = self.serve("--max-clients", 1, "--timeout", BOUND)
        for _ in range(1 + MAX_WAITING):
            clients.enter_context(RawClient(server)).greeted()
        return server

    def test_refused_client_retries_until_it_is_served(self):
        with contextlib.ExitStack() as waiting:
            server = self.busy_server(waiting)
            clients = [subprocess.Popen([RCOPY, "put", str(self.file(name, 1)), server.place, "--quiet",
                                         "--timeout", str(BOUND)]) for name in ("f0", "f1", "f2")]
            end = time.monotonic() + BOUND
            while server.errors().count("too many clients") < 6 and time.monotonic() < end:
                with self.assertRaises(subprocess.TimeoutExpired):
                    clients[0].wait(0.05)
        self.assertEqual([client.wait(BOUND) for client in clients], [0, 0, 0])
        self.assertEqual(self.names(), ["f0", "f1", "f2"])
        self.assertGreaterEqual(server.errors().count("too many clients"), 6)

    def test_client_that_is_refused_until_its_timeout_fails_with_the_refusal(self):
        with contextlib.ExitStack() as waiting:
            server = self.busy_server(waiting)
            refused = rcopy("put", self.file("f", 1), server.place, "--timeout", "2")
            self.assert_refused(refused, "the server is already serving 1 clients")
            self.assertGreaterEqual(server.errors().count("too many clients"), 2)

    def test_client_above_max_clients_waits(self):
        server = self.serve("--max-clients", 1)
        with RawClient(server) as first:
            first.greeted()
            second = subprocess.Popen([RCOPY, "put", str(self.file("f", 1)), server.place, "--quiet"])
            with self.assertRaises(subprocess.TimeoutExpired):
                second.wait(1)
        self.assertEqual(second.wait(BOUND), 0)
        self.assertEqual(self.names(), ["f"])


class InvalidClients(Case):
    """A client that violates the protocol is refused and does not affect other clients."""

    def test_greeting_of_another_protocol_closes_the_connection(self):
        server = self.serve()
        with RawClient(server, greeting=b"GET / HTTP/1.1\r\n\r\n") as client:
            self.assertEqual(client.receive_rest(), b"")
        self.assert_serves(server)

    def test_unknown_bring_up_version_closes_the_connection(self):
        server = self.serve()
        with RawClient(server, greeting=bytes.fromhex("56425550 0009 000a")) as client:
            self.assertEqual(client.receive_rest(), SERVER_GREETING)
        self.assert_serves(server)

    def test_unknown_request_version_is_refused(self):
        server = self.serve()
        with RawClient(server) as client:
            client.greeted().send(frame(BLOB, request(version=1)))
            kind, words = client.receive_frame()
        self.assertEqual(kind, REFUSAL)
        self.assertIn(b"version 1 of rcopy's protocol", words)
        self.assert_serves(server)

    def test_request_beyond_the_limits_is_refused(self):
        server = self.serve()
        for bad in (request(what=3), request(over=0), request(over=4), request(chunk=1), request(chunk=1 << 31), request(window=0),
                    request(window=65535), request(chunk=16 * MIB, window=64), request(size=(1 << 64) - 1),
                    request()[:10], b"", b"x" * 1000):
            with RawClient(server) as client:
                client.greeted().send(frame(BLOB, bad))
                kind, _ = client.receive_frame()
                self.assertEqual(kind, REFUSAL, bad)
        self.assert_serves(server)

    def test_invalid_frame_closes_the_connection(self):
        server = self.serve()
        for bad in (b"\xff" * 64, frame(9), frame(BLOB, b"")[:4] + b"\xff\xff\xff\xff", frame(ENDPOINT, b"x" * 30),
                    frame(READY)):
            with RawClient(server) as client:
                client.greeted().send(bad)
                client.receive_rest()
        self.assert_serves(server)

    def test_invalid_endpoint_closes_the_connection(self):
        server = self.serve()
        (self.served / "f").write_bytes(b"x" * 100)
        for what in (1, GET):
            for greeting, expected in ((OLD_GREETING, ENDPOINT), (GREETING, OFFER)):
                for bad in (frame(BLOB) + frame(expected, b"\xff" * 30), frame(BLOB, b"\xff" * 21) + frame(BLOB),
                            frame(READY), b"\xff" * 100):
                    with RawClient(server, greeting=greeting) as client:
                        client.greeted().send(frame(BLOB, request(what=what, over=RDMA, name=b"f")))
                        self.assertEqual(client.receive_frame()[0], BLOB)
                        client.send(bad)
                        client.receive_rest()
        self.assertEqual((self.served / "f").read_bytes(), b"x" * 100)
        self.assertEqual(self.names(), ["f"])
        self.assert_serves(server)

    def test_invalid_message_before_cm_connection_closes_the_connection(self):
        server = self.serve()
        (self.served / "f").write_bytes(b"x" * 100)
        for what, bad in ((PUT, frame(BLOB)), (GET, b"\xff" * 100)):
            with RawClient(server) as client:
                client.greeted().send(frame(BLOB, request(what=what, over=CM, name=b"f")))
                self.assertEqual(client.receive_frame()[0], BLOB)
                kind, rendezvous = client.receive_frame()
                self.assertEqual((kind, len(rendezvous)), (BLOB, 18))
                client.send(bad)
                client.receive_rest()
        self.assertEqual((self.served / "f").read_bytes(), b"x" * 100)
        self.assert_serves(server)

    def test_content_with_wrong_summary_is_refused(self):
        server = self.serve()
        (self.served / "raw.bin").write_bytes(b"old")
        for size, checksum in ((10, b"\0" * 16), (11, b"\0" * 16)):
            with RawClient(server) as client:
                client.greeted().send(frame(BLOB, request()))
                self.assertEqual(client.receive_frame()[0], BLOB)
                client.send(b"0123456789", frame(BLOB, summary(size, checksum)))
                kind, words = client.receive_frame()
                self.assertEqual(kind, REFUSAL)
                self.assertIn(b"the received data differ from the sent data", words)
        self.assertEqual((self.served / "raw.bin").read_bytes(), b"old")
        self.assertEqual(self.names(), ["raw.bin"])

    def test_idle_clients_do_not_stop_other_clients(self):
        server = self.serve()
        idle = [RawClient(server, greeting=b"VB") for _ in range(5)]
        idle += [RawClient(server).greeted() for _ in range(2)]
        idle.append(RawClient(server).greeted())
        idle[-1].send(frame(BLOB, request(size=MIB)), b"half")
        self.assert_serves(server)
        for client in idle:
            client.socket.close()
        self.assert_serves(server)
        self.assertEqual(self.names(), [])

    def test_hanging_client_is_refused_after_the_timeout(self):
        server = self.serve("--timeout", "0.2")
        with RawClient(server) as client:
            client.greeted().send(frame(BLOB, request(size=MIB)), b"half")
            client.receive_frame()
            self.assertIn(b"no progress for", client.receive_rest())
        self.assertEqual(server.stop(), 0)
        self.assertIn("no progress for", server.errors())
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
