# SPDX-License-Identifier: MIT
"""Programs that read the files of an adapter: ibstatus of infiniband-diags, shell loops, and Python."""
import ipaddress
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import foreign  # noqa: E402

# As the scripts of vendors (show_gids, ibdev2netdev) list the GIDs.
SHOW_GIDS = """
for device in $(ls /sys/class/infiniband/); do
  for port in $(ls /sys/class/infiniband/$device/ports/); do
    for index in $(ls /sys/class/infiniband/$device/ports/$port/gids/ | sort -n | head -12); do
      gid=$(cat /sys/class/infiniband/$device/ports/$port/gids/$index)
      [ "$gid" = 0000:0000:0000:0000:0000:0000:0000:0000 ] && continue
      kind=$(cat /sys/class/infiniband/$device/ports/$port/gid_attrs/types/$index 2>/dev/null)
      interface=$(cat /sys/class/infiniband/$device/ports/$port/gid_attrs/ndevs/$index 2>/dev/null)
      echo "$device $port $index $gid $interface $kind"
    done
  done
done
"""
# As launchers and container plug-ins look for device nodes.
FIND_NODES = """
for folder in /sys/class/infiniband_verbs/uverbs*; do
  [ -e $folder/ibdev ] || continue
  node=/dev/infiniband/${folder##*/}
  [ -c $node ] && [ -r $node ] && [ -w $node ] && echo "$(cat $folder/ibdev) $node"
done
"""
WALK = """
import os
base = "/sys/class/infiniband/soft0"
print(os.path.realpath(base))
for folder, _, names in sorted(os.walk(base + "/ports")):
    for name in sorted(names):
        path = os.path.join(folder, name)
        try:
            print(path[len(base) + 1:], open(path).read().strip())
        except OSError as failure:
            print(path[len(base) + 1:], failure.strerror)
"""
STATUS = {"base lid": "0x0", "sm lid": "0x0", "state": "4: ACTIVE", "phys state": "5: LinkUp", "link_layer": "Ethernet"}
SUBNET = {"sm lid": "0x1", "state": "4: ACTIVE", "phys state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)",
          "link_layer": "InfiniBand"}


def grouped(gid):
    """Returns a GID of ibv_devinfo as the kernel prints it."""
    return ipaddress.IPv6Address(gid).exploded


class Files(foreign.Case):
    # A program that links no libibverbs gets the drop-in only by LD_PRELOAD, as `verbena run` has it.
    def run_script(self, *words, **variables):
        preload = [foreign.Setting.libraries / "dropin" / "libibverbs.so.1"] if foreign.Setting.way == "drop-in" else []
        with foreign.Setting.also(preload=preload, **variables):
            done = foreign.run(*words)
        self.assert_succeeded(done)
        return done

    def status(self, *words, **variables):
        done = self.run_script("ibstatus", *words, **variables)
        self.assertIn("device 'soft0' port 1 status", done.output)
        return dict(re.findall(r"^\t([a-z _]+?):\s+(.*?)\s*$", done.output, re.MULTILINE)), done

    def test_ibstatus_shows_the_port(self):
        for words in ((), ("soft0",), ("soft0:1",)):
            found, done = self.status(*words)
            self.assertEqual(STATUS, {name: found.get(name) for name in STATUS}, done)
            self.assertRegex(found["default gid"], "^fe80:(0000:){3}([0-9a-f]{4}:){3}[0-9a-f]{4}$")

    def test_ibstatus_shows_an_infiniband_port(self):
        found, done = self.status(VERBENA_SOFTDEV_PERSONA="infiniband")
        self.assertEqual(SUBNET, {name: found.get(name) for name in SUBNET}, done)
        self.assertIn(int(found["base lid"], 16), range(2, 0xc000), done)

    def test_ibstatus_shows_a_port_that_is_down(self):
        found, done = self.status(VERBENA_SOFTDEV_INJECT="port 1 down")
        self.assertEqual((found["state"], found["phys state"]), ("1: DOWN", "3: Disabled"), done)

    def test_shell_lists_the_gids_of_ibv_devinfo(self):
        expected = re.findall(r"GID\[\s*\d+\]:\s+(\S+), RoCE v2", foreign.run("ibv_devinfo", "-v", "-d", "soft0").output)
        for shell in ("sh", "bash"):
            done = self.run_script(shell, "-c", SHOW_GIDS)
            rows = [line.split(maxsplit=5) for line in done.output.splitlines()]
            self.assertEqual([grouped(gid) for gid in expected][:12], [row[3] for row in rows], done)
            self.assertEqual({(row[0], row[1], row[5]) for row in rows}, {("soft0", "1", "RoCE v2")}, done)
            self.assertIn("lo", [row[4] for row in rows], done)

    def test_shell_finds_the_node_of_the_device(self):
        for shell in ("sh", "bash"):
            done = self.run_script(shell, "-c", FIND_NODES)
            self.assertEqual(done.output, "soft0 /dev/infiniband/uverbs9999\n", done)

    def test_python_walks_all_files(self):
        done = self.run_script("/usr/bin/python3", "-c", WALK)
        lines = done.output.splitlines()
        self.assertEqual(lines[0], "/sys/devices/virtual/infiniband/soft0", done)
        self.assertIn("ports/1/link_layer Ethernet", lines)
        self.assertIn("ports/1/gid_attrs/types/0 RoCE v2", lines)
        self.assertIn("ports/1/gid_attrs/types/63 Invalid argument", lines)
        self.assertIn("ports/1/gids/63 0000:0000:0000:0000:0000:0000:0000:0000", lines)

    def test_listing_is_silent(self):
        done = self.run_script("ls", "-lR", "/sys/class/infiniband", "/dev/infiniband")
        self.assertNotIn("ls:", done.output)
        self.assertIn("soft0 -> ../../devices/virtual/infiniband/soft0", done.output)

    def test_off_hides_the_files(self):
        with foreign.Setting.also(VERBENA_SOFTDEV_SYSFS="off"):
            done = foreign.run("ls", "/sys/class/infiniband/soft0")
        self.assertNotEqual(done.status, 0, done)

    def test_programs_leave_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder).chmod(0o777)
            self.run_script("ibstatus", TMPDIR=folder)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


if __name__ == "__main__":
    foreign.main()
