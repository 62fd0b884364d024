// SPDX-License-Identifier: MIT
// The endpoint and terms of a message_channel, for its peer.
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

/// The terms of one side of a message_channel. Threads: immutable value.
struct message_terms {
  /// Bytes of the wire format, version 2, integers in network order: version (1), flags (1: bit 0
  /// means that credits are preferred, bit 1 that they are required), credit receives (1), zero
  /// (1), message bytes (4), receives (4), the word as remote_region encodes it (21).
  static constexpr std::size_t encoded_size = 12 + remote_region::encoded_size;
  /// The version of the wire format.
  static constexpr std::uint8_t wire_version = 2;

  verbena::credits credits = credits::preferred;  ///< whether this side uses credits
  std::uint32_t message_bytes = 0;                ///< the longest message; at least 1
  std::uint32_t receives = 0;                     ///< posted before the peer can send; at least 1
  /// Posted in addition to `receives`. If it is not 0, the peer grants credits by writes with
  /// immediate data, which wake this side, and has at most so many in flight.
  std::uint8_t credit_receives = 0;
  /// The credit word: 8 aligned bytes into which the peer writes how many receives it has posted
  /// since the beginning, in network order.
  remote_region word = {};

  /// Encodes the wire format.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Decodes the wire format.
  ///
  /// Errors: `protocol` for a wrong size, an unknown version or flag, nonzero reserved bytes, and
  /// values out of range.
  [[nodiscard]] static result<message_terms> decode(std::span<const std::byte> bytes);

  friend bool operator==(const message_terms&, const message_terms&) noexcept = default;
};

/// The terms and the endpoint of a side, exchanged out of band with encode() and decode().
/// Threads: immutable value.
struct message_endpoint {
  /// Bytes of the wire format: the terms, then the endpoint.
  static constexpr std::size_t encoded_size = message_terms::encoded_size + endpoint::encoded_size;

  message_terms terms = {};           ///< the terms of this side
  verbena::endpoint connection = {};  ///< the endpoint of its queue pair

  /// Encodes the wire format.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Decodes the wire format. Errors: `protocol`; see message_terms::decode().
  [[nodiscard]] static result<message_endpoint> decode(std::span<const std::byte> bytes);

  friend bool operator==(const message_endpoint&, const message_endpoint&) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI
