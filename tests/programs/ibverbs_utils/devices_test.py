# SPDX-License-Identifier: MIT
"""ibv_devices and ibv_devinfo show soft0 as it is, once."""
import ipaddress
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import foreign  # noqa: E402

# What the device says of itself that is the same on every host.
DEVICE = {
    "hca_id": "soft0", "transport": "InfiniBand (0)", "vendor_id": "0x25642", "vendor_part_id": "1",
    "phys_port_cnt": "1", "max_mr_size": "0xffffffffffffffff", "page_size_cap": "0xfffffffffffff000",
    "max_qp": "16384", "max_qp_wr": "16384", "max_sge": "30", "max_sge_rd": "30", "max_cq": "16384",
    "max_cqe": "4194303", "max_mr": "131072", "max_pd": "32768", "max_qp_rd_atom": "16",
    "max_qp_init_rd_atom": "16", "atomic_cap": "ATOMIC_HCA (1)", "max_pkeys": "1", "num_comp_vectors": "8",
    "completion timestamp_mask": "0x0000ffffffffffff", "hca_core_clock": "1000000kHZ",
}
PORT = {
    "state": "PORT_ACTIVE (4)", "max_mtu": "4096 (5)", "active_mtu": "4096 (5)", "sm_lid": "0", "port_lid": "0",
    "port_lmc": "0x00", "link_layer": "Ethernet", "max_msg_sz": "0x40000000", "gid_tbl_len": "64",
    "pkey_tbl_len": "1", "active_width": "4X (2)", "phys_state": "LINK_UP (5)",
}


def fields(text):
    """`name: value` lines; the first of a name counts."""
    found = {}
    for line in text.splitlines():
        name, colon, value = line.strip().partition(":")
        if colon and value.strip():
            found.setdefault(name, value.strip())
    return found


class Devices(foreign.Case):
    def test_soft0_is_listed_once(self):
        done = foreign.run("ibv_devices")
        self.assert_succeeded(done)
        rows = [line.split() for line in done.output.splitlines()[2:]]
        self.assertEqual([row[0] for row in rows], ["soft0"], done)
        self.assertRegex(rows[0][1], "^[0-9a-f]{16}$")

    def test_devinfo_lists_the_device_by_name(self):
        done = foreign.run("ibv_devinfo", "-l")
        self.assert_succeeded(done)
        self.assertEqual(done.output.split(), ["1", "HCA", "found:", "soft0"])

    def test_an_unknown_device_is_not_found(self):
        done = foreign.run("ibv_devinfo", "-d", "soft1")
        self.assertNotEqual(done.status, 0, done)
        self.assertIn("IB device 'soft1' wasn't found", done.output)

    def test_devinfo_shows_device_and_port(self):
        done = foreign.run("ibv_devinfo", "-v", "-d", "soft0")
        self.assert_succeeded(done)
        device, port = re.split(r"^\s*port:\s+1$", done.output, maxsplit=1, flags=re.MULTILINE)
        self.assertEqual(DEVICE, {name: fields(device).get(name) for name in DEVICE}, done)
        self.assertEqual(PORT, {name: fields(port).get(name) for name in PORT}, done)
        for name in ("node_guid", "sys_image_guid"):
            self.assertRegex(fields(device)[name], "^([0-9a-f]{4}:){3}[0-9a-f]{4}$")

    def test_devinfo_shows_the_addresses_of_the_host(self):
        done = foreign.run("ibv_devinfo", "-v", "-d", "soft0")
        gids = re.findall(r"^\s*GID\[\s*(\d+)\]:\s+(\S+), (.*)$", done.output, flags=re.MULTILINE)
        self.assertEqual([int(index) for index, _, _ in gids], list(range(len(gids))), done)
        self.assertEqual({kind for _, _, kind in gids}, {"RoCE v2"}, done)
        addresses = [ipaddress.IPv6Address(gid) for _, gid, _ in gids]
        self.assertTrue(addresses[0].is_link_local, done)
        self.assertIn(ipaddress.IPv4Address("127.0.0.1"), [one.ipv4_mapped for one in addresses], done)
        self.assertEqual(len(set(addresses)), len(addresses), done)


if __name__ == "__main__":
    foreign.main()
