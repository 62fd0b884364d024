# SPDX-License-Identifier: MIT
"""ibv_devices and ibv_devinfo show soft0 once, with its attributes."""
import ipaddress
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import foreign  # noqa: E402

# Attributes of the device that are equal on every host.
DEVICE = {
    "hca_id": "soft0", "transport": "InfiniBand (0)", "vendor_id": "0x25642", "vendor_part_id": "1",
    "phys_port_cnt": "1", "max_mr_size": "0xffffffffffffffff", "page_size_cap": "0xfffffffffffff000",
    "max_qp": "16368", "max_qp_wr": "16384", "max_sge": "30", "max_sge_rd": "30", "max_cq": "16384",
    "max_cqe": "4194303", "max_mr": "131072", "max_pd": "32768", "max_qp_rd_atom": "16",
    "max_qp_init_rd_atom": "16", "atomic_cap": "ATOMIC_HCA (1)", "max_pkeys": "1", "num_comp_vectors": "8",
    "completion timestamp_mask": "0x0000ffffffffffff", "hca_core_clock": "1000000kHZ",
}
PORT = {
    "state": "PORT_ACTIVE (4)", "max_mtu": "4096 (5)", "active_mtu": "4096 (5)", "sm_lid": "0", "port_lid": "0",
    "port_lmc": "0x00", "link_layer": "Ethernet", "max_msg_sz": "0x40000000", "gid_tbl_len": "64",
    "pkey_tbl_len": "1", "active_width": "4X (2)", "phys_state": "LINK_UP (5)",
}

# As an InfiniBand adapter. The LID depends on the host.
SUBNET = {
    "state": "PORT_ACTIVE (4)", "max_mtu": "4096 (5)", "active_mtu": "4096 (5)", "sm_lid": "1", "port_lmc": "0x00",
    "link_layer": "InfiniBand", "pkey_tbl_len": "8", "active_width": "4X (2)", "active_speed": "25.0 Gbps (32)",
    "phys_state": "LINK_UP (5)", "subnet_timeout": "18",
}
# Injected event of the device, and the resulting output of ibv_asyncwatch.
EVENTS = [
    ("port 1 down", "IBV_EVENT_PORT_ERR (10)", 1), ("port 1 up", "IBV_EVENT_PORT_ACTIVE (9)", 1),
    ("gid-change", "IBV_EVENT_GID_CHANGE (18)", 1), ("lid-change 9", "IBV_EVENT_LID_CHANGE (11)", 1),
    ("pkey-change", "IBV_EVENT_PKEY_CHANGE (12)", 1), ("sm-change", "IBV_EVENT_SM_CHANGE (13)", 1),
    ("client-reregister", "IBV_EVENT_CLIENT_REREGISTER (17)", 1),
    ("device-fatal", "IBV_EVENT_DEVICE_FATAL (8)", 0),
]


def fields(text):
    """Parses `name: value` lines; the first line of each name counts."""
    found = {}
    for line in text.splitlines():
        name, colon, value = line.strip().partition(":")
        if colon and value.strip():
            found.setdefault(name, value.strip())
    return found

ELASTIC = {"transport": "unspecified (4)", "vendor_id": "0x1d0f", "vendor_part_id": str(0xefa1), "max_srq": "0",
           "atomic_cap": "ATOMIC_NONE (0)", "link_layer": "Unspecified", "gid_tbl_len": "1", "port_lid": "0"}


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

    def test_devinfo_shows_an_infiniband_adapter(self):
        with foreign.Setting.also(VERBENA_SOFTDEV_PERSONA="infiniband"):
            done = foreign.run("ibv_devinfo", "-v", "-d", "soft0")
        self.assert_succeeded(done)
        device, port = re.split(r"^\s*port:\s+1$", done.output, maxsplit=1, flags=re.MULTILINE)
        self.assertEqual(SUBNET, {name: fields(port).get(name) for name in SUBNET}, done)
        self.assertIn(int(fields(port)["port_lid"]), range(2, 0xc000), done)
        gids = re.findall(r"^\s*GID\[\s*\d+\]:\s+([0-9a-f:]+)", port, flags=re.MULTILINE)
        self.assertEqual(gids[0], f"fe80:0000:0000:0000:{fields(device)['node_guid']}", done)
        self.assertEqual(len(gids), 2, done)

    def test_devinfo_shows_an_elastic_fabric_adapter(self):
        with foreign.Setting.also(VERBENA_SOFTDEV_PERSONA="efa"):
            done = foreign.run("ibv_devinfo", "-v", "-d", "soft0")
        self.assert_succeeded(done)
        device, port = re.split(r"^\s*port:\s+1$", done.output, maxsplit=1, flags=re.MULTILINE)
        self.assertEqual(ELASTIC, {name: {**fields(device), **fields(port)}.get(name) for name in ELASTIC}, done)
        gids = re.findall(r"^\s*GID\[\s*\d+\]:\s+([0-9a-f:]+)", port, flags=re.MULTILINE)
        self.assertEqual(gids, [f"fe80:0000:0000:0000:{fields(device)['node_guid']}"], done)

    def test_asyncwatch_prints_each_event(self):
        helper = foreign.Setting.libraries / "tests" / "libinject_event.so"
        commands = ";".join(command for command, _, _ in EVENTS)
        with foreign.Setting.also(preload=[helper], PROVOKE=commands):
            done = foreign.run("ibv_asyncwatch", "-d", "soft0")
        told = re.findall(r"event_type (\w+ \(\d+\)), port (\d+)", done.output)
        self.assertEqual(told, [(kind, str(port)) for _, kind, port in EVENTS], done)


if __name__ == "__main__":
    foreign.main()
