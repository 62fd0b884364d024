// SPDX-License-Identifier: MIT
// The messages by which the ranks of a group connect their rails. All numbers are big-endian.
//
// In the first exchange of the group:
//   contact   1 u8   version u8   number of rails u8   token (16 bytes)   host:port
//   failure   2 u8   reason
// In the second one: a failure, or no bytes.
// First on a stream, before the hellos of the rails:
//   opening   3 u8   version u8   token of the receiver (16 bytes)   rank of the sender u32
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "src/net/connection_message.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The place at which a rank accepts rails. Threads: immutable value.
struct rail_contact {
  std::uint32_t rails = 0;
  connection_token token = {};
  bringup::address acceptor = {};
};
/// Why a rank cannot connect. Threads: immutable value.
struct rail_failure {
  std::string reason;
};
/// The first message on a stream. Threads: immutable value.
struct rail_opening {
  connection_token token = {};
  std::uint32_t rank = 0;
};

[[nodiscard]] std::vector<std::byte> encode(const rail_contact& of);
[[nodiscard]] std::vector<std::byte> encode(const rail_failure& of);
[[nodiscard]] std::vector<std::byte> encode(const rail_opening& of);
/// Errors: `protocol` for bytes that encode() does not return.
/// @{
[[nodiscard]] result<std::variant<rail_contact, rail_failure>> decode_rail_contact(
    std::span<const std::byte> bytes);
[[nodiscard]] result<rail_opening> decode_rail_opening(std::span<const std::byte> bytes);
/// @}

}  // namespace verbena::inline VERBENA_ABI::net::detail
