# SPDX-License-Identifier: MIT
"""mpirun, and `verbena launch --hosts`, start ranks on two hosts, which are namespaces of the network, the host name and the mounts
with a veth pair between them. Arguments: root|other, the software device, and programs. The launchers start their daemon by a script
that enters the other host, instead of by ssh. The hosts do not resolve each other's IPv4 addresses by name, and their own name is a
loopback address, as in Debian. The first interface of both has the same address, as bridges of containers often have. The ranks of the
first host reach the store at this address."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import hosts_test as hosts  # from the folder of this file

BOUND = 120  # seconds; only a program that hangs takes longer
FIRST, SECOND = hosts.SERVER, hosts.CLIENT
SAME_ADDRESS = "172.17.0.1"
NAMESPACES = ("--net", "--uts", "--mount")
HOSTS_FILE = f"127.0.0.1 localhost\n127.0.1.1 {{own}}\n{hosts.SERVER_IPV6} first\n{hosts.CLIENT_IPV6} second\n"
IPV6_ONLY = ("--mca", "oob_tcp_disable_ipv4_family", 1, "--mca", "oob_tcp_disable_ipv6_family", 0)


class Host(hosts.Host):
    """Namespaces of a host with its own name."""

    def inside(self, *words):
        return ("nsenter", f"--target={self.pid()}", "--user", *NAMESPACES, "--preserve-credentials", *words)

    def within_user_namespace(self):
        """Returns the start of a command line for a process that is in the user namespace already."""
        return f"nsenter --target={self.pid()} {' '.join(NAMESPACES)}"


class Job:
    """The two hosts, and a folder with the programs, which the user of the test can read."""

    def __init__(self, folder):
        self.folder = folder
        self.hosts = [Host("unshare", "--user", "--map-root-user", *NAMESPACES)]
        self.hosts.append(Host(*self.hosts[0].inside("unshare", *NAMESPACES)))
        first, second = self.hosts
        for host, name in ((first, "node-a"), (second, "node-b")):
            table = folder / name
            table.write_text(HOSTS_FILE.format(own=name))
            self.on(host, "hostname", name)
            self.on(host, "mount", "--bind", table, "/etc/hosts")
            for command in ("link set lo up", f"address add {SAME_ADDRESS}/32 dev lo"):
                self.on(host, "ip", *command.split())
        self.on(first, "ip", *f"link add v0 type veth peer name v1 netns {second.pid()}".split())
        for host, device, address, ipv6 in ((first, "v0", FIRST, hosts.SERVER_IPV6), (second, "v1", SECOND, hosts.CLIENT_IPV6)):
            for command in (f"address add {address}/24 dev {device}", f"address add {ipv6}/64 dev {device} nodad",
                            f"link set {device} up"):
                self.on(host, "ip", *command.split())
        self.agent = folder / "agent"
        # Arguments of ssh: options, the host, and words of a command line.
        self.agent.write_text("#!/bin/sh\nwhile true; do case $1 in -*) shift ;; *) break ;; esac; done\nhost=$1\nshift\n"
                              f"case $host in\n{FIRST} | first) enter='{first.within_user_namespace()}' ;;\n"
                              f"{SECOND} | second) enter='{second.within_user_namespace()}' ;;\n*) exit 1 ;;\nesac\n"
                              "exec $enter -- sh -c \"$*\"\n")
        self.agent.chmod(0o755)
        self.ssh = folder / "ssh"
        # The agent passes the command of `verbena launch` on. SSH_CONNECTION has the address of the launcher.
        self.ssh.write_text("#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\n"
                            f"export SSH_CONNECTION=\"{FIRST} 1 $1 22\"\nexec {self.agent} \"$@\"\n")
        self.ssh.chmod(0o755)
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.scratch.chmod(0o777)

    @staticmethod
    def on(host, *words):
        done = hosts.foreign.run(*host.inside(*words))
        assert done.status == 0, done

    def run(self, program, *options, names=(FIRST, SECOND)):
        """Runs ranks 0 and 1 on the first host, 2 and 3 on the second one."""
        return self.start("mpirun.openmpi", "--allow-run-as-root", "--tag-output", "--bind-to", "none",
                          "--mca", "plm_rsh_agent", self.agent, "--mca", "oob_tcp_if_include", "v0,v1",
                          *(word for name in self.variables() for word in ("-x", name)),
                          "--host", ",".join(f"{name}:2" for name in names), "-n", 4, *options, self.folder / program)

    def launch(self, program):
        """Runs the same ranks by `verbena launch`."""
        hosts_file = self.folder / "hosts"
        hosts_file.write_text(f"{FIRST} slots=2\n{SECOND} slots=2\n")
        return self.start(self.folder / "verbena", "launch", "--hosts", hosts_file, "--ssh", self.ssh, "-x", "VERBENA_SOFTDEV",
                          "--", self.folder / program)

    def variables(self):
        return {"VERBENA_SOFTDEV": "only", "VERBENA_SOFTDEV_WIRE": "on",
                "VERBENA_SOFTDEV_LIBRARY": self.folder / "libverbena-soft.so.0"}

    def start(self, *words):
        """Runs a launcher on the first host."""
        variables = (f"{name}={value}" for name, value in self.variables().items())
        command = hosts.foreign.command(*self.hosts[0].inside("env", "-u", "LD_LIBRARY_PATH", f"TMPDIR={self.scratch}",
                                                              f"HOME={self.scratch}", *variables, *words))
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder,
                              timeout=BOUND, check=False)
        return hosts.foreign.Finished(list(map(str, command)), done.returncode, done.stdout.decode(errors="replace"))

    def end(self):
        for host in reversed(self.hosts):
            host.end()


class Mpirun(hosts.foreign.Case):
    job = None

    def test_packets_between_the_hosts_cross_the_network(self):
        between, within = hosts.Tap(self.job.hosts[0], "v0"), hosts.Tap(self.job.hosts[0], "lo")
        done = self.job.run("group")
        flows, local = between.flows(), within.flows()
        self.assert_succeeded(done)
        self.assertRegex(done.output, "barrier of 4 ranks, dissemination")
        ends = {(flow[0][-1], flow[1][-1]) for flow in flows}
        self.assertEqual(ends, {(1, 2), (2, 1)}, "both hosts send packets to each other")
        senders = {flow[0][-1]: set() for flow in flows}
        for source, _, port in flows:
            senders[source[-1]].add(port)
        self.assertEqual({host: len(ports) for host, ports in senders.items()}, {1: 2, 2: 2}, "each rank sends packets")
        self.assertEqual(local, {}, "ranks on one host use shared memory")

    def test_other_programs_succeed(self):
        for program, expected in (("sort", "numbers on 4 ranks in"), ("training", "60 steps on 4 ranks"),
                                  ("batches", "4 ranks, .*equal in both runs")):
            with self.subTest(program=program):
                done = self.job.run(program)
                self.assert_succeeded(done)
                self.assertRegex(done.output, expected)

    def test_ranks_connect_on_first_use(self):
        done = self.job.run("mpirun_rank")
        self.assert_succeeded(done)
        self.assertEqual(sorted(re.findall(r"rank (\d): sum 10\b", done.output)), ["0", "1", "2", "3"], done)

    def test_verbena_launch_starts_ranks_on_both_hosts(self):
        done = self.job.launch("training")
        self.assert_succeeded(done)
        self.assertIn("60 steps on 4 ranks", done.output)

    def test_hosts_have_only_ipv6(self):
        addresses = [*zip(self.job.hosts, (f"{FIRST}/24 dev v0", f"{SECOND}/24 dev v1")),
                     *((host, f"{SAME_ADDRESS}/32 dev lo") for host in self.job.hosts)]
        for host, address in addresses:
            self.job.on(host, "ip", "address", "delete", *address.split())
        try:
            done = self.job.run("training", *IPV6_ONLY, names=("first", "second"))
        finally:
            for host, address in addresses:
                self.job.on(host, "ip", "address", "add", *address.split())
        self.assert_succeeded(done)
        self.assertIn("60 steps on 4 ranks", done.output)


def main():
    if shutil.which("mpirun.openmpi") is None or not hosts.places.own_hosts():
        print("NOT RUN: this place has no mpirun, or gives no user namespace with network namespaces")
        sys.exit(hosts.foreign.NOT_RUN)
    _, user, device, *programs = sys.argv
    if user == "root" and os.geteuid() != 0:
        print("NOT RUN: these tests need root")
        sys.exit(hosts.foreign.NOT_RUN)
    hosts.foreign.Setting.user = user
    with tempfile.TemporaryDirectory(prefix="verbena-mpirun-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        # Copies, because the other user may lack access to the build folder.
        for each in (device, *programs):
            shutil.copy(each, folder / (pathlib.Path(each).name if each != device else "libverbena-soft.so.0"))
        Mpirun.job = Job(folder)
        try:
            unittest.main(argv=sys.argv[:1], verbosity=2)
        finally:
            Mpirun.job.end()


if __name__ == "__main__":
    main()
