// SPDX-License-Identifier: MIT
// The identity of a channel and its record of the previous connection. A side sends it to the peer
// when it connects.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// Identifies one connection of one channel. Threads: immutable value.
struct connection_identity {
  std::uint64_t channel = 0;     ///< random and not 0; different after a restart
  std::uint64_t connection = 0;  ///< number of the connection of this channel: 1, 2, …

  friend bool operator==(connection_identity, connection_identity) noexcept = default;
};

/// The information that a channel sends to its peer with its endpoint. bringup streams carry it; a
/// program that exchanges endpoints itself sends encode() along. Threads: immutable value.
struct resume_token {
  /// Bytes of the wire format, version 1, integers in network order: version (1), flags (1: bit 0
  /// means that there was a previous connection, bit 1 that its messages were counted), zero (6),
  /// channel (8), connection (8), of the previous connection: its number (8), channel and number of
  /// the peer (16), messages received (8); zero if the flag is not set.
  static constexpr std::size_t encoded_size = 56;
  /// The version of the wire format.
  static constexpr std::uint8_t wire_version = 1;

  /// The previous connection.
  struct past {
    std::uint64_t connection = 0;   ///< its number on this side
    connection_identity peer = {};  ///< the identity that the peer sent
    /// Messages of the peer received over it; nullopt if unknown.
    std::optional<std::uint64_t> received = {};

    friend bool operator==(const past&, const past&) noexcept = default;
  };

  connection_identity self = {};    ///< this channel and its new connection
  std::optional<past> before = {};  ///< nullopt: none, or the peer sent no identity

  /// Encodes the wire format.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Decodes the wire format.
  ///
  /// Errors: `protocol` for a wrong size, an unknown version or flag, identities of 0, or nonzero
  /// reserved bytes.
  [[nodiscard]] static result<resume_token> decode(std::span<const std::byte> bytes);

  friend bool operator==(const resume_token&, const resume_token&) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI

/// Hashes all members.
template <>
struct std::hash<verbena::connection_identity> {
  /// Returns the hash of `of`.
  std::size_t operator()(const verbena::connection_identity& of) const noexcept;
};
/// Hashes all members.
template <>
struct std::hash<verbena::resume_token> {
  /// Returns the hash of `of`.
  std::size_t operator()(const verbena::resume_token& of) const noexcept;
};
