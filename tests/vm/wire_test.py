# SPDX-License-Identifier: MIT
"""soft0 and the kernel's rxe communicate by packets, in both directions. Runs in the virtual machine, which has rxe0 on
v0 and rxe1 on v1. The former stays in the initial network namespace, where rxe works; soft0 is in another one, with v1."""
import ipaddress
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

BUILD = pathlib.Path(sys.argv.pop(1))
LIBRARIES = BUILD / "lib"
RXE, SOFT = "10.0.0.1", "10.0.0.2"
RXE_IPV6, SOFT_IPV6 = "fd00:10::1", "fd00:10::2"
FOLDER = pathlib.Path(__file__).resolve().parent
GROUP = "239.9.9.9"  # the kernel's rdma_join_multicast does not support groups of IPv6 on RoCE
BOUND = 60
# `-o 1`: perftest uses as many outstanding READs as its device has, and the two devices differ.
CASES = (
    ("ibv_rc_pingpong", "-n", 30, "-s", 3000),
    ("ibv_rc_pingpong", "-n", 20, "-e"),
    ("ib_send_bw", "-n", 20, "-s", 5000),
    ("ib_write_bw", "-n", 20, "-s", 20000),
    ("ib_read_bw", "-n", 20, "-s", 20000, "-o", 1),
    ("ib_atomic_bw", "-n", 10, "-o", 1),
    ("ib_atomic_bw", "-n", 10, "-o", 1, "-A", "CMP_AND_SWAP"),
    ("ib_write_bw", "-c", "UC", "-n", 20, "-s", 5000),
    ("ibv_ud_pingpong", "-n", 30),
    ("ibv_ud_pingpong", "-n", 20, "-e", "-s", 777),
    ("ib_send_lat", "-c", "UD", "-n", 20, "-s", 1000),
    ("ib_send_bw", "-c", "UD", "-n", 100, "-s", 1024),
)
CASES_IPV6 = (
    ("ibv_rc_pingpong", "-n", 30, "-s", 3000),
    ("ib_write_bw", "-n", 20, "-s", 20000),
    ("ib_read_bw", "-n", 20, "-s", 20000, "-o", 1),
    ("ibv_ud_pingpong", "-n", 20, "-s", 777),
)
# By the connection manager: the server and the client without port and address.
CONNECTED = (
    (("rping", "-s", "-C", 5, "-S", 200), ("rping", "-c", "-V", "-C", 5, "-S", 200, "-a")),
    (("ucmatose", "-c", 3, "-C", 10), ("ucmatose", "-c", 3, "-C", 10, "-s")),
    (("ib_send_bw", "-R", "-F", "-n", 20), ("ib_send_bw", "-R", "-F", "-n", 20)),
)
CONNECTED_IPV6 = (
    (("rping", "-s", "-C", 5, "-S", 200, "-a"), ("rping", "-c", "-V", "-C", 5, "-S", 200, "-a")),
    (("udaddy", "-C", 3, "-b"), ("udaddy", "-C", 3, "-s")),
)


def run(*words):
    subprocess.run(list(map(str, words)), check=True, stdin=subprocess.DEVNULL)


class Other:
    """The namespace of soft0."""
    process = None

    @classmethod
    def inside(cls, *words):
        return ["nsenter", f"--target={cls.process.pid}", "--net", *words]


def setUpModule():  # noqa: N802
    run("rdma", "link", "delete", "rxe1")
    Other.process = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; read _"], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)
    Other.process.stdout.readline()
    run("ip", "link", "set", "v1", "netns", Other.process.pid)
    for command in ("link set lo up", f"address add {SOFT}/24 dev v1", f"address add {SOFT_IPV6}/64 dev v1 nodad",
                    "link set v1 up"):
        run(*Other.inside("ip", *command.split()))
    run("ip", "address", "add", f"{RXE_IPV6}/64", "dev", "v0", "nodad")


def tearDownModule():  # noqa: N802
    Other.process.communicate(b"\n")


def with_soft(*words):
    return ["env", f"LD_PRELOAD={LIBRARIES}/libverbena-preload.so", "VERBENA_SOFTDEV=only", "VERBENA_SOFTDEV_WIRE=on",
            *map(str, words)]


def on_soft(*words):
    return [*with_soft(*words), "-d", "soft0"]


def on_rxe(*words):
    return [*map(str, words), "-d", "rxe0"]


def listens(port):
    """Returns whether a process of any namespace listens: that of this process, and that of soft0."""
    for pid in ("self", Other.process.pid):
        for table in ("tcp", "tcp6"):
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                if line.split()[3] == "0A" and int(line.split()[1].rpartition(":")[2], 16) == port:
                    return True
    return False


def accepts(port):
    """Returns whether a program listens by the connection manager: of the kernel, or of soft0."""
    if re.search(f"@verbena-cm-port.0.1(06|11).{port}", pathlib.Path(f"/proc/{Other.process.pid}/net/unix").read_text()):
        return True
    ids = subprocess.run(["rdma", "resource", "show", "cm_id"], capture_output=True, text=True, check=True).stdout
    return any("state LISTEN" in line and f":{port} " in line for line in ids.splitlines())


def gid_index(words, address):
    """Returns the index of an address in the GID table that `ibv_devinfo` shows."""
    shown = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    return next(int(number) for number, gid in re.findall(r"GID\[ *(\d+)\]:\s*([0-9a-f:.]+)", shown) if gid == address)


def has_joined(pid):
    """Returns whether a socket in the network namespace of a process is in the group."""
    name = bytes(reversed(ipaddress.IPv4Address(GROUP).packed)).hex().upper()
    return name in pathlib.Path(f"/proc/{pid}/net/igmp").read_text()


def soft_counters(*options):
    """Returns the output of `verbena devinfo` with the counters of the processes that use soft0."""
    return subprocess.run([BUILD / "bin/verbena", "devinfo", "soft0", "--counters", *options], capture_output=True,
                          text=True, check=True, env=dict(os.environ, VERBENA_SOFTDEV="only")).stdout


def counters_of(pid):
    """Returns the counters of a process that uses soft0."""
    processes = json.loads(soft_counters("--json"))["devices"][0].get("processes", [])
    return next((each["counters"] for each in processes if each["pid"] == pid), {})


def devices():
    """Returns the counters of both devices that are not 0."""
    files = pathlib.Path("/sys/class/infiniband/rxe0/ports/1/hw_counters").iterdir()
    shown = soft_counters().splitlines() + [f"rxe0 {each.name} {each.read_text().strip()}" for each in files]
    return "\n".join(line for line in shown if not line.endswith(" 0"))


def queue_in(line):
    """Returns the entry of fq_codel in a line of `tc -s -j qdisc show`."""
    return next(each for each in json.loads(line) if each["kind"] == "fq_codel")


class Wire(unittest.TestCase):
    def pair(self, port, server_words, client_words, listens=listens):
        """Runs a server, and a client when the server listens; both have to succeed."""
        options = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with subprocess.Popen(server_words, **options) as server:
            try:
                end = time.monotonic() + BOUND
                while not listens(port) and server.poll() is None and time.monotonic() < end:
                    time.sleep(0.02)
                client = subprocess.run(client_words, timeout=BOUND, check=False, **options)
                if client.returncode != 0:
                    server.kill()
                text, _ = server.communicate(timeout=BOUND)
            except subprocess.TimeoutExpired as late:
                server.kill()
                text, _ = server.communicate()
                self.fail(f"{late}\n{late.output}\nthe server, status {server.returncode}:\n{text}\n{devices()}")
            finally:
                server.kill()
        self.assertEqual((server.returncode, client.returncode), (0, 0),
                         f"$ {' '.join(server_words)}\n{text}\n$ {' '.join(client_words)}\n{client.stdout}")

    def test_programs_between_soft0_and_rxe(self):
        for number, words in enumerate(CASES):
            index = ("-g", 1) if words[0].startswith("ibv_") else ("-F", "-x", 1)
            for from_soft in (True, False):
                with self.subTest(words=words, from_soft=from_soft):
                    port = 18600 + 2 * number + from_soft
                    all_words = (*words, *index, "-p", port)
                    rxe, soft = on_rxe(*all_words), Other.inside(*on_soft(*all_words))
                    if from_soft:
                        self.pair(port, rxe, [*soft, RXE])
                    else:
                        self.pair(port, soft, [*rxe, SOFT])

    def test_programs_between_soft0_and_rxe_over_ipv6(self):
        rxe_index = gid_index(on_rxe("ibv_devinfo", "-v"), RXE_IPV6)
        soft_index = gid_index(Other.inside(*on_soft("ibv_devinfo", "-v")), SOFT_IPV6)
        for number, words in enumerate(CASES_IPV6):
            index = ("-g",) if words[0].startswith("ibv_") else ("-F", "-x")
            for from_soft in (True, False):
                with self.subTest(words=words, from_soft=from_soft):
                    port = 18800 + 2 * number + from_soft
                    rxe = on_rxe(*words, "-p", port, *index, rxe_index)
                    soft = Other.inside(*on_soft(*words, "-p", port, *index, soft_index))
                    if from_soft:
                        self.pair(port, rxe, [*soft, RXE])
                    else:
                        self.pair(port, soft, [*rxe, SOFT])

    def test_programs_connect_by_the_connection_manager_over_ipv6(self):
        for number, (server_words, client_words) in enumerate(CONNECTED_IPV6):
            for from_soft in (True, False):
                with self.subTest(words=client_words, from_soft=from_soft):
                    udaddy = server_words[0] == "udaddy"  # it has no option for the port
                    port = 7174 if udaddy else 18900 + 2 * number + from_soft
                    option = [] if udaddy else ["-p", str(port)]
                    address = RXE_IPV6 if from_soft else SOFT_IPV6
                    server, client = ([words[0], *option, *map(str, words[1:]), address]
                                      for words in (server_words, client_words))
                    if from_soft:
                        self.pair(port, server, Other.inside(*with_soft(*client)), accepts)
                    else:
                        self.pair(port, Other.inside(*with_soft(*server)), client, accepts)

    def test_datagrams_of_soft0_to_a_group_arrive(self):
        words = ["mckey", "-m", GROUP, "-C", "5", "-b"]
        self.pair("self", [*words, RXE], Other.inside(*with_soft(*words, SOFT, "-s")), has_joined)

    def test_datagrams_of_rxe_to_a_group_arrive(self):
        # The kernel sends to a group only by a route.
        run("ip", "route", "add", f"{GROUP}/32", "dev", "v0")
        self.addCleanup(run, "ip", "route", "delete", f"{GROUP}/32", "dev", "v0")
        receiver = with_soft("mckey", "-m", GROUP, "-C", 5, "-b", SOFT)
        group_gid = ipaddress.IPv6Address(f"::ffff:{GROUP}").exploded
        sender = ["/usr/bin/python3", str(FOLDER / "group_sender.py"), "rxe0", "1", group_gid, "5"]
        self.pair(Other.process.pid, Other.inside(*receiver), sender, has_joined)

    def test_programs_connect_by_the_connection_manager(self):
        for number, (server_words, client_words) in enumerate(CONNECTED):
            for from_soft in (True, False):
                with self.subTest(words=client_words, from_soft=from_soft):
                    port = 18700 + 2 * number + from_soft
                    server = [*map(str, server_words), "-p", str(port)]
                    name, *options = map(str, client_words)
                    client = [name, "-p", str(port), *options]
                    if from_soft:
                        self.pair(port, server, [*Other.inside(*with_soft(*client)), RXE], accepts)
                    else:
                        self.pair(port, Other.inside(*with_soft(*server)), [*client, SOFT], accepts)

    def test_marks_of_a_congested_queue_keep_it_short(self):
        # A link that is slower than the emulated processors; its queue marks packets that wait for more than 20 ms.
        near, far = "10.0.1.1", "10.0.1.2"
        run("modprobe", "-a", "sch_tbf", "sch_fq_codel")
        beyond = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; read _"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        self.addCleanup(beyond.communicate, b"\n")
        beyond.stdout.readline()
        there = ["nsenter", f"--target={beyond.pid}", "--net"]
        for command in ("ip link add w0 type veth peer name w1", f"ip link set w1 netns {beyond.pid}",
                        f"ip address add {near}/24 dev w0", "ip link set w0 up",
                        "tc qdisc add dev w0 root handle 1: tbf rate 2mbit burst 4k latency 5s",
                        "tc qdisc add dev w0 parent 1: handle 2: fq_codel ecn target 20ms interval 100ms limit 1000"):
            run(*Other.inside(*command.split()))
        self.addCleanup(run, *Other.inside("ip", "link", "delete", "w0"))
        for command in ("link set lo up", f"address add {far}/24 dev w1", "link set w1 up"):
            run(*there, "ip", *command.split())
        words = ["ib_write_bw", "-F", "-D", "8", "-s", "16384", "-t", "16", "-u", "20", "-p", "18960", "-d", "soft0"]
        index = gid_index(Other.inside(*on_soft("ibv_devinfo", "-v")), f"::ffff:{near}")
        options = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with subprocess.Popen([*there, *with_soft(*words, "-x", 1)], **options) as server:
            self.addCleanup(server.kill)
            end = time.monotonic() + BOUND
            while "18960" not in subprocess.run([*there, "ss", "-ltn"], capture_output=True, text=True, check=True).stdout:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.02)
            with subprocess.Popen(Other.inside(*with_soft(*words, "-x", index, far)), **options) as client:
                self.addCleanup(client.kill)
                watch = Other.inside("sh", "-c", "while sleep 0.2; do tc -s -j qdisc show dev w0; done")
                with subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as watcher:
                    sender, receiver = {}, {}
                    while client.poll() is None and time.monotonic() < end:
                        sender, receiver = counters_of(client.pid) or sender, counters_of(server.pid) or receiver
                    watcher.terminate()
                    queued = [queue_in(line) for line in watcher.stdout if line.endswith("\n")]
                text = client.communicate(timeout=BOUND)[0] + server.communicate(timeout=BOUND)[0]
        self.assertEqual((server.returncode, client.returncode), (0, 0), text)
        self.assertGreaterEqual(sender["rp_cnp_handled"], 5)
        self.assertGreaterEqual(receiver["np_ecn_marked_roce_packets"], receiver["np_cnp_sent"])
        self.assertGreaterEqual(queued[-1]["ecn_mark"], 5)
        # The largest window is 128 packets of 1 KiB.
        reduced = [each["backlog"] for each in queued if each["ecn_mark"] >= 20]
        self.assertGreater(len(reduced), 0, queued)
        self.assertLess(max(reduced), 64 * 1024, queued)

    def test_port_that_rxe_has_is_refused_with_the_setting(self):
        # In the namespace of rxe.
        words = on_soft("ibv_rc_pingpong", "-g", 1, "-n", 1, "-p", 18590)
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=dict(os.environ, VERBENA_SOFTDEV_PATH="wire")) as server:
            end = time.monotonic() + BOUND
            while not listens(18590) and server.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            client = subprocess.run([*words, RXE], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, timeout=BOUND, check=False, env=dict(os.environ, VERBENA_SOFTDEV_PATH="wire"))
            server.kill()
            text = server.stdout.read() + client.stdout
        self.assertRegex(text, re.compile("another program or another user has the port.*VERBENA_SOFTDEV_WIRE_PORT", re.S))


if __name__ == "__main__":
    unittest.main(verbosity=2)
