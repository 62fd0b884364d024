// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/mtu.hpp"

namespace verbena::inline VERBENA_ABI {

/// The values that a peer needs to connect a queue pair. The program transfers the endpoint of each
/// side to the other side: encode() here, decode() there. Threads: immutable value.
struct endpoint {
  /// The number of bytes of the wire format, version 1. The fields are, with their bytes in
  /// parentheses and integers in network order: version (1), flags (1: bit 0 is set if there is a
  /// GID), MTU (1, as in enum ibv_mtu), read depth (1), queue pair number (4), first packet
  /// sequence number (4), LID (2), GID (16, zero without a GID).
  static constexpr std::size_t encoded_size = 30;
  /// The version that encode() writes and decode() reads.
  static constexpr std::uint8_t wire_version = 1;

  queue_pair_number queue_pair = {};      ///< the number of the queue pair
  packet_sequence_number first_psn = {};  ///< the PSN of the first packet that this side sends
  verbena::lid lid = {};                  ///< the LID of the port on InfiniBand; 0 on Ethernet
  std::optional<verbena::gid> gid = {};   ///< the GID of the port; required on Ethernet
  /// The path MTU of this side. The connection uses the smaller value of both sides.
  verbena::mtu mtu = verbena::mtu::bytes_1024;
  /// The responder resources of this side: outstanding reads and atomics of the peer.
  std::uint8_t responder_resources = 0;

  /// Returns the wire format, for the peer.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Reads the wire format.
  ///
  /// Errors: `protocol` for a wrong size, an unknown version, flag or MTU, a queue pair number or
  /// PSN of more than 24 bits, and a GID without its flag.
  [[nodiscard]] static result<endpoint> decode(std::span<const std::byte> bytes);

  friend bool operator==(const endpoint&, const endpoint&) noexcept = default;
};

/// Returns `queue pair 0x1a2b, psn 0x3c4d5e, gid ::ffff:192.0.2.1, mtu 1024, read depth 16`.
[[nodiscard]] std::string to_string(const endpoint& of);

}  // namespace verbena::inline VERBENA_ABI

/// Hashes all members.
template <>
struct std::hash<verbena::endpoint> {
  /// Returns the hash of `of`.
  std::size_t operator()(const verbena::endpoint& of) const noexcept;
};
