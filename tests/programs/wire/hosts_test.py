# SPDX-License-Identifier: MIT
"""Programs communicate between two network namespaces by packets. The namespaces and a veth pair between them belong to
a user namespace, so that an ordinary user can run this. Namespaces of the network have nothing in common: neither
abstract sockets nor addresses."""
import contextlib
import ipaddress
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parent / "perftest"), str(FOLDER.parent / "rdmacm"), str(FOLDER.parent / "verbena"),
                str(FOLDER.parent.parent.parent / "scripts")]
import connections  # noqa: E402
import foreign  # noqa: E402
import packets  # noqa: E402
import places  # noqa: E402
import rows  # noqa: E402

SERVER, CLIENT = "10.9.0.1", "10.9.0.2"
SERVER_IPV6, CLIENT_IPV6 = "fd00:9::1", "fd00:9::2"
OTHER_LINK = "10.9.1.1", "10.9.1.2"
PERFTEST = (
    ("ib_send_bw", "-s", 5000, "-n", 100),
    ("ib_write_bw", "-s", 65536, "-n", 50),
    ("ib_read_bw", "-s", 65536, "-n", 50),
    ("ib_atomic_bw", "-n", 50),
    ("ib_send_lat", "-n", 50),
    ("ib_write_lat", "-n", 50),
    ("ib_send_bw", "-c", "UC", "-s", 1000, "-n", 100),
    ("ib_send_bw", "-e", "-s", 3000, "-n", 50),
    ("ib_send_lat", "-c", "UD", "-n", 50, "-s", 1024),
    ("ib_send_bw", "-c", "UD", "-n", 100, "-s", 1000),
    ("ib_send_bw", "-c", "UD", "-n", 100, "-e"),
)
# By the connection manager: the port, the server, the client without its last argument, the address.
CONNECTED = (
    (18720, ("rping", "-s", "-C", 5, "-S", 200), ("rping", "-c", "-V", "-C", 5, "-S", 200, "-a")),
    (18721, ("ib_send_bw", "-R", "-F", "-n", 100), ("ib_send_bw", "-R", "-F", "-n", 100)),
    (18722, ("ib_read_bw", "-R", "-F", "-n", 50, "-q", 3), ("ib_read_bw", "-R", "-F", "-n", 50, "-q", 3)),
    (18723, ("ucmatose", "-c", 5, "-C", 10), ("ucmatose", "-c", 5, "-C", 10, "-s")),
)
UDADDY_PORT = 7174  # it has no option for another one
# As PERFTEST and CONNECTED, over IPv6.
PERFTEST_IPV6 = (
    ("ib_write_bw", "-s", 65536, "-n", 50),
    ("ib_read_bw", "-s", 65536, "-n", 50),
    ("ib_send_lat", "-c", "UD", "-n", 50, "-s", 1024),
)
CONNECTED_IPV6 = (
    (18740, ("rping", "-s", "-C", 5, "-S", 200, "-a"), ("rping", "-c", "-V", "-C", 5, "-S", 200, "-a")),
    (18741, ("ucmatose", "-c", 5, "-C", 10, "-b"), ("ucmatose", "-c", 5, "-C", 10, "-s")),
    (UDADDY_PORT, ("udaddy", "-C", 5, "-b"), ("udaddy", "-C", 5, "-s")),
)
GROUPS = (("239.9.9.9", SERVER, CLIENT), ("ff05::99", SERVER_IPV6, CLIENT_IPV6))
RETRIES_EXCEEDED = re.compile(r"status 12\b|transport retry counter exceeded|Failed status.*12", re.IGNORECASE)


class Host:
    """A network namespace, which exists while a process in it runs."""

    def __init__(self, *prefix):
        # The process says that it is in the namespace, and ends with its standard input.
        words = foreign.command(*prefix, "sh", "-c", "echo ready; read _")
        self.process = subprocess.Popen([each for each in words if not each.startswith("LD_PRELOAD=")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.process.stdout.readline() != b"ready\n":
            raise AssertionError(f"no namespace: {words}")

    def inside(self, *words):
        return ("nsenter", f"--target={self.pid()}", "--user", "--net", "--preserve-credentials", *words)

    def pid(self):
        """Returns a process in the namespaces: the last of the chain of programs, which replace themselves."""
        return self.process.pid

    def end(self):
        self.process.communicate(b"\n")

    def accepts(self, port):
        """Returns whether a program listens by the connection manager."""
        return connections.has_listener(f"/proc/{self.pid()}/net/unix", port, 0)

    def has_udp_port(self, port):
        """Returns whether a socket of IPv6, which also has the port of IPv4, is bound."""
        table = pathlib.Path(f"/proc/{self.pid()}/net/udp6").read_text().splitlines()[1:]
        return any(int(line.split()[1].rpartition(":")[2], 16) == port for line in table)

    def listens(self, port):
        table = pathlib.Path(f"/proc/{self.pid()}/net/tcp").read_text() + pathlib.Path(f"/proc/{self.pid()}/net/tcp6").read_text()
        return any(line.split()[3] == "0A" and int(line.split()[1].rpartition(":")[2], 16) == port
                   for line in table.splitlines() if ":" in line.split()[1])


HOSTS = []


def setUpModule():  # noqa: N802
    first = Host("unshare", "--user", "--map-root-user", "--net")
    HOSTS.append(first)
    second = Host(*first.inside("unshare", "--net"))
    HOSTS.append(second)
    for host, commands in ((first, ("link add v0 type veth peer name v1", f"link set v1 netns {second.pid()}",
                                    f"address add {SERVER}/24 dev v0", f"address add {SERVER_IPV6}/64 dev v0 nodad",
                                    "link set v0 up", "link set lo up")),
                           (second, (f"address add {CLIENT}/24 dev v1", f"address add {CLIENT_IPV6}/64 dev v1 nodad",
                                     "link set v1 up", "link set lo up"))):
        for command in commands:
            configure(host, command)
    for host, interface in zip(HOSTS, ("v0", "v1")):
        foreign.wait_until(lambda: link_local(host, interface) is not None,
                           "the kernel has checked the link-local address for duplicates")


def link_local(host, interface):
    """Returns the link-local address of an interface, or None."""
    tentative = 0x40
    for line in pathlib.Path(f"/proc/{host.pid()}/net/if_inet6").read_text().splitlines():
        address, *_, flags, name = line.split()
        if address.startswith("fe80") and name == interface and not int(flags, 16) & tentative:
            return str(ipaddress.IPv6Address(int(address, 16)))
    return None


def gid_index(host, address):
    """Returns the index of an address in the GID table of soft0."""
    shown = foreign.run(*host.inside("ibv_devinfo", "-v"))
    return next(number for number, gid in re.findall(r"GID\[ *(\d+)\]:\s*([0-9a-f:.]+)", shown.output) if gid == address)


def configure(host, command):
    done = foreign.run(*host.inside("ip", *command.split()))
    assert done.status == 0, done


@contextlib.contextmanager
def other_link():
    """Packets from the client to the server take a second link, at which the server's address is not."""
    first, second = HOSTS
    configure(first, "link add w0 type veth peer name w1")
    configure(first, f"link set w1 netns {second.pid()}")
    for host, number in ((first, 0), (second, 1)):
        configure(host, f"address add {OTHER_LINK[number]}/24 dev w{number}")
        configure(host, f"link set w{number} up")
        # Without a check of the source address against the routes, which hosts with two links have often.
        for name in ("all", f"w{number}"):
            done = foreign.run(*host.inside("sh", "-c", f"echo 0 > /proc/sys/net/ipv4/conf/{name}/rp_filter"))
            assert done.status == 0, done
    configure(second, f"route add {SERVER}/32 via {OTHER_LINK[0]} dev w1 src {CLIENT}")
    try:
        yield
    finally:
        configure(first, "link delete w0")


def tearDownModule():  # noqa: N802
    for host in reversed(HOSTS):
        host.end()


def serve(*words):
    return foreign.Server(*HOSTS[0].inside(*words))


def ask(*words):
    return foreign.run(*HOSTS[1].inside(*words, SERVER))


def pair(port, *words):
    return ends(port, words, words)


def ends(port, server_words, client_words):
    """Runs a server and a client with different words."""
    with serve(*server_words) as server:
        server.wait_for_port(port, HOSTS[0].listens)
        client = ask(*client_words)
        if client.status != 0:
            server.process.kill()
        return server.end(), client


@contextlib.contextmanager
def key_files(*names):
    """Makes files with different secrets that the user of the programs can read."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o755)
        files = [pathlib.Path(folder, name) for name in names]
        for each in files:
            each.write_bytes(each.name.encode() * 16)
            each.chmod(0o600)
            if foreign.Setting.user == "other" and os.geteuid() == 0:
                os.chown(each, foreign.NOBODY, foreign.NOBODY)
        yield files


def with_key(file):
    return foreign.Setting.also(VERBENA_SOFTDEV_WIRE="on", **({"VERBENA_SOFTDEV_WIRE_KEY_FILE": file} if file else {}))


# Prints "ready", then each frame of an interface behind its length, until its standard input ends.
TAP = """
import os, select, socket, struct, sys
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.bind((sys.argv[1], 0))
print("ready", flush=True)
while True:
    ready, _, _ = select.select([tap, 0], [], [])
    if tap in ready:
        frame = tap.recv(100000)
        sys.stdout.buffer.write(struct.pack("<I", len(frame)) + frame)
    elif not os.read(0, 1):
        break
"""


# Sends a UDP payload from the address argv[1] to port 4791 of argv[2], and prints the payload of the answer.
EXCHANGE = """
import socket, sys
own, peer, payload = sys.argv[1:]
it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
it.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: the identification is 0
it.bind((own, 4791))
it.settimeout(1)
for _ in range(20):
    it.sendto(bytes.fromhex(payload), (peer, 4791))
    try:
        print(it.recv(1000).hex())
        break
    except TimeoutError:
        pass
"""
# Of messages of the connection manager.
REQ, REJ = 0x10, 0x12
COMMUNICATION_ID = 0x01020304


def connection_request(port, transport=0, extended=0, mtu=3):
    """Returns a REQ from the client to the server (IBTA 12.6.5, A11)."""
    body = bytearray(232)
    struct.pack_into(">IxxxxQQ", body, 0, COMMUNICATION_ID, 0x106 << 16 | port, 0x1122334455667788)
    body[32:35] = (0x77).to_bytes(3, "big")
    body[43] = 20 << 3 | transport << 1
    body[47] = 20 << 3 | 7
    struct.pack_into(">HBBHH", body, 48, 0xffff, mtu << 4 | 7, 15 << 4 | extended, 0xffff, 0xffff)
    gids = [bytes(10) + b"\xff\xff" + ipaddress.IPv4Address(each).packed for each in (CLIENT, SERVER)]
    body[56:88] = b"".join(gids)
    body[91], body[93] = 3, 64
    addresses = [bytes(12) + ipaddress.IPv4Address(each).packed for each in (CLIENT, SERVER)]
    body[140:176] = struct.pack(">BBH", 0, 0x40, 40000) + b"".join(addresses)
    return struct.pack(">BBBBIQHHI", 1, 7, 2, 3, 0, 0x5566, REQ, 0, 0) + body


def as_datagram(message):
    """Returns the UDP payload of a message between the queue pairs 1, from the client to the server."""
    payload = struct.pack(">BBHIIII", 0x64, 0, 0xffff, 1, 0, 0x80010000, 1) + message
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + 8 + len(payload) + 4, 0, 0x4000, 64, 17, 0,
                     *(ipaddress.IPv4Address(each).packed for each in (CLIENT, SERVER)))
    udp = struct.pack(">HHHH", 4791, 4791, 8 + len(payload) + 4, 0)
    return payload + struct.pack("<I", packets.icrc(ip + udp + payload + bytes(4), len(ip)))


def ask_by_packet(message):
    """Sends a message from the client's host to the server's, and returns the answer."""
    done = foreign.run(*HOSTS[1].inside("/usr/bin/python3", "-c", EXCHANGE, CLIENT, SERVER, as_datagram(message).hex()))
    assert done.status == 0 and done.output.strip(), done
    answer = bytes.fromhex(done.output.strip())
    return answer[20:20 + 256]  # behind BTH and DETH


class Tap:
    """Keeps the frames that a raw socket receives at an interface."""

    def __init__(self, host, interface):
        words = foreign.command(*host.inside("/usr/bin/python3", "-c", TAP, interface))
        self.process = subprocess.Popen([each for each in words if not each.startswith("LD_PRELOAD=")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"

    def flows(self):
        """Ends the tap. Returns the UDP payload to port 4791 of each sender as one byte string: the raw socket can see several
        packets as one, before the kernel divides them or after it has joined them."""
        seen, _ = self.process.communicate(timeout=foreign.BOUND)
        flows = {}
        while seen:
            length, = struct.unpack_from("<I", seen)
            frame, seen = seen[4:4 + length], seen[4 + length:]
            kind, = struct.unpack_from(">H", frame, 12)
            if kind == 0x0800 and frame[23] == 17:
                ends, udp = (frame[26:30], frame[30:34]), frame[14 + 4 * (frame[14] & 15):]
            elif kind == 0x86dd and frame[20] == 17:
                ends, udp = (frame[22:38], frame[38:54]), frame[54:]
            else:
                continue
            source_port, port, bytes_of_udp = struct.unpack_from(">HHH", udp)
            if port == 4791:
                flow = (*ends, source_port)
                flows[flow] = flows.get(flow, b"") + udp[8:bytes_of_udp]
        return flows


def flows_of(found):
    """As Tap.flows, of captured packets."""
    flows = {}
    for each in found:
        flow = (each.source, each.destination, each.source_port)
        flows[flow] = flows.get(flow, b"") + each.raw
    return flows


class Captures(foreign.Case):
    """The packets in captures of both sides, compared with those that a raw socket sees between them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="verbena-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o777)

    @contextlib.contextmanager
    def captured(self, name, **variables):
        with foreign.Setting.also(VERBENA_SOFTDEV_WIRE="on", VERBENA_SOFTDEV_CAPTURE=str(self.folder / name), **variables):
            yield

    def pair(self, number, words, **variables):
        """Runs a server and a client, both captured. Returns the packets in both captures, and what the raw socket saw."""
        tap = Tap(HOSTS[0], "v0")
        server_words, client_words, port, is_open = words
        with self.captured(f"server{number}"):
            server = serve(*server_words)
        with server, self.captured(f"client{number}", **variables):
            server.wait_for_port(port, is_open)
            client = foreign.run(*HOSTS[1].inside(*client_words))
            self.assert_succeeded(client, server.end())
        return [packets.read(self.folder / f"{side}{number}") for side in ("server", "client")], tap.flows()

    def assert_captured(self, number, found, flows):
        for side in found:
            left = flows_of(each for each in side if each.direction == packets.OUTBOUND)
            came = flows_of(each for each in side if each.direction == packets.INBOUND)
            self.assertTrue(all(data == flows[flow] for flow, data in left.items()), "what left")
            # The last packets can arrive when the process has ended.
            self.assertTrue(all(flows[flow].startswith(data) for flow, data in came.items()), "what arrived")
            self.assertEqual({*left, *came}, {*flows})
        for side in ("server", "client"):
            done = subprocess.run(["tshark", "-r", str(self.folder / f"{side}{number}"), "--disable-protocol", "rpcordma",
                                   "--disable-protocol", "infiniband.eoib", "-Y", "_ws.malformed || !infiniband.bth"],
                                  capture_output=True, timeout=foreign.BOUND, check=True)
            self.assertEqual(done.stdout, b"")

    def test_captures_have_the_packets_of_the_network(self):
        gids = [gid_index(host, address) for host, address in zip(HOSTS, (SERVER_IPV6, CLIENT_IPV6))]
        pingpong = ("ibv_rc_pingpong", "-n", 10, "-s", 10000)
        cases = (
            (("rping", "-s", "-C", 3, "-S", 9000, "-p", 18800), ("rping", "-c", "-C", 3, "-S", 9000, "-p", 18800, "-a", SERVER), 18800,
             HOSTS[0].accepts),
            ((*pingpong, "-p", 18801, "-g", gids[0]), (*pingpong, "-p", 18801, "-g", gids[1], SERVER), 18801, HOSTS[0].listens),
            (("ibv_ud_pingpong", "-n", 10, "-p", 18802, "-g", 1), ("ibv_ud_pingpong", "-n", 10, "-p", 18802, "-g", 1, SERVER), 18802,
             HOSTS[0].listens),
        )
        for number, words in enumerate(cases):
            if not foreign.Setting.runs(number):
                continue
            with self.subTest(words=words[0]):
                found, flows = self.pair(number, words)
                self.assertGreaterEqual(len(found[0]), 20)
                self.assert_captured(number, found, flows)
                if words[0][0] == "rping":
                    messages = [each for each in found[0] if each.to_qp == 1]
                    self.assertTrue({each.direction for each in messages} == {packets.INBOUND, packets.OUTBOUND}, messages)
                    shown = subprocess.run(["tshark", "-r", str(self.folder / f"server{number}"), "-Y", "infiniband.mad"],
                                           capture_output=True, timeout=foreign.BOUND, check=True).stdout.decode()
                    self.assertEqual(len(shown.splitlines()), len(messages))
                    self.assertIn("ConnectRequest", shown)

    def test_lost_packet_is_in_both_captures_and_comes_again(self):
        words = ("ib_send_lat", "-x", 1, "-F", "-n", 50, "-s", 100, "-p", 18805)
        found, flows = self.pair("lossy", (words, (*words, SERVER), 18805, HOSTS[0].listens), VERBENA_SOFTDEV_WIRE_FAULTS="loss=20%")
        self.assert_captured("lossy", found, flows)
        lost = [each for each in found[1] if each.comment == "injected_faults: lost"]
        self.assertTrue(lost)
        sent = [each for each in found[0] if each.direction == packets.OUTBOUND]
        self.assertLessEqual({each.raw for each in lost}, {each.raw for each in sent})
        numbers = [each.psn for each in sent if packets.is_request(each)]
        repeated = {psn for psn in numbers if numbers.count(psn) > 1}
        self.assertLessEqual({each.psn for each in lost if packets.is_request(each)}, repeated)
        self.assertTrue(repeated)

    def test_datagrams_to_a_group_are_captured_at_both_ends(self):
        if not foreign.Setting.runs(3):
            return
        group = "239.9.9.10"
        tap = Tap(HOSTS[0], "v0")
        with self.captured("receiver"):
            receiver = serve("mckey", "-m", group, "-b", SERVER, "-C", 5)
        with receiver, self.captured("sender"):
            foreign.wait_until(lambda: Hosts.members(group, 0) == 1, "the receiver has joined")
            sender = foreign.run(*HOSTS[1].inside("mckey", "-m", group, "-b", CLIENT, "-s", "-C", 5))
            self.assert_succeeded(sender, receiver.end())
        flows = tap.flows()
        for side, direction in (("receiver", packets.INBOUND), ("sender", packets.OUTBOUND)):
            found = packets.read(self.folder / side)
            self.assertTrue(flows_of(found) == flows, side)
            self.assertEqual([(each.direction, each.to_qp) for each in found], [(direction, 0xffffff)] * 5)


class Hosts(foreign.Case):
    def setUp(self):
        also = foreign.Setting.also(VERBENA_SOFTDEV_WIRE="on")
        also.__enter__()
        self.addCleanup(also.__exit__, None, None, None)

    def test_pingpong_with_polling_and_with_events(self):
        for number, extra in enumerate(((), ("-e",), ("-s", "20000"))):
            with self.subTest(extra=extra):
                port = 18515 + number
                self.assert_succeeded(*pair(port, "ibv_rc_pingpong", "-g", 1, "-n", 100, "-p", port, *extra))

    def test_datagrams_of_pingpong_with_polling_and_with_events(self):
        for number, extra in enumerate(((), ("-e",), ("-s", 1))):
            with self.subTest(extra=extra):
                port = 18525 + number
                self.assert_succeeded(*pair(port, "ibv_ud_pingpong", "-g", 1, "-n", 100, "-p", port, *extra))

    def test_datagrams_between_processes_of_a_host_by_packets(self):
        # perftest: both processes end together. One of them is the owner of the port, and what it has not forwarded is lost
        # with it.
        words = ("ib_send_lat", "-c", "UD", "-x", 1, "-F", "-n", 100, "-p", 18528)
        before = self.sent_packets("lo")
        with foreign.Setting.also(VERBENA_SOFTDEV_WIRE="on", VERBENA_SOFTDEV_PATH="wire"), serve(*words) as server:
            server.wait_for_port(18528, HOSTS[0].listens)
            client = foreign.run(*HOSTS[0].inside(*words, SERVER))
            self.assert_succeeded(server.end(), client)
        self.assertGreater(self.sent_packets("lo"), before + 200, "the datagrams did not use the network")

    def test_perftest_measures_between_hosts(self):
        for number, words in enumerate(PERFTEST):
            if not foreign.Setting.runs(number):
                continue
            with self.subTest(words=words):
                port = 18600 + number
                server, client = pair(port, *words, "-x", 1, "-F", "-p", port)
                self.assert_succeeded(server, client)
                self.assertEqual(len(rows.rows(client.output)), 1, client)

    def test_client_of_a_killed_server_exceeds_its_retries(self):
        port = 18700
        words = ("ib_write_bw", "-x", 1, "-F", "-p", port, "-n", 50_000_000, "-u", 10)
        with serve(*words) as server:
            server.wait_for_port(port, HOSTS[0].listens)
            with foreign.Server(*HOSTS[1].inside("stdbuf", "-oL", *words, SERVER)) as client:
                foreign.wait_until(lambda: self.sent_packets() > 500, "the client sends")
                server.process.kill()
                client = client.end()
        self.assertNotEqual(client.status, 0, client)
        self.assertRegex(client.output, RETRIES_EXCEEDED)

    def test_processes_of_a_host_share_the_port_and_outlive_its_owner(self):
        first_port, second_port = 18701, 18702
        endless = ("ib_write_bw", "-x", 1, "-F", "-p", first_port, "-n", 50_000_000)
        finite = ("ib_write_bw", "-x", 1, "-F", "-p", second_port, "-s", 1024, "-n", 3000)
        with serve(*endless) as owner:
            owner.wait_for_port(first_port, HOSTS[0].listens)
            with foreign.Server(*HOSTS[1].inside(*endless, SERVER)) as owner_there:
                before = self.sent_packets()
                foreign.wait_until(lambda: self.sent_packets() > before + 500, "the owners communicate")
                with serve(*finite) as server:
                    server.wait_for_port(second_port, HOSTS[0].listens)
                    with foreign.Server(*HOSTS[1].inside(*finite, SERVER)) as client:
                        foreign.wait_until(lambda: self.sockets_of_clients() > 0, "the second pair is connected")
                        owner.process.kill()
                        owner_there.process.kill()
                        self.assert_succeeded(server.end(), client.end())

    def test_hosts_are_not_reached_without_the_setting(self):
        with foreign.Setting.also():
            server, client = pair(18703, "ibv_rc_pingpong", "-g", 1, "-n", 10, "-p", 18703)
        self.assertNotEqual(client.status, 0, client)
        self.assertRegex(server.output + client.output, "Failed to modify QP to RTR")

    def test_path_mtu_that_the_route_has_no_room_for_is_refused_with_both_numbers(self):
        server, client = pair(18704, "ibv_rc_pingpong", "-g", 1, "-n", 10, "-m", 4096, "-p", 18704)
        self.assertNotEqual(client.status, 0, client)
        self.assertRegex(server.output + client.output, "4096 bytes needs packets of 4160 bytes, .* an MTU of 1500")

    def test_address_that_the_setting_does_not_contain_is_refused(self):
        with foreign.Setting.also(VERBENA_SOFTDEV_WIRE="10.9.0.77,lo"):
            server, client = pair(18705, "ibv_rc_pingpong", "-g", 1, "-n", 10, "-p", 18705)
        self.assertNotEqual(client.status, 0, client)
        self.assertRegex(server.output + client.output, "VERBENA_SOFTDEV_WIRE does not contain 10.9.0.")

    def test_source_gid_that_is_not_an_address_is_refused(self):
        port = 18707
        with serve("ibv_rc_pingpong", "-g", 0, "-n", 1, "-p", port) as server:
            server.wait_for_port(port, HOSTS[0].listens)
            ask("ibv_rc_pingpong", "-g", 1, "-n", 1, "-p", port)
            server.process.kill()
            self.assertRegex(server.end().output, "no interface of this host has the address of the source GID")

    def test_datagrams_to_another_host_are_refused_with_the_reason(self):
        # The settings of the client, and its explanation.
        cases = ((dict(), "is not an address of this host; VERBENA_SOFTDEV_WIRE=on"),
                 (dict(VERBENA_SOFTDEV_WIRE="lo"), "ibv_create_ah.*VERBENA_SOFTDEV_WIRE does not contain 10.9.0."))
        for number, (setting, text) in enumerate(cases):
            with self.subTest(setting=setting), foreign.Setting.also(VERBENA_LOG="info", **setting):
                port = 18710 + number
                server, client = pair(port, "ibv_ud_pingpong", "-g", 1, "-n", 10, "-p", port)
                self.assertNotEqual(client.status, 0, client)
                self.assertRegex(server.output + client.output, text)

    def test_hosts_with_one_key_communicate(self):
        with key_files("same") as (key,), with_key(key):
            for port, words in ((18760, ("ibv_rc_pingpong", "-g", 1, "-n", 100)), (18761, ("ibv_ud_pingpong", "-g", 1, "-n", 100)),
                                (18762, ("ib_write_bw", "-x", 1, "-F", "-s", 65536, "-n", 50))):
                with self.subTest(words=words):
                    self.assert_succeeded(*pair(port, *words, "-p", port))
            with self.subTest("rping"):
                with serve("rping", "-s", "-C", 3, "-p", 18763) as server:
                    server.wait_for_port(18763, HOSTS[0].accepts)
                    client = ask("rping", "-c", "-C", 3, "-p", 18763, "-a")
                    self.assert_succeeded(server.end(), client)

    def test_hosts_with_different_keys_fail_and_both_say_why(self):
        # Whether server and client have a key, and the warnings.
        missing, unexpected, wrong = "they are not authenticated", "they are authenticated", "their tag is wrong"
        with key_files("one", "another") as (one, another):
            for number, (there, here, server_says, client_says) in enumerate((
                    (one, another, wrong, wrong), (one, None, missing, unexpected), (None, one, unexpected, missing))):
                port = 18764 + number
                with self.subTest(server_says=server_says), with_key(there), serve("ibv_rc_pingpong", "-g", 1, "-p", port) as server:
                    server.wait_for_port(port, HOSTS[0].listens)
                    with with_key(here):
                        client = ask("ibv_rc_pingpong", "-g", 1, "-p", port)
                    self.assertRegex(client.output, RETRIES_EXCEEDED)
                    self.assertRegex(client.output, f"packets of {SERVER} are dropped, because {client_says}")
                    server.process.kill()
                    self.assertRegex(server.end().output, f"packets of {CLIENT} are dropped, because {server_says}")

    def test_invalid_key_file_keeps_other_hosts_unreachable(self):
        with tempfile.NamedTemporaryFile() as short, with_key(short.name):
            server, client = pair(18768, "ibv_rc_pingpong", "-g", 1, "-n", 10, "-p", 18768)
        self.assertNotEqual(client.status, 0, client)
        self.assertRegex(server.output + client.output, "VERBENA_SOFTDEV_WIRE is ignored.*VERBENA_SOFTDEV_WIRE_KEY_FILE")

    def test_port_that_another_program_has_is_refused_for_datagrams(self):
        holder = ("import socket, time; it = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); it.bind(('::', 4791)); "
                  "time.sleep(600)")
        with serve("/usr/bin/python3", "-c", holder):
            foreign.wait_until(lambda: HOSTS[0].has_udp_port(4791), "the other program has the port")
            server, _ = pair(18712, "ibv_ud_pingpong", "-g", 1, "-n", 10, "-p", 18712)
        self.assertNotEqual(server.status, 0, server)
        self.assertRegex(server.output, "another program or another user has the port.*VERBENA_SOFTDEV_WIRE_PORT")

    def test_interface_of_the_setting_is_used(self):
        with foreign.Setting.also(VERBENA_SOFTDEV_WIRE="v0,v1"):
            self.assert_succeeded(*pair(18706, "ibv_rc_pingpong", "-g", 1, "-n", 10, "-p", 18706))

    def test_packets_arrive_at_interfaces_of_the_setting_only(self):
        with other_link():
            for number, (listed, succeeds) in enumerate((("v0,v1", False), ("v0,v1,w0", True), (f"{SERVER},{CLIENT}", True))):
                with self.subTest(listed=listed), foreign.Setting.also(VERBENA_SOFTDEV_WIRE=listed):
                    port = 18710 + number
                    server, client = pair(port, "ibv_rc_pingpong", "-g", 1, "-n", 10, "-p", port)
                    if succeeds:
                        self.assert_succeeded(server, client)
                    else:
                        self.assertRegex(client.output, RETRIES_EXCEEDED)

    def test_stopped_owner_of_the_port_is_named(self):
        port = 18708
        endless = ("ib_write_bw", "-x", 1, "-F", "-p", port, "-n", 50_000_000)
        with serve(*endless) as owner:
            owner.wait_for_port(port, HOSTS[0].listens)
            with foreign.Server(*HOSTS[1].inside(*endless, SERVER)) as client:
                before = self.sent_packets()
                foreign.wait_until(lambda: self.sent_packets() > before + 500, "the owners communicate")
                client.process.send_signal(signal.SIGSTOP)
                try:
                    second_port = port + 1
                    with serve("ibv_rc_pingpong", "-g", 1, "-p", second_port) as server:
                        server.wait_for_port(second_port, HOSTS[0].listens)
                        refused = ask("ibv_rc_pingpong", "-g", 1, "-p", second_port)
                        server.process.kill()
                finally:
                    client.process.send_signal(signal.SIGCONT)
                client.process.kill()
            owner.process.kill()
        self.assertNotEqual(refused.status, 0, refused)
        self.assertRegex(refused.output, r"the process that owns the port \(pid \d+\) does not answer: it is stopped")

    def test_connection_manager_connects_hosts(self):
        for number, (port, server_words, client_words) in enumerate(CONNECTED):
            if not foreign.Setting.runs(number):
                continue
            with self.subTest(words=client_words):
                name, *options = client_words
                with serve(*server_words, "-p", port) as server:
                    server.wait_for_port(port, HOSTS[0].accepts)
                    client = HOSTS[1].inside(name, "-p", port, *options, SERVER)
                    self.assert_succeeded(*foreign.both_ends(server, *client))

    def test_request_that_cannot_be_accepted_is_rejected_with_the_reason(self):
        port = 18770
        invalid_service, invalid_transport, invalid_mtu = 8, 9, 26
        cases = (("no listener", connection_request(port + 1), invalid_service), ("UC", connection_request(port, transport=1), invalid_transport),
                 ("XRC", connection_request(port, transport=3, extended=1), invalid_transport),
                 ("path MTU", connection_request(port, mtu=6), invalid_mtu))
        with serve("rping", "-s", "-p", port) as server:
            server.wait_for_port(port, HOSTS[0].accepts)
            for name, request, reason in cases:
                with self.subTest(name):
                    answer = ask_by_packet(request)
                    self.assertEqual(struct.unpack_from(">H", answer, 16)[0], REJ)
                    self.assertEqual(struct.unpack_from(">8xQ", answer)[0], 0x5566, "the transaction of the request")
                    _, receiver, subject, _, said = struct.unpack_from(">IIBBH", answer, 24)
                    self.assertEqual((receiver, subject, said), (COMMUNICATION_ID, 0, reason))
            server.process.kill()

    def by_ipv6(self, port, *words, link=False):
        """Runs a server and a client that use the GIDs of IPv6 addresses: of the global or the link-local ones."""
        addresses = [link_local(HOSTS[0], "v0"), link_local(HOSTS[1], "v1")] if link else [SERVER_IPV6, CLIENT_IPV6]
        option = "-g" if words[0].startswith("ibv_") else "-x"
        server, client = ((*words, "-p", port, option, gid_index(host, address)) for host, address in zip(HOSTS, addresses))
        return ends(port, server, client)

    def test_programs_communicate_over_ipv6(self):
        for number, (words, link) in enumerate(((("ibv_rc_pingpong", "-n", 100, "-s", 20000), False),
                                                (("ibv_rc_pingpong", "-n", 20, "-e"), True),
                                                (("ibv_ud_pingpong", "-n", 50), False),
                                                (("ibv_ud_pingpong", "-n", 20, "-e"), True))):
            with self.subTest(words=words, link_local=link):
                self.assert_succeeded(*self.by_ipv6(18750 + number, *words, link=link))

    def test_perftest_measures_over_ipv6(self):
        for number, words in enumerate(PERFTEST_IPV6):
            if not foreign.Setting.runs(number):
                continue
            with self.subTest(words=words):
                server, client = self.by_ipv6(18760 + number, *words, "-F")
                self.assert_succeeded(server, client)
                self.assertEqual(len(rows.rows(client.output)), 1, client)

    def test_list_with_prefixes_and_addresses_of_ipv6_is_used(self):
        cases = (("fd00:9::/64", True), (f"{SERVER_IPV6},{CLIENT_IPV6}", True), ("v0,v1", True),
                 ("fd00:8::/64,10.9.0.0/16", False))
        for number, (listed, succeeds) in enumerate(cases):
            with self.subTest(listed=listed), foreign.Setting.also(VERBENA_SOFTDEV_WIRE=listed):
                server, client = self.by_ipv6(18770 + number, "ibv_rc_pingpong", "-n", 10)
                if succeeds:
                    self.assert_succeeded(server, client)
                else:
                    self.assertRegex(server.output + client.output, "VERBENA_SOFTDEV_WIRE does not contain fd00:9::")

    def test_source_gid_of_another_family_is_refused(self):
        port = 18775
        server, client = ends(port, ("ibv_rc_pingpong", "-g", gid_index(HOSTS[0], SERVER_IPV6), "-n", 1, "-p", port),
                              ("ibv_rc_pingpong", "-g", 1, "-n", 1, "-p", port))
        self.assertNotEqual(client.status, 0, client)
        self.assertRegex(server.output + client.output, "are addresses of IPv4 and IPv6; choose a source GID of the same kind")

    def test_connection_manager_connects_hosts_over_ipv6(self):
        for number, (port, server_words, client_words) in enumerate(CONNECTED_IPV6):
            if not foreign.Setting.runs(number):
                continue
            for link in (False, True):
                server_address, client_address = SERVER_IPV6, SERVER_IPV6
                if link:
                    address = link_local(HOSTS[0], "v0")
                    server_address, client_address = f"{address}%v0", f"{address}%v1"
                with self.subTest(words=client_words, link_local=link):
                    option = () if port == UDADDY_PORT else ("-p", port)
                    name, *options = client_words
                    with serve(server_words[0], *option, *server_words[1:], server_address) as server:
                        server.wait_for_port(port, HOSTS[0].accepts)
                        client = HOSTS[1].inside(name, *option, *options, client_address)
                        self.assert_succeeded(*foreign.both_ends(server, *client))

    def test_members_of_a_group_receive_from_another_host(self):
        for group, server_address, client_address in GROUPS:
            with self.subTest(group=group):
                receiver = ("mckey", "-m", group, "-b", server_address, "-C", 5)
                with serve(*receiver) as owner, serve(*receiver) as other:
                    foreign.wait_until(lambda: self.members(group, 0) == 2, "both processes have joined")
                    sender = foreign.run(*HOSTS[1].inside("mckey", "-m", group, "-b", client_address, "-s", "-C", 5))
                    self.assert_succeeded(sender, owner.end())
                    self.assert_succeeded(sender, other.end())
                foreign.wait_until(lambda: self.members(group, 0) == 0, "the host has left the group")

    @staticmethod
    def members(group, host):
        """Returns how many sockets of a host have joined a group, at all interfaces except for loopback."""
        folder = pathlib.Path(f"/proc/{HOSTS[host].pid()}/net")
        if ":" in group:
            wanted = f"{int(ipaddress.IPv6Address(group)):032x}"
            lines = (line.split() for line in (folder / "igmp6").read_text().splitlines())
            return sum(int(line[3]) for line in lines if line[2] == wanted)
        wanted = bytes(reversed(ipaddress.IPv4Address(group).packed)).hex().upper()
        lines = (line.split() for line in (folder / "igmp").read_text().splitlines())
        return sum(int(line[1]) for line in lines if line[0] == wanted)

    def test_process_that_does_not_own_the_port_accepts(self):
        owner_port, port = 18730, 18731
        with serve("rping", "-s", "-P", "-p", owner_port) as owner:
            owner.wait_for_port(owner_port, HOSTS[0].accepts)
            with serve("rping", "-s", "-C", 3, "-p", port) as server:
                server.wait_for_port(port, HOSTS[0].accepts)
                client = ("rping", "-c", "-C", 3, "-a", SERVER, "-p", port)
                self.assert_succeeded(*foreign.both_ends(server, *HOSTS[1].inside(*client)))
            nobody = foreign.run(*HOSTS[1].inside("rping", "-c", "-d", "-C", 1, "-a", SERVER, "-p", 18732))
        self.assertNotEqual(nobody.status, 0, nobody)
        self.assertRegex(nobody.output, r"RDMA_CM_EVENT_REJECTED, error 8")

    @staticmethod
    def sent_packets(interface="v1"):
        """Returns the number of packets that an interface sent: of the second host, or `lo` of the first one."""
        host = HOSTS[0] if interface == "lo" else HOSTS[1]
        text = pathlib.Path(f"/proc/{host.pid()}/net/dev").read_text()
        return int(re.search(rf"\b{interface}:(.*)", text).group(1).split()[9])

    @staticmethod
    def sockets_of_clients():
        """Returns the number of connections to the owner of the port on the first host."""
        text = pathlib.Path(f"/proc/{HOSTS[0].pid()}/net/unix").read_text()
        return sum("verbena-wire" in line and line.split()[5] == "03" for line in text.splitlines())


if __name__ == "__main__":
    if not places.own_hosts():
        print("NOT RUN: this place gives no user namespace with network namespaces")
        sys.exit(foreign.NOT_RUN)
    foreign.main()
