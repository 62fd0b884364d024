// SPDX-License-Identifier: MIT
// The local side of a negotiation, without the type of the queue pair.
#pragma once

#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/offer.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"
#include "verbena/verbs/queue_pair_base.hpp"
#include "verbena/verbs/route.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// The requirements of a queue pair's options.
struct connection_wishes {
  offered_transport transport = offered_transport::rc;
  verbena::route route;
  offered_reliability reliability;  ///< without the limits of the device
};

/// The local queue pair. A connected one is in the state RESET, a UD one is active.
struct negotiating_side {
  queue_pair_base& pair;
  endpoint own_endpoint;       ///< of `pair`
  queue_key key;               ///< of a UD queue pair
  queue_pair_attributes init;  ///< brings a connected queue pair to INIT
  connection_wishes wishes;
  /// Connects `pair` to a peer of version 1, which sends its endpoint only; nullptr for UD.
  result<void> (*connect_to_endpoint)(queue_pair_base& pair, const endpoint& theirs);
};

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
