#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes golden_tags.inc: golden_tags.py > golden_tags.inc

The keys are derived with Python's hmac, and the tags are computed by nettle (libnettle.so.8). The device uses neither. The
script defines the format of the trailer independently of the device.
"""
import ctypes
import hmac
import ipaddress
import struct

NETTLE = ctypes.CDLL("libnettle.so.8")
CASES = (  # secret, source, destination, ports, sender, sequence number, bytes of the packet
    (b"0123456789abcdef", "10.9.0.1", "10.9.0.2", (49152, 4791), 0x0123456789abcdef, 1, 20),
    (b"0123456789abcdef", "10.9.0.2", "10.9.0.1", (50000, 14791), 0xfedcba9876543210, 0x1_0000_0002, 1048),
    (bytes(range(256)), "fd00:9::1", "fd00:9::2", (49152, 4791), 1, 2**64 - 1, 4124),
)


def hmac_sha256(key, message):
    return hmac.new(key, message, "sha256").digest()


def gmac(key, nonce, message):
    context = ctypes.create_string_buffer(16384)
    NETTLE.nettle_gcm_aes256_set_key(context, key)
    NETTLE.nettle_gcm_aes256_set_iv(context, ctypes.c_size_t(len(nonce)), nonce)
    NETTLE.nettle_gcm_aes256_update(context, ctypes.c_size_t(len(message)), message)
    tag = ctypes.create_string_buffer(16)
    NETTLE.nettle_gcm_aes256_digest(context, ctypes.c_size_t(16), tag)
    return tag.raw


def gid(address):
    parsed = ipaddress.ip_address(address)
    return parsed.packed if parsed.version == 6 else bytes(10) + b"\xff\xff" + parsed.packed


def packet(length):
    """Returns the packet of the test. Only its bytes matter, not its format."""
    return bytes((i * 7 + 3) % 256 for i in range(length))


def trailer_of(secret, source, destination, ports, sender, sequence, length):
    root = hmac_sha256(b"verbena soft0 wire 1", secret)
    key = hmac_sha256(root, b"sender" + struct.pack(">Q", sender) + b"\x01")
    pseudo_header = gid(source) + gid(destination) + struct.pack(">HH", *ports) + bytes(12)
    head = b"vba1" + struct.pack(">QQ", sender, sequence)
    return head + gmac(key, bytes(4) + struct.pack(">Q", sequence), pseudo_header + packet(length) + head)


def main():
    print("// SPDX-License-Identifier: MIT")
    print("// Made by golden_tags.py.")
    for case in CASES:
        secret, source, destination, ports, sender, sequence, length = case
        print(f'{{"{secret.hex()}", "{source}", "{destination}", {ports[0]}, {ports[1]}, {sender:#x}, {sequence:#x}, {length},')
        print(f' "{trailer_of(*case).hex()}"}},')


if __name__ == "__main__":
    main()
