#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes golden_mads.inc from captures of the kernel's connection manager: golden_mads.py CAPTURE.pcap... > golden_mads.inc

Of each capture it takes the first message of each kind. The fields next to the bytes are decoded here, independently of the
codec. The captures were made in the virtual machine (./dev vm) with rxe, the programs of librdmacm, and tcpdump.
"""
import pathlib
import struct
import sys

HEADERS = 20 + 8 + 12 + 8  # IPv4, UDP, BTH, DETH
MAD = 256


def packets_of(capture):
    """Yields the IP packets of a capture without the padding of Ethernet."""
    data = pathlib.Path(capture).read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack_from(order + "I", data, at + 8)[0]
        frame = data[at + 16:at + 16 + length]
        at += 16 + length
        if frame[12:14] == b"\x08\0" and frame[23] == 17:
            ip = frame[14:]
            yield ip[:struct.unpack_from(">H", ip, 2)[0]]


def fields_of(mad):
    """Returns the fields of a message: what golden_mad has, in its order."""
    kind = struct.unpack_from(">H", mad, 16)[0]
    body = mad[24:]
    word = lambda at: struct.unpack_from(">I", body, at)[0]  # noqa: E731
    fields = {"kind": kind, "transaction": struct.unpack_from(">Q", mad, 8)[0], "sender": word(0),
              "receiver": 0 if kind in (0x10, 0x17) else word(0) if kind == 0x18 else word(4),
              "queue_pair": 0, "psn": 0, "queue_key": 0, "reason": 0, "port": 0, "source_port": 0, "mtu": 0,
              "responder_resources": 0, "initiator_depth": 0, "data": 0}
    if kind == 0x10:
        fields |= {"queue_key": word(28), "queue_pair": word(32) >> 8, "psn": word(44) >> 8, "mtu": body[50] >> 4,
                   "responder_resources": body[35], "initiator_depth": body[39],
                   "port": struct.unpack_from(">Q", body, 8)[0] & 0xffff,
                   "source_port": struct.unpack_from(">H", body, 142)[0], "data": body[140 + 36]}
    if kind == 0x13:
        fields |= {"queue_key": word(8), "queue_pair": word(12) >> 8, "psn": word(20) >> 8, "responder_resources": body[24],
                   "initiator_depth": body[25], "data": body[36]}
    if kind == 0x12:
        fields |= {"reason": struct.unpack_from(">H", body, 10)[0], "data": body[84]}
    if kind == 0x15:
        fields |= {"queue_pair": word(8) >> 8}
    if kind == 0x17:
        fields |= {"port": struct.unpack_from(">Q", body, 8)[0] & 0xffff, "source_port": struct.unpack_from(">H", body, 18)[0],
                   "data": body[16 + 36]}
    if kind == 0x18:
        fields |= {"reason": body[4], "queue_pair": word(8) >> 8, "queue_key": word(20), "data": body[96]}
    return fields


def main(captures):
    print("// Made by golden_mads.py.")
    for capture in captures:
        seen = set()
        for ip in packets_of(capture):
            mad = ip[HEADERS:HEADERS + MAD]
            is_message = ip[28] == 0x64 and ip[33:36] == b"\0\0\x01" and len(mad) == MAD
            if not is_message or mad[16:18] in seen:
                continue
            seen.add(mad[16:18])
            print(f'{{.origin = "{pathlib.Path(capture).stem}",')
            for name, value in fields_of(mad).items():
                print(f" .{name} = {value:#x},")
            text = mad.rstrip(b"\0").hex()
            pieces = [text[at:at + 80] for at in range(0, len(text), 80)]
            print(" .hex =")
            print("\n".join(f'     "{piece}"' for piece in pieces) + "},")


if __name__ == "__main__":
    main(sys.argv[1:])
