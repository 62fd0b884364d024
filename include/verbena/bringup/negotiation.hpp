// SPDX-License-Identifier: MIT
// How two prepared queue pairs are connected: offers cross, both sides decide, and the way is
// tried. The typed calls stand in connect_queue_pair.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "verbena/base/deadline.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/agreement.hpp"
#include "verbena/bringup/offer.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/verbs/detail/prepared_base.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"
#include "verbena/verbs/queue_pair_options.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// Whether messages try the way before the application's do, over a second queue pair that exists
/// for as long as that takes. Both sides must want it.
enum class trial : std::uint8_t {
  automatic,  ///< on RoCE over a network, where firewalls and small MTUs swallow packets in silence
  always,     ///< also where that hardly happens: on InfiniBand, and on soft0
  never,      ///< saves the second queue pair; a blocked way shows when messages are not answered
};

/// How to negotiate. Threads: immutable value.
struct negotiation_options {
  bringup::trial trial = trial::automatic;  ///< whether messages try the way
  /// How long a port that is down, or has no address, may take to come back before that is called a
  /// failure; the deadline of the call holds for it, too.
  std::chrono::nanoseconds port_patience = std::chrono::nanoseconds(0);
  /// What the application tells its peer besides, once both are ready: at most `max_ready_bytes`.
  /// Peers of older versions are not told. A channel has words of its own.
  std::span<const std::byte> message = {};
};

/// What was agreed with a peer that makes offers, and on what. Threads: one thread at a time.
struct negotiated {
  agreement agreed;  ///< what both sides use
  offer ours;        ///< of this side
  offer theirs;      ///< of the peer
};

namespace detail {

/// What a queue pair's options ask for.
struct connection_wishes {
  offered_transport transport = offered_transport::rc;
  port_number port = port_number(1);
  std::optional<verbena::gid_index> gid_index;
  std::optional<mtu> path_mtu;
  std::uint16_t pkey_index = 0;
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  offered_reliability reliability;  ///< without what the device says
};

template <class Options>
[[nodiscard]] connection_wishes wishes_of(const Options& options) {
  connection_wishes out{.transport = offered_transport::uc,
                        .port = options.port,
                        .gid_index = options.gid_index,
                        .path_mtu = options.path_mtu,
                        .pkey_index = options.pkey_index,
                        .service_level = options.service_level,
                        .traffic_class = options.traffic_class,
                        .hop_limit = options.hop_limit,
                        .reliability = {}};
  if constexpr (requires { options.rnr_retry_count; }) {
    out.transport = offered_transport::rc;
    out.reliability = {.reads_as_initiator = options.read_depth,
                       .reads_as_target = options.read_depth,
                       .timeout = options.timeout,
                       .retry_count = options.retry_count,
                       .rnr_retry_count = options.rnr_retry_count,
                       .min_rnr_timer = options.min_rnr_timer};
  }
  return out;
}

/// One side of a negotiation. Borrows the queue pair, which is in the state RESET.
struct negotiating_side {
  verbena::detail::prepared_base& pair;
  queue_pair_attributes init;  ///< what brings it to INIT
  connection_wishes wishes;
};

class probe_pair;

/// Two connected queue pairs, and what tried the way between them: it has to last until both sides
/// are ready.
struct connected_way {
  negotiated what;
  std::shared_ptr<probe_pair> probe;
};

/// Negotiates with a peer that makes offers; brings the queue pair to RTS. The peer is told of a
/// failure. Blocks and allocates.
[[nodiscard]] result<connected_way> negotiate(const negotiating_side& side, stream& peer,
                                              deadline until, const negotiation_options& options);

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::bringup
