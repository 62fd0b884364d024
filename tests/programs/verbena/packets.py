# SPDX-License-Identifier: MIT
"""Reads captures (pcapng) and checks packets of RoCE v2, independently of the codec of the device."""
import dataclasses
import pathlib
import struct
import zlib

SEND = {0x00: "first", 0x01: "middle", 0x02: "last", 0x03: "last", 0x04: "only", 0x05: "only"}
WRITE = {0x06: "first", 0x07: "middle", 0x08: "last", 0x09: "last", 0x0a: "only", 0x0b: "only"}
RESPONSE = {0x0d: "first", 0x0e: "middle", 0x0f: "last", 0x10: "only"}
WITH_IMMEDIATE = (0x03, 0x05, 0x09, 0x0b)
UNKNOWN, INBOUND, OUTBOUND = range(3)  # the direction in epb_flags
SELECTIVE = {0xc4: 8, 0xd1: 24}  # vendor opcodes of soft0, and the length of their payload
READ, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, COMPARE_SWAP, FETCH_ADD = 0x0c, 0x11, 0x12, 0x13, 0x14


class Wrong(Exception):
    """A capture or packet that does not conform."""


def require(holds, *what):
    if not holds:
        raise Wrong(" ".join(map(str, what)))


@dataclasses.dataclass
class Packet:
    """A decoded packet."""
    time: int
    source: bytes
    destination: bytes
    transport: str
    operation: int
    to_qp: int
    psn: int
    ack_requested: bool
    solicited: bool
    payload: bytes
    fields: dict
    source_port: int = 0
    raw: bytes = b""  # from BTH to ICRC
    direction: int = UNKNOWN
    comment: str = ""


@dataclasses.dataclass
class Frame:
    """A packet block: time, captured bytes, original length, options."""
    time: int
    data: bytes
    original: int
    lost: int = 0
    direction: int = UNKNOWN
    comment: str = ""


def blocks(data):
    """Yields the type and body of each block."""
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        require(length >= 12 and length % 4 == 0 and at + length <= len(data), "block at", at)
        require(struct.unpack_from("<I", data, at + length - 4)[0] == length, "end of block at", at)
        yield kind, data[at + 8:at + length - 4]
        at += length


def options(body):
    """Yields the kind and the value of each option."""
    at = 0
    while at < len(body):
        kind, length = struct.unpack_from("<HH", body, at)
        require(at + 4 + length <= len(body), "option")
        if kind == 0:
            require(length == 0 and at + 4 == len(body), "end of options")
            return
        yield kind, body[at + 4:at + 4 + length]
        at += 4 + (length + 3) // 4 * 4
    require(not body, "options without an end")


def frames(file):
    """Yields the frames of a capture."""
    data = pathlib.Path(file).read_bytes()
    kinds = 0
    for number, (kind, body) in enumerate(blocks(data)):
        if number == 0:
            require(kind == 0x0a0d0d0a and body[:4] == b"\x4d\x3c\x2b\x1a", "section header")
        elif number == 1:
            require(kind == 1 and body[:2] == b"\1\0", "interface")
        else:
            require(kind == 6, "a block of another kind:", kind)
            interface, high, low, captured, original = struct.unpack_from("<IIIII", body)
            require(interface == 0 and captured <= original, "packet block")
            found = Frame(high << 32 | low, body[20:20 + captured], original)
            for option, value in options(body[20 + (captured + 3) // 4 * 4:]):
                if option == 1:
                    found.comment = value.decode("ascii")
                elif option == 2:
                    found.direction = struct.unpack("<I", value)[0]
                else:
                    require(option == 4, "option of another kind:", option)
                    found.lost = struct.unpack("<Q", value)[0]
            yield found
            kinds += 1


def checksum(data):
    """The ones' complement sum of RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def icrc(ip, header):
    """The ICRC of an IP packet: IBTA annex A17."""
    masked = bytearray(ip[:-4])
    if header == 20:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xff
    else:
        masked[0] |= 0x0f
        masked[1] = masked[2] = masked[3] = masked[7] = 0xff
    masked[header + 6] = masked[header + 7] = masked[header + 12] = 0xff
    return zlib.crc32(b"\xff" * 8 + masked)


def network(frame):
    """Checks Ethernet, IP and UDP; returns addresses, the IP packet and the size of its header."""
    kind = struct.unpack_from(">H", frame, 12)[0]
    ip = frame[14:]
    if kind == 0x0800:
        require(ip[0] == 0x45 and struct.unpack_from(">H", ip, 2)[0] == len(ip), "length of IPv4")
        require(checksum(ip[:20]) == 0xffff and ip[6:8] == b"\x40\0" and ip[9] == 17, "IPv4")
        header, ends = 20, (ip[12:16], ip[16:20])
        require(ip[26:28] == b"\0\0", "UDP checksum over IPv4")
    else:
        require(kind == 0x86dd and ip[0] >> 4 == 6 and ip[6] == 17, "IPv6")
        require(struct.unpack_from(">H", ip, 4)[0] == len(ip) - 40, "length of IPv6")
        header, ends = 40, (ip[8:24], ip[24:40])
        pseudo = ip[8:40] + struct.pack(">II", len(ip) - 40, 17)
        require(checksum(pseudo + ip[40:]) == 0xffff, "UDP checksum over IPv6")
    source, port, length = struct.unpack_from(">HHH", ip, header)
    require(port == 4791 and length == len(ip) - header, "UDP")
    return ends, source, ip, header


def decode(time, frame):
    """Checks a packet and returns it decoded."""
    ends, source_port, ip, header = network(frame)
    require(struct.unpack("<I", ip[-4:])[0] == icrc(ip, header), "ICRC")
    bth = ip[header + 8:-4]
    code, flags, partition = struct.unpack_from(">BBH", bth)
    transport = "vendor" if code in SELECTIVE else {0: "rc", 1: "uc", 3: "ud"}.get(code >> 5)
    operation = code if transport == "vendor" else code & 0x1f
    require(transport is not None and flags & 0x0f == 0 and partition == 0xffff, "BTH", hex(code))
    fields, at = {}, 12
    if transport == "ud":
        fields["qkey"], fields["source_qp"] = struct.unpack_from(">II", bth, at)
        at += 8
    if operation in (0x06, 0x0a, 0x0b, READ):
        fields["address"], fields["key"], fields["length"] = struct.unpack_from(">QII", bth, at)
        at += 16
    if operation in (COMPARE_SWAP, FETCH_ADD):
        fields["address"], fields["key"], fields["swap_or_add"], fields["compare"] = struct.unpack_from(">QIQQ", bth, at)
        at += 28
    if operation in (0x0d, 0x0f, 0x10, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE):
        word = struct.unpack_from(">I", bth, at)[0]
        fields["syndrome"], fields["msn"] = word >> 24, word & 0xffffff
        at += 4
    if operation == ATOMIC_ACKNOWLEDGE:
        fields["original"] = struct.unpack_from(">Q", bth, at)[0]
        at += 8
    if operation in WITH_IMMEDIATE:
        fields["immediate"] = struct.unpack_from(">I", bth, at)[0]
        at += 4
    pad = flags >> 4 & 3
    payload = bth[at:len(bth) - pad]
    require(pad == -len(payload) % 4 and bth[len(bth) - pad:] == b"\0" * pad, "pad")
    if transport == "vendor":
        version = payload[:8]
        is_base = len(payload) == SELECTIVE[code] and version == b"verbena\x01"
        is_report = code == 0xd1 and len(payload) % 8 == 0 and 16 <= len(payload) <= 136
        require(is_base or version == b"verbena\x02" and (len(payload) == 12 or is_report), "selective repeat")
    return Packet(time=time, source=ends[0], destination=ends[1], transport=transport, operation=operation,
                  to_qp=int.from_bytes(bth[5:8], "big"), psn=int.from_bytes(bth[9:12], "big"),
                  ack_requested=bool(bth[8] >> 7), solicited=bool(flags >> 7), payload=payload, fields=fields,
                  source_port=source_port, raw=ip[header + 8:])


def read(file):
    """Returns the packets of a capture in which none is lost or cut."""
    found = []
    for frame in frames(file):
        require(len(frame.data) == frame.original and frame.lost == 0, "a packet is cut or lost")
        packet = decode(frame.time, frame.data)
        require(frame.direction != UNKNOWN or packet.source_port >= 0xc000, "source port of a packet that soft0 made")
        found.append(dataclasses.replace(packet, direction=frame.direction, comment=frame.comment))
    return found


def is_request(packet):
    return packet.operation in SEND or packet.operation in WRITE or packet.operation in (READ, COMPARE_SWAP, FETCH_ADD)


@dataclasses.dataclass
class Message:
    """A request: its packets put together."""
    operation: int
    first_psn: int
    last_psn: int
    payload: bytes
    fields: dict


def requests(packets, to_qp, mtu):
    """Puts the request packets to a queue pair together, and checks their order. No packet may be repeated."""
    found, expected, part = [], None, None
    for packet in packets:
        if packet.to_qp != to_qp or not is_request(packet):
            continue
        require(expected is None or packet.psn == expected, "PSN", packet.psn, "is not", expected)
        place = {**SEND, **WRITE}.get(packet.operation, "only")
        require((part is None) == (place in ("first", "only")), "order of packets")
        require(place not in ("first", "middle") or len(packet.payload) == mtu, "length of a packet")
        require(len(packet.payload) <= mtu, "MTU")
        count = 1
        if packet.operation == READ:
            count = max(1, -(-packet.fields["length"] // mtu))
        if part is None:
            part = Message(packet.operation, packet.psn, packet.psn, b"", dict(packet.fields))
        part.payload += packet.payload
        part.fields.update(packet.fields)
        part.last_psn = packet.psn + count - 1 & 0xffffff
        expected = part.last_psn + 1 & 0xffffff
        if place in ("last", "only"):
            if "length" in part.fields and part.operation != READ:
                require(len(part.payload) == part.fields["length"], "length of a WRITE")
            found.append(part)
            part = None
    require(part is None, "a message without an end")
    return found


def read_data(packets, message, from_qp, mtu):
    """Returns the data of the responses to a READ."""
    data, psn = b"", message.first_psn
    for packet in packets:
        if packet.to_qp == from_qp and packet.operation in RESPONSE and packet.psn == psn:
            place = RESPONSE[packet.operation]
            require((psn == message.first_psn) == (place in ("first", "only")), "order of responses")
            require((psn == message.last_psn) == (place in ("last", "only")), "order of responses")
            require(place in ("last", "only") or len(packet.payload) == mtu, "length of a response")
            data += packet.payload
            psn = psn + 1 & 0xffffff
            if place in ("last", "only"):
                return data
    raise Wrong("a READ without its responses")
