#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes golden_answers.inc from captures of the kernel's rxe: golden_answers.py CAPTURE.pcap... > golden_answers.inc

From each capture, the script takes the RC packets of the first connection, at most 100: the requests of 10.0.0.1 and the
responses of 10.0.0.2. golden_packets.py describes the captures. In loss_*, netem dropped packets before tcpdump saw them.
"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import golden_packets  # noqa: E402

MOST = 100
ANSWERS = range(0x0d, 0x13)


def rows_of(capture):
    """Yields (is_answer, fields) of the first connection."""
    requester = b"\x0a\0\0\x01"
    responder_qpn = requester_qpn = None
    for ip in golden_packets.packets_of(capture):
        fields = golden_packets.fields_of(ip)
        if fields is None or fields["opcode"] >> 5 != 0:
            continue
        is_answer = fields["opcode"] in ANSWERS
        if is_answer == (ip[12:16] == requester):
            continue  # the other direction
        if not is_answer:
            responder_qpn = responder_qpn or fields["destination_qpn"]
            if fields["destination_qpn"] != responder_qpn:
                continue
        else:
            requester_qpn = requester_qpn or fields["destination_qpn"]
            if fields["destination_qpn"] != requester_qpn:
                continue
        yield is_answer, fields


def main(captures):
    print("// SPDX-License-Identifier: MIT\n// Made by golden_answers.py: requests to the kernel's rxe, and its answers.")
    for capture in captures:
        rows = list(rows_of(capture))[:MOST]
        bases = {}  # the lowest address of each key
        for _, fields in rows:
            if fields["address"]:
                bases[fields["key"]] = min(bases.get(fields["key"], fields["address"]), fields["address"])
        for is_answer, fields in rows:
            fields["offset"] = fields["address"] - bases.get(fields["key"], 0)
            names = ("opcode", "psn", "ack_requested", "syndrome", "msn", "offset", "length", "payload_bytes", "swap_or_add",
                     "compare", "original")
            print(f'{{"{pathlib.Path(capture).stem}", {"true" if is_answer else "false"}, '
                  + ", ".join(hex(fields[name]) if name != "ack_requested" else ("true" if fields[name] else "false")
                              for name in names) + "},")


if __name__ == "__main__":
    main(sys.argv[1:])
