// SPDX-License-Identifier: MIT
// What the two sides of a channel tell each other when they connect: who they are, and what came of
// the connection before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// One connection of one channel: the channel by a random number, the connection by its count.
struct connection_identity {
  std::uint64_t channel = 0;     ///< random, and never 0: another one after a restart
  std::uint64_t connection = 0;  ///< of this channel: 1, 2, …

  friend bool operator==(connection_identity, connection_identity) noexcept = default;
};

/// What a channel tells its peer beside its endpoint. bringup streams carry it; who exchanges
/// endpoints by other means sends `encode()` along. Threads: immutable value.
struct continuation {
  /// Bytes of the wire format, version 1, integers in network order: version (1), flags (1: bit 0
  /// says that there was a connection before, bit 1 that its messages were counted), zero (6),
  /// channel (8), connection (8), of the connection before: own number (8), channel and number of
  /// the peer (16), messages received (8); zero where a flag is not set.
  static constexpr std::size_t encoded_size = 56;
  /// The version that encode() writes and decode() reads.
  static constexpr std::uint8_t wire_version = 1;

  /// The connection that came before, with the peer as it was then.
  struct past {
    std::uint64_t connection = 0;   ///< its number, of this side
    connection_identity peer = {};  ///< and what the peer said of itself
    /// Messages of the peer that this side has received over it; nothing: it is not known.
    std::optional<std::uint64_t> received = {};

    friend bool operator==(const past&, const past&) noexcept = default;
  };

  connection_identity self = {};    ///< this side, and the connection that is being made
  std::optional<past> before = {};  ///< nothing: there was none with a peer that told who it is

  /// The wire format, for the peer.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Reads the wire format. Errors: `protocol` for a wrong size, an unknown version or flag,
  /// identities of 0, or bytes where there should be none.
  [[nodiscard]] static result<continuation> decode(std::span<const std::byte> bytes);

  friend bool operator==(const continuation&, const continuation&) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI
