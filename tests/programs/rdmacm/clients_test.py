# SPDX-License-Identifier: MIT
"""librdmacm's own programs: connections, datagrams, endpoints, timing, and errors without a listening server.

Lines with data are checked one by one, because some programs always exit with status 0.
"""
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]
import connections  # noqa: E402
import foreign  # noqa: E402

HERE = "127.0.0.1"

# rping: options, bytes of a message, messages, address.
PINGS = [
    ((), 64, 10, HERE),
    (("-S", 4096), 4096, 20, HERE),
    (("-q",), 64, 10, HERE),
    ((), 64, 10, "::1"),
    (("-S", 65535), 65535, 5, HERE),
    (("-S", 100, "-I", HERE), 100, 200, HERE),
    (("-q", "-S", 1000), 1000, 10, "::1"),
    (("-S", 30), 30, 5, HERE),
]

# ucmatose: options of both sides, options of the client.
CONNECTIONS = [
    (("-c", 1, "-C", 10, "-S", 100), ()),
    (("-c", 10, "-C", 5, "-S", 4096), ()),
    (("-c", 3, "-C", 2, "-m"), ()),
    (("-c", 2, "-C", 0), ()),
    (("-c", 4, "-C", 5), ("-b", HERE, "-t", 8)),
    (("-c", 50, "-C", 1), ()),
    (("-c", 2, "-C", 3, "-a", 12), ()),
    (("-c", 2, "-C", 300, "-S", 65536), ()),
]

# udaddy: options of both sides.
DATAGRAMS = [
    ("-c", 1, "-C", 10, "-S", 100),
    ("-c", 5, "-C", 5, "-S", 1024),
    ("-c", 1, "-C", 0),
    ("-c", 2, "-C", 100, "-S", 16),
]

# mckey: options of sender and receivers, number of identifiers that join.
GROUPS = [
    (("-C", 10, "-S", 1000), 1),
    (("-C", 100, "-S", 4096, "-c", 2), 2),
]

ENDPOINTS = [("rdma_server", "rdma_client", ()), ("rdma_xserver", "rdma_xclient", ()),
             ("rdma_xserver", "rdma_xclient", ("-c", "r"))]

DATAGRAM_PORT = 7174  # fixed in udaddy


def ping(number, size):
    """Returns the text of rping's message `number`: consecutive printable characters, shifted by one per message."""
    text = f"rdma-ping-{number}: "
    first = number % 58
    letters = "".join(chr(65 + (first + index) % 58) for index in range(size - len(text) - 1))
    return text + letters


class Connecting(foreign.Case):
    def check_each(self, cases, check):
        for index, case in enumerate(cases):
            if foreign.Setting.runs(index):
                with self.subTest(case=str(case)):
                    check(*case)

    def check_rping(self, options, size, count, address):
        with connections.port() as port:
            words = ("-v", "-V", "-C", count, "-a", address, "-p", port)
            server_options = [word for word in options if word not in ("-I", HERE)]
            server, client = connections.server_and_client(
                port, ("rping", "-s", *words, *server_options), ("rping", "-c", *words, *options))
        self.assert_succeeded(server, client)
        for end, begin in ((server, "server ping data: "), (client, "ping data: ")):
            # rping writes messages to another stream, and they can be in the middle of a line.
            said = re.sub("(server|client) DISCONNECT EVENT...\n|wait for RDMA_READ_ADV state 10\n", "", end.output)
            wanted = [begin + ping(number, size) for number in range(count)]
            self.assertTrue(said.splitlines() == wanted, end)

    def test_rping(self):
        self.check_each(PINGS, self.check_rping)

    def check_quiet_end(self, *ends):
        self.assert_succeeded(*ends)
        for end in ends:
            self.assertRegex(end.output, re.compile("^return status 0$", re.MULTILINE))
            self.assertNotRegex(end.output, re.compile("fail|error|unexpected|invalid", re.IGNORECASE))

    def check_ucmatose(self, both, client_only):
        with connections.port() as port:
            words = ("ucmatose", "-p", port, *both)
            ends = connections.server_and_client(port, words, (*words, "-s", HERE, *client_only))
        self.check_quiet_end(*ends)
        self.assertIn("disconnected", ends[0].output)
        for end in ends:
            self.assertEqual("data transfers complete" in end.output, both[both.index("-C") + 1] != 0, end)

    def test_ucmatose(self):
        self.check_each(CONNECTIONS, self.check_ucmatose)

    def check_udaddy(self, *options):
        words = ("udaddy", *options)
        ends = connections.server_and_client(DATAGRAM_PORT, words, (*words, "-s", HERE))
        self.check_quiet_end(*ends)
        for end in ends:
            self.assertEqual("data transfers complete" in end.output, options[options.index("-C") + 1] != 0, end)

    def test_udaddy(self):
        self.check_each(DATAGRAMS, self.check_udaddy)

    def test_endpoints(self):
        for server_program, client_program, options in ENDPOINTS:
            with self.subTest(program=client_program, options=options), connections.port() as port:
                ends = connections.server_and_client(port, (server_program, "-p", port, *options),
                                                     (client_program, "-s", HERE, "-p", port, *options))
                self.assert_succeeded(*ends)
                for end, program in zip(ends, (server_program, client_program)):
                    self.assertRegex(end.output, rf"^{program}: start\n(.*\n)?{program}: end 0\n$")

    def test_cmtime(self):
        count = 100 if foreign.Setting.full else 20
        with connections.port() as port:
            words = ("cmtime", "-c", count, "-p", port)
            client = connections.client_of(port, words, (*words, "-s", HERE))  # the server never exits
        self.assert_succeeded(client)
        for step in ("create id", "resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy"):
            self.assertRegex(client.output, re.compile(rf"^{step} *:( +[\d.]+){{4}}$", re.MULTILINE))
        self.assertNotRegex(client.output, re.compile("fail|error|unexpected", re.IGNORECASE))

    def check_mckey(self, options, identifiers):
        """Runs a sender and two receivers. mckey always sleeps three seconds between joining and sending."""
        group = f"239.77.{foreign.Setting.number()}.{len(options)}"
        words = ("mckey", "-m", group, "-b", HERE, *options)
        before = connections.group_users()
        with foreign.Server(*words) as one, foreign.Server(*words) as other:
            for receiver in (one, other):
                receiver.wait_for_port(before + 2, lambda users: connections.group_users() >= users)
            sender = foreign.run(*words, "-s")
            ends = (sender, one.end(), other.end())
        self.assert_succeeded(*ends)
        for end, kind, transfer in zip(ends, ("client", "server", "server"), ("initiating", "receiving", "receiving")):
            joined = f"mckey: joined dgid: ::ffff:{group} mlid 0x0 sl 0\n" * identifiers
            self.assertEqual(end.output, f"mckey: starting {kind}\nmckey: joining\n{joined}{transfer} data transfers\n"
                             "data transfers complete\ntest complete\nreturn status 0\n")

    def test_mckey(self):
        self.check_each(GROUPS, self.check_mckey)

    def test_sockets_are_refused_with_a_reason(self):
        for program in ("rstream", "riostream", "udpong"):
            done = foreign.run(program, "-b", HERE)
            self.assertNotEqual(done.status, 0, done)
            self.assertIn("verbena: rsocket is refused: ", done.output)
            self.assertEqual(done.output.count("verbena: "), 1, done)
            self.assertIn("Operation not supported", done.output)

    def test_unsupported_calls_are_refused(self):
        for words, said in ((("rdma_xclient", "-c", "x"), "rdma_create_ep: Operation not supported"),):
            done = foreign.run(*words)
            self.assertNotEqual(done.status, 0, done)
            self.assertIn(said, done.output, done)

    def test_a_port_without_a_listener_refuses(self):
        with connections.port() as port:
            for program, options, said in (("rping", ("-c", "-a", HERE, "-C", 1), "RDMA_CM_EVENT_REJECTED"),
                                           ("ucmatose", ("-s", HERE, "-c", 1), "RDMA_CM_EVENT_REJECTED, error: 8"),
                                           ("rdma_client", ("-s", HERE), "Connection refused")):
                done = foreign.run(program, *options, "-p", port)
                self.assertIn(said, done.output, done)


if __name__ == "__main__":
    foreign.main()
