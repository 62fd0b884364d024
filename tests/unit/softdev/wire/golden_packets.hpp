// SPDX-License-Identifier: MIT
// Packets sent by the kernel's rxe, with the fields that golden_packets.py has decoded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

struct golden_packet {
  const char* origin;
  unsigned opcode;
  bool solicited;
  bool migrated;
  std::uint16_t pkey;
  std::uint32_t destination_qpn;
  bool ack_requested;
  std::uint32_t psn;
  std::uint32_t qkey;
  std::uint32_t source_qpn;
  std::uint64_t address;
  std::uint32_t key;
  std::uint32_t length;
  std::uint64_t swap_or_add;
  std::uint64_t compare;
  std::uint8_t syndrome;
  std::uint32_t msn;
  std::uint64_t original;
  std::uint32_t immediate;
  std::size_t payload_bytes;
  std::uint32_t icrc;
  std::uint16_t identification;
  std::uint16_t source_port;
  std::string_view hex;
};

inline constexpr golden_packet golden_packets[] = {
#include "tests/unit/softdev/wire/golden_packets.inc"
};

/// IPv6 packets, which have no identification.
inline constexpr golden_packet golden_ipv6_packets[] = {
#include "tests/unit/softdev/wire/golden_ipv6_packets.inc"
};

/// Returns the bytes of the IP packet.
[[nodiscard]] inline std::vector<std::byte> bytes_of(const golden_packet& which) {
  const auto digit = [](char c) {
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < which.hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(digit(which.hex[i]) << 4U | digit(which.hex[i + 1])));
  return bytes;
}

}  // namespace verbena::softdev::wire
