# SPDX-License-Identifier: MIT
"""If a server is killed during a measurement, its client reports an error and exits soon, and no resource remains."""
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]
import foreign  # noqa: E402

PROGRAMS = ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_atomic_bw")
# More iterations than the programs can complete before the kill.
ENDLESS = ("-n", 50_000_000)
SOON = 30  # seconds, for a busy machine; usually it takes milliseconds


class Talker:
    """A program whose output is available while it runs."""

    def __init__(self, *words):
        self.words = foreign.command("stdbuf", "-oL", *words)
        self.output = ""
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        with self.process.stdout as output:
            while piece := os.read(output.fileno(), 4096):
                self.output += piece.decode(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.end()

    def end(self, bound=foreign.BOUND):
        status = self.process.wait(bound)
        self.reader.join()
        return foreign.Finished(self.words, status, self.output)

    def processor_ticks(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def wait_for(self, pattern, what):
        foreign.wait_until(lambda: re.search(pattern, self.output) or self.process.poll() is not None, what)
        found = re.search(pattern, self.output)
        if not found:
            raise AssertionError(f"{what}: never\n{self.end()}")
        return found

    def slot(self):
        """Returns the slot of the process, which is in the top ten bits of its queue pair numbers if it is a large slot."""
        return int(self.wait_for(r"local address:.* QPN 0x([0-9a-f]+)", "its address").group(1), 16) >> 14


def socket_of(slot):
    """Returns the inode of the abstract socket of the process with this index, or None."""
    name = f"@verbena-soft0.{foreign.uid()}.{slot}"
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines():
        words = line.split()
        if words[-1] == name:
            return words[-2]
    return None


def files_in_shared_memory():
    return {name for name in os.listdir("/dev/shm") if "verbena" in name or "soft" in name}


class Kills(foreign.Case):
    def check(self, program):
        before = files_in_shared_memory()
        with foreign.reserved_port() as port:
            words = (program, "-d", "soft0", "-p", port, *ENDLESS)
            with Talker(*words) as server:
                foreign.wait_until(lambda: foreign.listens(port) or server.process.poll() is not None, "listening")
                with Talker(*words, "127.0.0.1") as client:
                    client.wait_for("#bytes", "the measurement begins")
                    ticks = client.processor_ticks()
                    foreign.wait_until(lambda: client.processor_ticks() > ticks + 5, "the client works")
                    slots = (server.slot(), client.slot())
                    sockets = [socket_of(slot) for slot in slots]
                    self.assertNotIn(None, sockets)
                    server.process.kill()
                    killed = time.monotonic()
                    done = client.end(SOON)
                    print(f"{program}: the client ended after {time.monotonic() - killed:.3f} s", flush=True)
                server.end()
        self.assertNotIn(done.status, (0, -9), done)
        self.assertRegex(done.output, r"(?s)Completion with error.*Failed status 12:")
        self.assertTrue(all(socket_of(slot) != socket for slot, socket in zip(slots, sockets)), done)
        self.assertEqual(files_in_shared_memory() - before, set())

    def test_clients_of_killed_servers_end(self):
        for index, program in enumerate(PROGRAMS):
            if foreign.Setting.runs(index):
                with self.subTest(program=program):
                    self.check(program)


if __name__ == "__main__":
    foreign.main()
