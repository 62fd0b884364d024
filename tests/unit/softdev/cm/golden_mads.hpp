// SPDX-License-Identifier: MIT
// Messages of the kernel's connection manager, with the fields that golden_mads.py decoded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "softdev/cm/mad.hpp"

namespace verbena::softdev::cm {

struct golden_mad {
  const char* origin;
  std::uint16_t kind;
  std::uint64_t transaction;
  std::uint32_t sender;
  std::uint32_t receiver;
  std::uint32_t queue_pair;
  std::uint32_t psn;
  std::uint32_t queue_key;
  std::uint32_t reason;
  std::uint16_t port;
  std::uint16_t source_port;
  std::uint8_t mtu;
  std::uint8_t responder_resources;
  std::uint8_t initiator_depth;
  std::uint8_t data;     ///< the first byte of private data
  std::string_view hex;  ///< without zeros at the end
};

inline constexpr golden_mad golden_mads[] = {
#include "tests/unit/softdev/cm/golden_mads.inc"
};

[[nodiscard]] inline std::array<std::byte, mad_bytes> bytes_of(const golden_mad& mad) {
  const auto digit = [](char c) {
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  std::array<std::byte, mad_bytes> bytes{};
  for (std::size_t i = 0; i + 1 < mad.hex.size(); i += 2)
    bytes[i / 2] = static_cast<std::byte>(digit(mad.hex[i]) << 4U | digit(mad.hex[i + 1]));
  return bytes;
}

}  // namespace verbena::softdev::cm
