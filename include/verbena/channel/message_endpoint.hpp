// SPDX-License-Identifier: MIT
// What a peer has to know to exchange messages with a message_channel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/base/result.hpp"
#include "verbena/channel/message_channel_options.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

/// What one side of a message_channel can do and wants. Threads: immutable value.
struct message_terms {
  /// Bytes of the wire format, version 1, integers in network order: version (1), flags (1: bit 0
  /// says that credits are wanted, bit 1 that they are required), zero (2), message bytes (4),
  /// receives (4), the word as remote_region encodes it (21).
  static constexpr std::size_t encoded_size = 12 + remote_region::encoded_size;
  /// The version that encode() writes and decode() reads.
  static constexpr std::uint8_t wire_version = 1;

  verbena::credits credits = credits::preferred;  ///< whether it wants them
  std::uint32_t message_bytes = 0;                ///< the longest message; at least 1
  std::uint32_t receives = 0;                     ///< posted before the peer can send; at least 1
  /// 8 bytes into which the peer writes how many receives it has posted since the beginning, in
  /// network order. On a multiple of 8.
  remote_region word = {};

  /// The wire format, for the peer.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Reads the wire format. Errors: `protocol` for a wrong size, an unknown version or flag, bytes
  /// where there should be none, and impossible values.
  [[nodiscard]] static result<message_terms> decode(std::span<const std::byte> bytes);

  friend bool operator==(const message_terms&, const message_terms&) noexcept = default;
};

/// All that a peer has to know. Exchange it out of band: `encode()` on one side, `decode()` on the
/// other. Threads: immutable value.
struct message_endpoint {
  /// Bytes of the wire format: the terms, then the endpoint.
  static constexpr std::size_t encoded_size = message_terms::encoded_size + endpoint::encoded_size;

  message_terms terms = {};           ///< what this side can do and wants
  verbena::endpoint connection = {};  ///< where its queue pair is

  /// The wire format, for the peer.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Reads the wire format. Errors: `protocol`, as of its parts.
  [[nodiscard]] static result<message_endpoint> decode(std::span<const std::byte> bytes);

  friend bool operator==(const message_endpoint&, const message_endpoint&) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI
