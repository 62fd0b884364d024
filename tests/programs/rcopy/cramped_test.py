# SPDX-License-Identifier: MIT
"""rcopy with small resources: a full file system, a /dev/shm of 64 MiB, 64 KiB of locked memory."""
import pathlib
import resource
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "scripts")]
import places  # noqa: E402
from harness import MIB, Case, rcopy  # noqa: E402

MOUNT = 'mount -t tmpfs -o size=$0 tmpfs "$1" || exit 99; shift; exec "$@"'


def inside(size, place):
    """Returns a command prefix that mounts an empty file system of `size` at `place` for the command."""
    return [*UNSHARE, "sh", "-c", MOUNT, size, str(place)]


UNSHARE = places.own_mounts()


@unittest.skipIf(UNSHARE is None, "mount namespaces are not allowed here")
class Cramped(Case):
    def test_put_to_full_file_system_fails_and_keeps_the_old_file(self):
        small = self.file("small.bin", 3 * MIB)
        large = self.file("large.bin", 8 * MIB)
        server = self.serve(before=inside("6m", self.served))
        self.assert_done(rcopy("put", small, server.place, "--name", "target"))
        self.assert_refused(rcopy("put", large, server.place, "--name", "target"), "No space left on device")
        self.assert_refused(rcopy("put", large, server.place, "--name", "other"), "No space left on device")
        again = self.work / "again.bin"
        self.assert_done(rcopy("get", "target", server.place, "-o", again))
        self.assertEqual(again.read_bytes(), small.read_bytes())
        self.assert_refused(rcopy("get", "other", server.place, "-o", again), "No such file")
        self.assert_done(rcopy("put", small, server.place, "--name", "target"))  # no partial file uses the space

    def test_get_to_full_file_system_fails(self):
        large = self.served / "large.bin"
        large.write_bytes(self.file("large.bin", 8 * MIB).read_bytes())
        server = self.serve()
        place = self.work / "small"
        place.mkdir()
        got = rcopy("get", "large.bin", server.place, "-o", place / "got.bin", before=inside("6m", place))
        self.assert_refused(got, "No space left on device")
        self.assert_serves(server)

    def test_put_succeeds_with_small_dev_shm_and_locked_memory(self):
        new = self.file("new.bin", 100 * MIB)
        server = self.serve(before=inside("64m", "/dev/shm"), preexec_fn=little_locked_memory)
        done = rcopy("put", new, server.place, before=inside("64m", "/dev/shm"), preexec_fn=little_locked_memory)
        self.assert_done(done)
        self.assertEqual((self.served / "new.bin").read_bytes(), new.read_bytes())


def little_locked_memory():
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))


if __name__ == "__main__":
    unittest.main()
