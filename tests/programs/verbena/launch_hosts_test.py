# SPDX-License-Identifier: MIT
"""`verbena launch --hosts` starts ranks by ssh: with an SSH server on the loopback interface, and with stand-ins for ssh."""
import array
import fcntl
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
import unittest

import harness

GROUP = pathlib.Path(os.environ["BUILD"]) / "examples" / "group"
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
# Waits for a signal, which is its exit status; says when it is ready.
WAIT_FOR_SIGNAL = ("import os, signal, sys\n"
                   "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])\n"
                   "os.write(1, b'ready\\n')\n"
                   "sys.exit(signal.sigwait([signal.SIGTERM, signal.SIGINT]))")
LONG = "echo ready $$; exec sleep 300"


def gone(process):
    """Waits until the process has ended."""
    until = time.monotonic() + harness.BOUND
    while time.monotonic() < until:
        try:
            state = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        os.sched_yield()
    return False


class Launches(harness.Case):
    def hosts(self, content):
        path = self.work / "hosts"
        path.write_text(content)
        return path

    def launch(self, hosts, *words, options=(), **more):
        return harness.verbena("launch", "--hosts", self.hosts(hosts), "--ssh", self.ssh, *options, "--", *words, **more)

    def start(self, hosts, *words):
        """Starts ranks, which end with the test."""
        started = subprocess.Popen([harness.VERBENA, "launch", "--hosts", str(self.hosts(hosts)), "--ssh", self.ssh, "--", *words],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for each in (started.stdout.close, started.stderr.close, started.wait, started.kill):
            self.addCleanup(each)
        return started

    def assert_failed(self, done, status, *words):
        said = harness.text(done.stderr)
        self.assertEqual(done.returncode, status, said)
        for each in words:
            self.assertIn(each, said)


class Hosts(Launches):
    """The command that replaces ssh starts the agent on this host."""

    def setUp(self):
        super().setUp()
        self.ssh = str(self.stand_in('eval "$command"'))

    def stand_in(self, action):
        """A program with the arguments of ssh."""
        return self.script("ssh", "#!/bin/sh\n"
                           f"echo \"$@\" >> {self.work}/calls\n"
                           "while [ $# -gt 2 ]; do shift; done; host=$1; command=$2\n"
                           "export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'\n" + action + "\n")

    def test_gives_each_process_its_place(self):
        done = self.launch("# two hosts\nnode-a slots=2 max_slots=4\n\nme@node-b port=77 # the second\n", "sh", "-c",
                           'echo "$RANK $LOCAL_RANK $WORLD_SIZE $VERBENA_STORE $VERBENA_SECRET $PWD $1"', "sh", "an 'argument'",
                           cwd=self.work)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = sorted(harness.text(done.stdout).splitlines())
        self.assertEqual(len(lines), 3)
        secrets = set()
        for rank, (local, line) in enumerate(zip((0, 1, 0), lines)):
            found = re.fullmatch(rf"\[{rank}\] {rank} {local} 3 127\.0\.0\.1:\d+ ([0-9a-f]{{64}}) {self.work} an 'argument'", line)
            self.assertIsNotNone(found, line)
            secrets.add(found[1])
        self.assertEqual(len(secrets), 1)
        calls = (self.work / "calls").read_text()
        self.assertNotIn(secrets.pop(), calls)
        self.assertRegex(calls, r"(?m)^node-a test -x ")
        self.assertRegex(calls, r"(?m)^-l me -p 77 node-b test -x ")

    def test_n_uses_the_slots_in_order(self):
        done = self.launch("node-a slots=2\nnode-b slots=2\n", "sh", "-c", "echo $RANK", options=("-n", 2))
        self.assertEqual(sorted(done.stdout.split(b"\n")), [b"", b"[0] 0", b"[1] 1"])
        self.assertNotIn("node-b", (self.work / "calls").read_text())
        self.assert_failed(self.launch("node-a slots=2\n", "true", options=("-n", 3)), 125, "3 ranks exceed the 2 slots")

    def test_passes_variables(self):
        command = ("node-a\n", "sh", "-c", 'echo "$ONE $TWO $VERBENA_LOG $VERBENA_NETWORK."')
        done = self.launch(*command, options=("-x", "ONE", "-x", "TWO=two words"),
                           env={"ONE": "1", "VERBENA_LOG": "error", "VERBENA_NETWORK": "x"})
        self.assertEqual(done.stdout, b"[0] 1 two words error .\n", done.stderr)
        self.assert_failed(self.launch(*command, options=("-x", "NOT_SET")), 125, "-x NOT_SET", "is not set here")

    def test_output_of_ranks_is_in_whole_lines(self):
        writer = ("import os\n"
                  "for i in range(300):\n"
                  "    os.write(1, b'a' * 50); os.write(1, b'b' * 50 + b'\\n'); os.write(2, b'error\\n')\n"
                  "os.write(1, b'no newline')")
        done = self.launch("node-a slots=3\n", sys.executable, "-c", writer)
        self.assertEqual(done.returncode, 0)
        lines = harness.text(done.stdout).splitlines()
        for rank in range(3):
            self.assertEqual(lines.count(f"[{rank}] " + "a" * 50 + "b" * 50), 300)
            self.assertEqual(lines.count(f"[{rank}] no newline"), 1)
        self.assertEqual(len(lines), 903)
        self.assertEqual(harness.text(done.stderr).splitlines().count("[1] error"), 300)

    def test_output_and_errors_of_ranks_in_one_pipe_are_in_whole_lines(self):
        writer = ("import os\n"
                  "for i in range(1000):\n"
                  "    os.write(1, b'o' * 300 + b'\\n'); os.write(2, b'e' * 300 + b'\\n')")
        done = self.launch("node-a slots=3\n", sys.executable, "-c", writer, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0)
        lines = harness.text(done.stdout).splitlines()
        self.assertEqual({line: lines.count(line) for line in lines},
                         {f"[{rank}] " + letter * 300: 1000 for rank in range(3) for letter in "oe"})

    def test_names_the_ranks_that_failed_and_returns_the_first_status(self):
        done = self.launch("node-a\nnode-b slots=2\n", "sh", "-c", "[ $RANK != 1 ] || exit 7")
        self.assert_failed(done, 7)
        self.assertRegex(harness.text(done.stderr), r"^verbena launch: rank 1 \(process \d+ on node-b\) ended with status 7\n$")

    def test_passes_signals_on(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            started = self.start("node-a\nnode-b\n", sys.executable, "-c", WAIT_FOR_SIGNAL)
            self.assertEqual(sorted(started.stdout.readline() for _ in range(2)), [b"[0] ready\n", b"[1] ready\n"])
            started.send_signal(number)
            self.assertEqual(started.wait(harness.BOUND), number)

    def test_passes_signals_on_while_its_output_is_blocked(self):
        started = self.start("node-a slots=2\n", "yes", "much output")
        room = array.array("i", [0])
        until = time.monotonic() + harness.BOUND
        while room[0] < 32768 and time.monotonic() < until:  # the ranks write more than all pipes hold
            fcntl.ioctl(started.stdout, termios.FIONREAD, room)
            os.sched_yield()
        self.assertGreaterEqual(room[0], 32768)
        started.send_signal(signal.SIGTERM)
        self.assertEqual(started.wait(harness.BOUND), 128 + signal.SIGTERM)

    def test_output_to_a_pipe_that_does_not_block_is_complete(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        writes = "import os\nfor i in range(3000): os.write(1, b'%0399d\\n' % i)"
        started = subprocess.Popen([harness.VERBENA, "launch", "--hosts", str(self.hosts("node-a\n")), "--ssh", self.ssh, "--",
                                    sys.executable, "-c", writes], stdin=subprocess.DEVNULL, stdout=writer)
        self.addCleanup(started.wait)
        os.close(writer)
        lines = b""
        while part := os.read(reader, 4096):
            lines += part
        self.assertEqual(lines, b"".join(b"[0] %0399d\n" % each for each in range(3000)))

    def test_processes_end_with_the_launcher(self):
        # The ranks and a child of theirs that ignores SIGTERM.
        started = self.start("node-a\nnode-b\n", "sh", "-c",
                             "sh -c \"trap '' TERM; echo \\$\\$; while :; do sleep 300; done\" & wait")
        children = [int(started.stdout.readline().split()[1]) for _ in range(2)]
        started.kill()
        for each in children:
            self.assertTrue(gone(each), each)

    def test_refused_programs_end_the_launch(self):
        missing = self.launch("node-a slots=2\n", self.work / "missing")
        self.assert_failed(missing, 127, f"host node-a: rank 0: {self.work}/missing: No such file or directory")
        self.assert_failed(self.launch("node-a\n", self.script("plain", "", 0o644)), 126, "Permission denied")

    def test_one_host_without_the_program_ends_the_others(self):
        # The program disappears when it runs on the first host.
        self.stand_in(f"cd {self.work}; if [ $host = node-b ]; then until [ -e started ]; do sleep 0.05; done; rm program; fi; eval \"$command\"")
        program = self.script("program", f"#!/bin/sh\ntouch {self.work}/started\nexec sleep 300\n")
        self.assert_failed(self.launch("node-a\nnode-b\n", program), 127, "host node-b: rank 1: ")

    def test_text_of_login_shells_is_skipped(self):
        self.stand_in("echo welcome to $host; echo note >&2; eval \"$command\"")
        done = self.launch("node-a\n", "echo", "x")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"[0] x\n", b"[node-a] note\n"))

    def test_hosts_that_do_not_run_an_agent_are_named(self):
        for action, words in (
                ("exit 1", ("the agent ended with status 1 before it started",)),
                ("exit 127", ("the program `verbena` was not found there", "--agent")),
                ("cat /dev/zero", ("but not the greeting",)),
                ("printf '\\001verbena-launch-agent 1\\n\\377garbage, garbage'", ("a message has an unknown kind",)),
                ("printf '\\001verbena-launch-agent 1\\n\\3\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\377'; sleep 300", ("exceeds its limit",)),
                ("printf '\\001verbena-launch-agent 1\\n\\3\\7\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0'; sleep 300", ("rank 7, which does not run there",)),
                ("printf '\\001verbena-launch-agent 1\\n'", ("the connection was lost", "1 ranks there")),
                ("unset SSH_CONNECTION; eval \"$command\"", ("SSH_CONNECTION is not set", "--address")),
                ("cd /; rmdir \"$OLDPWD/sub\"; eval \"$command\"", ("the working folder", "cannot be used"))):
            (self.work / "sub").mkdir(exist_ok=True)
            self.stand_in(f"cd {self.work}; {action}")
            self.assert_failed(self.launch("node-a\n", "true", cwd=self.work / "sub"), 125, "host node-a: ", *words)

    def test_children_of_ssh_do_not_keep_the_launch_open(self):
        self.stand_in(f"sleep 300 & echo $! > {self.work}/child; eval \"$command\"")
        done = self.launch("node-a\n", "echo", "x")
        os.kill(int((self.work / "child").read_text()), signal.SIGKILL)
        self.assertEqual((done.returncode, done.stdout), (0, b"[0] x\n"), done.stderr)

    def test_missing_command_is_named(self):
        self.ssh = str(self.work / "no-ssh")
        self.assert_failed(self.launch("node-a\n", "true"), 125, "host node-a: ", "no-ssh could not be started: No such file")

    def test_refuses_lists_of_hosts(self):
        for content, words in (("", "the file has no hosts"), ("# none\n\n", "the file has no hosts"),
                               ("a\n-oProxyCommand=x\n", ":2 failed: Invalid argument (errno 22): '-oProxyCommand=x' is not a host"),
                               ("-l@a\n", "'-l' is not a user name"), ("a;b\n", "'a;b' is not a host"),
                               ("a slots=0\n", "slots=0 is not a number from 1 to 4096"), ("a slots\n", "slots= is not a number"),
                               ("a port=65536\n", "port=65536 is not a number from 1 to 65535"), ("a user=\n", "user= is not a user name"),
                               ("a slots=4 max_slots=2\n", "slots=4 exceeds max_slots=2"), ("a rack=1\n", "'rack=1' is not slots=N"),
                               ("a slots=4096\nb\n", ":2 failed: Invalid argument (errno 22): more than 4096 slots")):
            with self.subTest(content):
                self.assert_failed(self.launch(content, "true"), 125, words)
        self.assert_failed(harness.verbena("launch", "--hosts", self.work / "none", "--", "true"), 125, "none", "No such file")
        self.assert_failed(harness.verbena("launch", "-n", 1, "--ssh", "x", "--", "true"), 125, "--ssh requires --hosts")

    def test_agent_refuses_garbage(self):
        for content, words in ((b"\xff" * 40, "an unknown kind"), (b"\x01" + bytes(12), "the job is truncated in a length field"),
                               (b"\x01" + bytes(8) + b"\xff\xff\xff\xff", "exceeds its limit"), (b"\x03" + bytes(12), "unexpected message")):
            done = harness.verbena("launch-agent", stdin=None, input=content)
            self.assertEqual(done.returncode, 0)
            self.assertIn(words, harness.text(done.stdout + done.stderr))


def server_prefix():
    """Returns the words before a command that needs /run/sshd, as sshd does for root."""
    if os.geteuid() != 0:
        return []
    prefix = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$0" "$@"']
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # no mount namespaces here
        return []
    return prefix


class Ssh(Launches):
    """An SSH server of this test at a free port of the loopback interface, with keys of its own."""

    def setUp(self):
        super().setUp()
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        for key in ("host_key", "key", "other_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.work / key)], check=True, timeout=harness.BOUND)
        shutil.copy(self.work / "key.pub", self.work / "authorized")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        public = (self.work / "host_key.pub").read_text()
        (self.work / "known").write_text(f"[127.0.0.1]:{self.port} {public}")
        (self.work / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {self.work}/host_key\nAuthorizedKeysFile {self.work}/authorized\n"
            f"PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin prohibit-password\nPermitUserEnvironment no\n")
        self.client_config("key", "known")
        self.ssh = f"ssh -F {self.work}/config"
        server = subprocess.Popen([*server_prefix(), SSHD, "-D", "-e", "-f", str(self.work / "sshd_config")], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for each in (server.stderr.close, server.wait, server.terminate):
            self.addCleanup(each)
        for line in server.stderr:
            if b"Server listening" in line:
                break
        else:
            self.fail("sshd did not start")

    def client_config(self, key, known):
        (self.work / "config").write_text(
            f"Host node-*\n  HostName 127.0.0.1\n  Port {self.port}\nHost *\n  User {self.user}\n  IdentityFile {self.work}/{key}\n"
            f"  IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {self.work}/{known}\n  GlobalKnownHostsFile none\n"
            "  StrictHostKeyChecking yes\n  BatchMode yes\n  ConnectTimeout 20\n")

    def test_group_of_two_hosts(self):
        done = self.launch("node-a slots=2\nnode-b\n", GROUP)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("[0] barrier of 3 ranks, dissemination", harness.text(done.stdout))

    def test_secret_is_on_no_command_line(self):
        started = self.start("node-a\n", "sh", "-c", "echo $VERBENA_SECRET $VERBENA_STORE; exec sleep 300")
        words = started.stdout.readline().decode().split()
        self.assertRegex(words[1], "^[0-9a-f]{64}$")
        self.assertRegex(words[2], r"^127\.0\.0\.1:\d+$")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                self.assertNotIn(words[1].encode(), (process / "cmdline").read_bytes())
            except (FileNotFoundError, ProcessLookupError):
                continue

    def test_signals_and_statuses_pass(self):
        started = self.start("node-a\nnode-b\n", sys.executable, "-c", WAIT_FOR_SIGNAL)
        self.assertEqual(sorted(started.stdout.readline() for _ in range(2)), [b"[0] ready\n", b"[1] ready\n"])
        started.send_signal(signal.SIGINT)
        self.assertEqual(started.wait(harness.BOUND), signal.SIGINT)
        self.assertRegex(started.stderr.read().decode(), r"rank 0 \(process \d+ on node-a\) ended with status 2")

    def test_processes_end_with_the_launcher(self):
        started = self.start("node-a\nnode-b\n", "sh", "-c", LONG)
        processes = [int(started.stdout.readline().split()[2]) for _ in range(2)]
        started.kill()
        for each in processes:
            self.assertTrue(gone(each), each)

    def test_failures_of_ssh_are_explained(self):
        self.assert_failed(self.launch("no-such-host.invalid\n", "true"), 125,
                           "host no-such-host.invalid: ssh failed: the name of the host is unknown", "[no-such-host.invalid] ssh: ")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            self.assert_failed(self.launch(f"node-a port={closed.getsockname()[1]}\n", "true"), 125,
                               "host node-a: ssh failed: no SSH server listens")
        self.client_config("other_key", "known")
        self.assert_failed(self.launch("node-a\n", "true"), 125, "host node-a: ssh failed: the host rejected the SSH key", "`ssh node-a true`")
        self.client_config("key", "none")
        self.assert_failed(self.launch("node-a\n", "true"), 125, "host node-a: ssh failed: the key of the host is not known")
        self.client_config("key", "known")
        self.assert_failed(self.launch("node-a\n", "true", options=("--agent", "/no/such/verbena")), 125,
                           "host node-a: the program `verbena` was not found there")
        self.assert_failed(self.launch("node-a\n", self.work / "missing"), 127, "host node-a: rank 0: ", "No such file or directory")


if __name__ == "__main__":
    unittest.main()
