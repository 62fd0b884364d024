#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `verbena devinfo --json` with `ibv_devinfo -v`, field by field.

  compare_devinfo.py --device rxe0 --ours "build/dev/bin/verbena" --theirs "ibv_devinfo"

Both commands are split into words like shell commands, and this script appends their arguments. Every line of ibv_devinfo
must be known, every mandatory field must be present, and every value must be equal. Prints each difference. The exit
status is 0 if there is no difference, otherwise 1.
"""
import argparse
import collections
import ipaddress
import json
import re
import shlex
import subprocess
import sys

DEVICE_FLAGS = {0: "RESIZE_MAX_WR", 1: "BAD_PKEY_CNTR", 2: "BAD_QKEY_CNTR", 3: "RAW_MULTI", 4: "AUTO_PATH_MIG",
                5: "CHANGE_PHY_PORT", 6: "UD_AV_PORT_ENFORCE", 7: "CURR_QP_STATE_MOD", 8: "SHUTDOWN_PORT",
                9: "INIT_TYPE", 10: "PORT_ACTIVE_EVENT", 11: "SYS_IMAGE_GUID", 12: "RC_RNR_NAK_GEN", 13: "SRQ_RESIZE",
                14: "N_NOTIFY_CQ", 17: "MEM_WINDOW", 18: "UD_IP_CSUM", 20: "XRC", 21: "MEM_MGT_EXTENSIONS",
                23: "MEM_WINDOW_TYPE_2A", 24: "MEM_WINDOW_TYPE_2B", 25: "RC_IP_CSUM", 26: "RAW_IP_CSUM",
                29: "MANAGED_FLOW_STEERING"}
DEVICE_FLAGS_EX = {34: "RAW_SCATTER_FCS", 36: "PCI_WRITE_END_PADDING"}
ODP_GENERAL = {0: "ODP_SUPPORT", 1: "ODP_SUPPORT_IMPLICIT"}
ODP_TRANSPORT = {0: "SUPPORT_SEND", 1: "SUPPORT_RECV", 2: "SUPPORT_WRITE", 3: "SUPPORT_READ", 4: "SUPPORT_ATOMIC",
                 5: "SUPPORT_SRQ"}
QUEUE_PAIRS = {8: "SUPPORT_RAW_PACKET", 4: "SUPPORT_UD"}
RAW_PACKET = {0: "C-VLAN stripping offload", 1: "Scatter FCS offload", 2: "IP csum offload", 3: "Delay drop"}
TAG_MATCHING = {0: "IBV_TM_CAP_RC"}

LIMITS = ("page_size_cap max_qp max_qp_wr max_sge max_sge_rd max_cq max_cqe max_mr max_pd max_qp_rd_atom max_ee_rd_atom "
          "max_res_rd_atom max_qp_init_rd_atom max_ee_init_rd_atom max_ee max_rdd max_mw max_raw_ipv6_qp max_raw_ethy_qp "
          "max_mcast_grp max_mcast_qp_attach max_total_mcast_qp_attach max_ah max_fmr max_map_per_fmr max_srq max_srq_wr "
          "max_srq_sge max_pkeys local_ca_ack_delay").split()
# Fields that ibv_devinfo omits if they are empty; phys_state only for InfiniBand and RoCE. All other fields are mandatory.
CONDITIONAL = {"fw_ver", "board_id", "max_map_per_fmr", "max_srq_wr", "max_srq_sge", "raw packet caps",
               "tso_caps/supported_qp", "rss_caps/supported_qp", "packet_pacing_caps/supported_qp", "max_rndv_hdr_size",
               "max_num_tags", "max_ops", "tm/max_sge", "tm/flags", "max_cq_count", "max_cq_period",
               "maximum available device memory"}


def named_bits(mask, names, within=~0):
    """Returns the text that ibv_devinfo prints for a mask: the known names, and the other bits as a number."""
    mask &= within
    known = [name for bit, name in names.items() if mask >> bit & 1]
    unknown = mask & ~sum(1 << bit for bit in names)
    return known + ([f"Unknown flags: 0x{unknown:X}"] if unknown else [])


def device_fields(ours):
    """Returns the expected output of ibv_devinfo for a device, from our JSON. Lists are the lines under a key."""
    limits = ours["limits"]
    fields = {key: limits[key] for key in LIMITS}
    fields |= {key: ours[key] for key in ("fw_ver", "node_guid", "sys_image_guid", "vendor_id", "vendor_part_id", "hw_ver",
                                          "board_id", "phys_port_cnt", "max_wq_type_rq", "num_comp_vectors")}
    fields["hca_id"] = ours["name"]
    fields["transport"] = ours["transport"]["number"]
    fields["max_mr_size"] = limits["max_mr_size_bytes"]
    fields["atomic_cap"] = ours["atomic_cap"]["number"]
    fields["device_cap_flags"] = ours["device_cap_flags"]["mask"]
    fields["device_cap_flags/"] = named_bits(ours["device_cap_flags"]["mask"], DEVICE_FLAGS)
    fields["device_cap_flags_ex"] = ours["device_cap_flags_ex"]["mask"]
    fields["device_cap_flags_ex/"] = named_bits(ours["device_cap_flags_ex"]["mask"], DEVICE_FLAGS_EX, 0xffffffff << 32)
    odp = ours["odp_caps"]
    fields["general_odp_caps/"] = named_bits(odp["general_odp_caps"]["mask"], ODP_GENERAL)
    for transport in ("rc", "uc", "ud", "xrc"):
        key = f"{transport}_odp_caps"
        fields[f"{key}/"] = named_bits(odp[key]["mask"], ODP_TRANSPORT) or ["NO SUPPORT"]
    fields["completion timestamp_mask"] = ours["completion_timestamp_mask"]
    clock = ours["hca_core_clock_hz"]
    fields["hca_core_clock"] = clock and clock // 1000
    fields["raw packet caps/"] = named_bits(ours["raw_packet_caps"]["mask"], RAW_PACKET)
    fields["maximum available device memory"] = ours["max_dm_size_bytes"]
    fields |= group_fields(ours)
    return fields


def group_fields(ours):
    """Returns the expected lines for the groups of capabilities."""
    tso, rss, pacing, tags, moderation = (
        ours[key] for key in ("tso_caps", "rss_caps", "packet_pacing_caps", "tm_caps", "cq_mod_caps"))
    fields = {f"{key}/supported_qp/": named_bits(ours[key]["supported_qpts"]["mask"], QUEUE_PAIRS)
              for key in ("tso_caps", "rss_caps", "packet_pacing_caps")}
    fields["max_tso"] = tso["max_tso_bytes"]
    fields |= {key: rss[key] for key in ("max_rwq_indirection_tables", "max_rwq_indirection_table_size")}
    fields |= {key: rss[key]["mask"] for key in ("rx_hash_function", "rx_hash_fields_mask")}
    fields |= {key: pacing[f"{key}_bits_per_second"] // 1000 for key in ("qp_rate_limit_min", "qp_rate_limit_max")}
    fields["max_rndv_hdr_size"] = tags["max_rndv_hdr_size_bytes"]
    fields |= {key: tags[key] for key in ("max_num_tags", "max_ops")}
    fields["tm/max_sge"] = tags["max_sge"]
    fields["tm/flags/"] = named_bits(tags["flags"]["mask"], TAG_MATCHING)
    fields["max_cq_count"] = moderation["max_cq_count"]
    fields["max_cq_period"] = round(moderation["max_cq_period_seconds"] * 1e6)
    return fields


def port_fields(ours):
    """Returns the expected output of ibv_devinfo for a port."""
    fields = {key: ours[key] for key in ("port", "max_mtu", "active_mtu", "sm_lid", "max_vl_num", "bad_pkey_cntr",
                                         "qkey_viol_cntr", "sm_sl", "pkey_tbl_len", "gid_tbl_len", "subnet_timeout",
                                         "init_type_reply")}
    fields |= {key: ours[key]["number"] for key in ("state", "active_width", "active_speed", "phys_state")}
    fields |= {key: ours[key]["mask"] for key in ("port_cap_flags", "port_cap_flags2")}
    fields["port_lid"] = ours["lid"]
    fields["port_lmc"] = ours["lmc"]
    fields["link_layer"] = ours["link_layer"]["name"].lower()
    fields["max_msg_sz"] = ours["max_msg_sz_bytes"]
    fields["GID/"] = [(gid["index"], int(ipaddress.IPv6Address(gid["gid"])), gid["type"]["name"]) for gid in ours["gids"]
                      if int(ipaddress.IPv6Address(gid["gid"])) & (1 << 64) - 1]  # it prints no others
    return fields


class Theirs:
    """Returns ibv_devinfo's text as fields with ibv_devinfo's names: one dictionary for the device, one for each port."""

    def __init__(self, text):
        self.device = {}
        self.ports = []
        self.strange = []
        self.group = None   # the key of the last line that ended in a colon
        self.list = None    # where lines of names go
        for line in text.splitlines():
            if line.strip():
                self.read(line)

    def fields(self):
        return self.ports[-1] if self.ports else self.device

    def read(self, line):
        depth = len(line) - len(line.lstrip("\t"))
        text = line.strip()
        if depth == 5:
            if self.list is None:
                self.strange.append(line)
            else:
                self.fields()[self.list].append(text)
            return
        gid = re.fullmatch(r"GID\[ *(\d+)\]:\s+([0-9a-f:.]+)(?:, (.+))?", text)
        pair = re.fullmatch(r"([^:]+):\s*(.*)", text)
        if gid:
            row = (int(gid[1]), int(ipaddress.IPv6Address(gid[2])), gid[3] or "InfiniBand")
            self.fields().setdefault("GID/", []).append(row)
        elif text == "tag matching not supported":
            self.device["max_num_tags"] = 0
        elif text == "completion_timestamp_mask not supported":
            self.device["completion timestamp_mask"] = 0
        elif text == "core clock not supported":
            self.device["hca_core_clock"] = None
        elif pair:
            self.read_pair(depth, pair[1], pair[2])
        else:
            self.strange.append(line)

    def read_pair(self, depth, key, value):
        if key == "port" and depth == 2:
            self.ports.append({})
        if key == "max_num_tags":
            self.group = "tm"
        if self.group == "tm" and key in ("max_sge", "flags"):
            key = f"tm/{key}"
        if key == "supported_qp":
            key = f"{self.group}/{key}"
        if value:
            self.fields()[key] = self.read_value(key, value)
        elif key in ("tso_caps", "rss_caps", "packet_pacing_caps", "cq moderation caps"):
            self.group = key
            self.list = None
            return
        self.list = None
        if not value or key in ("device_cap_flags", "device_cap_flags_ex"):
            self.list = f"{key}/"
            self.fields()[self.list] = []

    @staticmethod
    def read_value(key, value):
        if key in ("hca_id", "fw_ver", "node_guid", "sys_image_guid", "board_id"):
            return value
        if key == "link_layer":
            return value.lower()
        number = re.search(r"\((-?\d+)\)$", value) or re.fullmatch(r"(-?\d+|0[xX][0-9a-fA-F]+)(?: ?(?:kHZ|kbps|us|Bytes))?", value)
        return int(number[1], 0) if number else value


def compare(what, ours, theirs):
    """Returns the differences between two sets of fields, as lines."""
    lines = []
    for key, value in theirs.items():
        if key not in ours:
            lines.append(f"{what}: {key}: we have no such field (theirs: {value!r})")
        elif ours[key] != value:
            lines.append(f"{what}: {key}: ours {ours[key]!r}, theirs {value!r}")
    for key, value in ours.items():
        stem = key.rstrip("/")
        may_miss = stem == "phys_state" or (not value and (stem in CONDITIONAL or key == "GID/"))
        if key not in theirs and not may_miss:
            lines.append(f"{what}: {key}: they say nothing (ours: {value!r})")
    return lines


def without_gid_types(fields):
    return {**fields, "GID/": [row[:2] for row in fields.get("GID/", [])]}


def differences(ours, text):
    """Returns one line for each difference between the JSON of a device and ibv_devinfo's text."""
    theirs = Theirs(text)
    lines = [f"a line that is not understood: {line!r}" for line in theirs.strange]
    lines += compare("device", device_fields(ours), theirs.device)
    if len(ours["ports"]) != len(theirs.ports):
        lines.append(f"ports: ours {len(ours['ports'])}, theirs {len(theirs.ports)}")
    for our_port, their_port in zip(ours["ports"], theirs.ports):
        fields = port_fields(our_port)
        if ours["transport"]["name"] == "iWARP":
            # ibv_devinfo reads sysfs, which shows a GID without a type as "IB/RoCE v1"; verbena calls the verb.
            fields, their_port = without_gid_types(fields), without_gid_types(their_port)
        lines += compare(f"port {our_port['port']}", fields, their_port)
    return lines


def output_of(command, *arguments):
    done = subprocess.run([*shlex.split(command), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          timeout=60, check=False)
    if done.returncode != 0:
        sys.exit(f"compare_devinfo: {command} {' '.join(arguments)} ended with {done.returncode}")
    return done.stdout.decode()


def main():
    parser = argparse.ArgumentParser(description="Compares `verbena devinfo --json` with `ibv_devinfo -v`.")
    parser.add_argument("--device", required=True)
    parser.add_argument("--ours", required=True, help="the command that is `verbena`")
    parser.add_argument("--theirs", default="ibv_devinfo", help="the command that is `ibv_devinfo`")
    options = parser.parse_args()
    ours = json.loads(output_of(options.ours, "devinfo", options.device, "--json"))["devices"][0]
    text = output_of(options.theirs, "-v", "-d", options.device)
    found = differences(ours, text)
    for line in found:
        print(line)
    fields = collections.Counter(line.split(":")[0].strip() for line in text.splitlines() if ":" in line)
    if not found:
        print(f"{options.device}: {sum(fields.values())} lines of ibv_devinfo say the same")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
