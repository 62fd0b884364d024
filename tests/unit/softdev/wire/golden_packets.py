#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes golden_packets.inc and golden_ipv6_packets.inc from captures of the kernel's rxe over IPv4 and over IPv6:
golden_packets.py CAPTURE.pcap... > golden_packets.inc

From each capture, the script takes the first packet of each kind (opcode, pad count, kind of syndrome). It decodes the
fields itself, independently of the codec. The captures were made with tcpdump in the virtual machine (./dev vm). The
traffic was that of perftest and the programs of librdmacm over rxe.
"""
import pathlib
import struct
import sys
import zlib

ROCE_PORT = 4791


def packets_of(capture):
    """Yields the IP packets of a capture without Ethernet padding."""
    data = pathlib.Path(capture).read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack_from(order + "I", data, at + 8)[0]
        frame = data[at + 16:at + 16 + length]
        at += 16 + length
        ip = frame[14:]
        if frame[12:14] == b"\x08\0" and ip[9] == 17:
            yield ip[:struct.unpack_from(">H", ip, 2)[0]]
        if frame[12:14] == b"\x86\xdd" and ip[6] == 17:
            yield ip[:40 + struct.unpack_from(">H", ip, 4)[0]]


def masked(ip):
    """Returns the bytes that the ICRC covers, with ones in place of the fields that routers can change."""
    out = bytearray(ip[:-4])
    if ip[0] >> 4 == 4:
        at = 20
        for each in (1, 8, 10, 11):
            out[each] = 0xff
    else:
        at = 40
        out[0] |= 0x0f
        for each in (1, 2, 3, 7):
            out[each] = 0xff
    for each in (6, 7, 8 + 4):  # the UDP checksum, FECN and BECN
        out[at + each] = 0xff
    return out


def fields_of(ip):
    """Returns the fields of a packet in the order of golden_packet."""
    ipv4 = ip[0] >> 4 == 4
    udp = ip[20 if ipv4 else 40:]
    if struct.unpack_from(">H", udp, 2)[0] != ROCE_PORT:
        return None
    bth = udp[8:]
    opcode, pad = bth[0], bth[1] >> 4 & 3
    operation = opcode & 0x1f
    at = 12
    fields = {"qkey": 0, "source_qpn": 0, "address": 0, "key": 0, "length": 0, "swap_or_add": 0, "compare": 0, "syndrome": 0,
              "msn": 0, "original": 0, "immediate": 0}
    if opcode >> 5 == 3:
        fields["qkey"], fields["source_qpn"] = struct.unpack_from(">II", bth, at)
        at += 8
    if operation in (0x06, 0x0a, 0x0b, 0x0c):
        fields["address"], fields["key"], fields["length"] = struct.unpack_from(">QII", bth, at)
        at += 16
    if operation in (0x13, 0x14):
        fields["address"], fields["key"], fields["swap_or_add"], fields["compare"] = struct.unpack_from(">QIQQ", bth, at)
        at += 28
    if operation in (0x0d, 0x0f, 0x10, 0x11, 0x12):
        word = struct.unpack_from(">I", bth, at)[0]
        fields["syndrome"], fields["msn"] = word >> 24, word & 0xffffff
        at += 4
    if operation == 0x12:
        fields["original"] = struct.unpack_from(">Q", bth, at)[0]
        at += 8
    if operation in (0x03, 0x05, 0x09, 0x0b):
        fields["immediate"] = struct.unpack_from(">I", bth, at)[0]
        at += 4
    icrc = zlib.crc32(b"\xff" * 8 + masked(ip))
    assert struct.unpack("<I", ip[-4:])[0] == icrc, "a packet of the capture has a wrong ICRC"
    return {"opcode": opcode, "solicited": bth[1] >> 7, "migrated": bth[1] >> 6 & 1,
            "partition": struct.unpack_from(">H", bth, 2)[0],
            "destination_qpn": int.from_bytes(bth[5:8], "big"), "ack_requested": bth[8] >> 7,
            "psn": int.from_bytes(bth[9:12], "big"), **fields, "payload_bytes": len(bth) - at - pad - 4, "icrc": icrc,
            "identification": struct.unpack_from(">H", ip, 4)[0] if ipv4 else 0, "source_port": struct.unpack_from(">H", udp)[0]}


def main(captures):
    print("// SPDX-License-Identifier: MIT\n// Made by golden_packets.py: packets of the kernel's rxe.")
    seen = set()
    for capture in captures:
        for ip in packets_of(capture):
            fields = fields_of(ip)
            if fields is None:
                continue
            kind = (fields["opcode"], -fields["payload_bytes"] & 3, fields["syndrome"] >> 5, fields["solicited"])
            if kind in seen:
                continue
            seen.add(kind)
            text = ip.hex()
            lines = "\n".join(f' "{text[i:i + 96]}"' for i in range(0, len(text), 96))
            values = ",\n ".join(f".{name} = {'true' if name in ('solicited', 'migrated', 'ack_requested') and value else 'false' if name in ('solicited', 'migrated', 'ack_requested') else hex(value)}"
                                 for name, value in fields.items())
            print(f'{{.origin = "{pathlib.Path(capture).stem}",\n {values},\n .hex =\n{lines}}},')


if __name__ == "__main__":
    main(sys.argv[1:])
