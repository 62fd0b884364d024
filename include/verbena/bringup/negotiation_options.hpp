// SPDX-License-Identifier: MIT
// The options and the result of a negotiation.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "verbena/base/config.hpp"
#include "verbena/bringup/agreement.hpp"
#include "verbena/bringup/offer.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// Selects when a negotiation sends probe messages over the path. The probe messages use a second
/// queue pair, which exists only during the negotiation. They are sent only if both sides select
/// them.
enum class probing : std::uint8_t {
  automatic,  ///< on RoCE over a network, where firewalls and small MTUs drop packets silently
  always,     ///< also where lost packets are unlikely: on InfiniBand and on soft0
  never,      ///< no second queue pair; on a blocked path, later requests fail: *retries exceeded*
};

/// Options of a negotiation. Threads: immutable value.
struct negotiation_options {
  /// When to send probe messages.
  bringup::probing probing = probing::automatic;
  /// How long to wait for a local port that is down or has no address. The deadline of the call
  /// applies as well.
  std::chrono::nanoseconds port_timeout = std::chrono::nanoseconds(0);
  /// A message of the program for the peer, sent when this side is ready: at most
  /// `max_ready_bytes`. Not sent to peers with version 2 or older.
  std::span<const std::byte> message = {};
};

/// The agreement of both sides, and the two offers. Threads: one thread at a time.
struct negotiated {
  agreement agreed;  ///< parameters of both sides
  offer ours;        ///< of this side
  offer theirs;      ///< of the peer
};

/// The event that a negotiation waits for.
enum class negotiation_status : std::uint8_t {
  waiting_for_peer,      ///< bytes from the peer
  waiting_for_device,    ///< the local port or a probe message: call advance() again later
  waiting_for_receives,  ///< the program: post the receives, then call set_ready()
  finished,              ///< no event; both sides are ready
  failed,                ///< no event; failure() returns the reason
};

/// The peer of a negotiation. Threads: one thread at a time.
struct negotiation_peer {
  std::string name = "the peer";  ///< for error messages
  /// The protocol version if the greetings were exchanged before, for example by a stream.
  std::optional<std::uint16_t> version = {};
};

}  // namespace verbena::inline VERBENA_ABI::bringup
