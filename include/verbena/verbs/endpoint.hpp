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

/// What a peer has to know to connect to a queue pair. Exchange it out of band: `encode()` on one
/// side, `decode()` on the other. Threads: immutable value.
struct endpoint {
  /// Bytes of the wire format, version 1, integers in network order: version (1), flags (1: bit 0
  /// says that the GID is there), MTU (1, as in enum ibv_mtu), read depth (1), queue pair number
  /// (4), first sequence number (4), LID (2), GID (16, zero if it is not there).
  static constexpr std::size_t encoded_size = 30;
  /// The version that encode() writes and decode() reads.
  static constexpr std::uint8_t wire_version = 1;

  queue_pair_number queue_pair = {};      ///< its number on this side's device
  packet_sequence_number first_psn = {};  ///< of the first packet that this side sends
  verbena::lid lid = {};                  ///< of the port on InfiniBand; 0 on Ethernet
  std::optional<verbena::gid> gid = {};   ///< always there on Ethernet
  /// The largest packet of this side's port; the connection uses the smaller of the two.
  verbena::mtu mtu = verbena::mtu::bytes_1024;
  std::uint8_t read_depth = 0;  ///< reads and atomics that this side can answer at once

  /// The wire format, for the peer.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Reads the wire format. Errors: `protocol` for a wrong size, an unknown version or flag, a
  /// number of more than 24 bits, an MTU that does not exist, or bytes where there should be none.
  [[nodiscard]] static result<endpoint> decode(std::span<const std::byte> bytes);

  friend bool operator==(const endpoint&, const endpoint&) noexcept = default;
};

/// `queue pair 0x1a2b, psn 0x3c4d5e, gid ::ffff:192.0.2.1, mtu 1024, read depth 16`.
[[nodiscard]] std::string to_string(const endpoint& of);

}  // namespace verbena::inline VERBENA_ABI
