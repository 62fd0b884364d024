# SPDX-License-Identifier: MIT
"""One run of the virtual machine: starts QEMU, copies the output of the command, returns its exit status.

The two output streams of the guest arrive through virtio ports. A mark with the exit status ends each stream. After both
marks, the machine is killed. If it ends without marks, the kernel has panicked. QEMU is killed when this process ends.
"""
import ctypes
import dataclasses
import os
import pathlib
import secrets
import selectors
import signal
import socket
import subprocess
import tempfile
import time

import initrd
from kernels import VmError

TIMED_OUT = 124
BROKEN = 125   # the kernel panicked, or QEMU ended
CONSOLE_TAIL_LINES = 60
CONSOLE_BYTES = 1 << 20
PR_SET_PDEATHSIG = 1
# no_timer_check: on a busy host the first timer interrupts are late. The kernel would then panic because of the timer.
APPEND = ("console=ttyS0 loglevel=5 panic=-1 oops=panic reboot=t mitigations=off random.trust_cpu=on nowatchdog "
          "no_timer_check rdinit=/init net.ifnames=0")


@dataclasses.dataclass(frozen=True)
class Request:
    command: list
    cwd: pathlib.Path
    environment: dict
    devices: tuple = ("rxe",)
    writable: tuple = ()
    timeout_s: float = 600.0
    nodes_mib: tuple = (2048,)   # the memory of each NUMA node
    cpus: int = 2
    console: pathlib.Path | None = None   # file for the whole console output


class Interrupted(Exception):
    """A signal that ends the run; its number is the argument."""


class Stream:
    """An output stream of the command. Copies its data without the end mark."""

    def __init__(self, descriptor, token):
        self.descriptor = descriptor
        self.mark = b"\0" + token.encode() + b" "
        self.held = b""
        self.status = None
        self.open = True

    def feed(self, data):
        data = self.held + data
        place = data.find(self.mark)
        if place >= 0:
            self.held = data[place:]
            self.pass_on(data[:place])
            if self.held.endswith(b"\n"):
                self.status = int(self.held[len(self.mark):])
            return
        keep = next((size for size in range(min(len(self.mark) - 1, len(data)), 0, -1)
                     if self.mark.startswith(data[-size:])), 0)
        self.held = data[len(data) - keep:]
        self.pass_on(data[:len(data) - keep])

    def flush(self):
        """Returns the buffered output when no further mark can arrive."""
        self.pass_on(self.held)
        self.held = b""

    def pass_on(self, data):
        while data and self.open:
            try:
                data = data[os.write(self.descriptor, data):]
            except BrokenPipeError:
                raise Interrupted(signal.SIGPIPE) from None


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def numa_words(request):
    """Assigns processor p to node p modulo the number of nodes. With fewer processors than nodes, some nodes have none."""
    count = len(request.nodes_mib)
    if count == 1:
        return []
    words = []
    for node, mib in enumerate(request.nodes_mib):
        processors = "".join(f",cpus={number}" for number in range(node, request.cpus, count))
        words += ["-object", f"memory-backend-ram,id=node{node},size={mib}M",
                  "-numa", f"node,nodeid={node},memdev=node{node}{processors}"]
    return words


def qemu_command(kernel, request, initrd_file, ports):
    words = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-nic", "none",
             "-machine", "pc", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(request.cpus), "-m", str(sum(request.nodes_mib)),
             "-kernel", kernel.vmlinux, "-initrd", initrd_file, "-append", APPEND,
             "-chardev", f"socket,id=console,fd={ports['console']}", "-serial", "chardev:console",
             "-device", "virtio-serial-pci"]
    words += numa_words(request)
    for number, name in ((1, "out"), (2, "err")):
        words += ["-chardev", f"socket,id={name},fd={ports[name]}",
                  "-device", f"virtserialport,chardev={name},nr={number}"]
    shares = [("root", "/", ",readonly=on")]
    shares += [(f"writable{number}", folder, "") for number, folder in enumerate(request.writable)]
    for tag, path, more in shares:
        path = str(path).replace(",", ",,")
        words += ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{more}",
                  "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    return [str(word) for word in words]


class Machine:
    """A running QEMU with its three sockets. Threads: one thread at a time."""

    def __init__(self, kernel, request):
        self.request = request
        self.token = secrets.token_hex(16)
        self.console = b""
        self.deadline = time.monotonic() + request.timeout_s
        self.selector = selectors.DefaultSelector()
        self.streams = {"out": Stream(1, self.token), "err": Stream(2, self.token)}
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-vm-")
        try:
            self.start(kernel)
        except BaseException:
            self.folder.cleanup()
            raise

    def start(self, kernel):
        file = pathlib.Path(self.folder.name) / "initrd"
        file.write_bytes(initrd.build(kernel, self.request, self.token))
        theirs = {}
        for name in ("console", "out", "err"):
            ours, theirs[name] = socket.socketpair()
            ours.setblocking(False)
            self.selector.register(ours, selectors.EVENT_READ, name)
        ports = {name: end.fileno() for name, end in theirs.items()}
        try:
            self.qemu = subprocess.Popen(qemu_command(kernel, self.request, file, ports), stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
                                         pass_fds=ports.values(), preexec_fn=die_with_parent)
        except FileNotFoundError as missing:
            raise VmError("qemu-system-x86_64 is missing; scripts/dev/setup.sh vm installs it") from missing
        finally:
            for end in theirs.values():
                end.close()
        os.set_blocking(self.qemu.stderr.fileno(), False)
        self.selector.register(self.qemu.stderr, selectors.EVENT_READ, "console")

    def stop(self):
        self.qemu.kill()
        self.qemu.wait()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()
        self.folder.cleanup()
        if self.request.console is not None:
            self.request.console.write_bytes(self.console)

    def finished(self):
        return all(stream.status is not None for stream in self.streams.values())

    def run(self):
        """Copies output until the command ends. Returns its exit status, TIMED_OUT or BROKEN."""
        while not self.finished():
            left = self.deadline - time.monotonic()
            if left <= 0:
                return self.give_up(TIMED_OUT, f"no end after {self.request.timeout_s:g} s")
            if not self.selector.get_map():
                return self.give_up(BROKEN, f"the machine ended unexpectedly (QEMU: {self.qemu.wait()})")
            for key, _ in self.selector.select(left):
                self.receive(key)
        return self.streams["out"].status

    def receive(self, key):
        data = os.read(key.fd, 1 << 16)
        if not data:
            self.selector.unregister(key.fileobj)
            key.fileobj.close()
            return
        self.folder.cleanup()  # QEMU has read the RAM disk; after this, even kill -9 leaves no file
        if key.data == "console":
            self.console = (self.console + data)[-CONSOLE_BYTES:]
        else:
            self.streams[key.data].feed(data)

    def give_up(self, status, why):
        for stream in self.streams.values():
            stream.flush()
        lines = self.console.decode(errors="replace").replace("\r", "").splitlines()[-CONSOLE_TAIL_LINES:]
        text = f"vm: {why}; the end of its console:\n" + "".join(f"  {line}\n" for line in lines)
        os.write(2, text.encode(errors="replace"))
        return status


def interrupt(number, _frame):
    raise Interrupted(number)


def run(kernel, request):
    """Boots the machine, runs the command of the request and returns the exit status of the harness."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    machine = None
    try:
        machine = Machine(kernel, request)
        return machine.run()
    except Interrupted as interrupted:
        return 128 + int(interrupted.args[0])
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if machine is not None:
            machine.stop()
