// SPDX-License-Identifier: MIT
// The exchange of UD addresses over a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/negotiation_options.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// A UD queue pair of the peer, and the path to it. Threads: as address_handle.
struct datagram_peer {
  address_handle ah;         ///< the path to the peer's port
  queue_pair_number number;  ///< of the peer's queue pair
  queue_key key;             ///< its Q_Key
  negotiated terms;          ///< the agreed addresses and MTU
  /// The message of the peer's program: its negotiation_options::message.
  std::vector<std::byte> message;

  /// Returns the destination of send requests. The address handle must outlive the requests.
  [[nodiscard]] verbena::destination destination() const& { return ah.destination(number, key); }
  /// Deleted: the address handle of a temporary would be destroyed before the request is sent.
  verbena::destination destination() const&& = delete;
};

/// Options of the exchange. Threads: immutable value.
struct datagram_options {
  /// The entry of the port's GID table to send from. `nullopt`: both sides choose by their subnets.
  std::optional<verbena::gid_index> gid_index = {};
  std::uint8_t service_level = 0;        ///< at most 15
  std::uint8_t traffic_class = 0;        ///< on RoCE: DSCP in the upper six bits
  std::uint8_t hop_limit = 64;           ///< largest number of routers on the path
  negotiation_options negotiation = {};  ///< `probing` is ignored: no probe messages are sent
};

/// Exchanges the addresses of two UD queue pairs, and creates the address handle in `pd`, the
/// protection domain of `local`. Both sides must call this function. A queue pair can have any
/// number of peers. The sides choose their GIDs by the rule of connect_queue_pair().
///
/// Post the receives for the peer's first datagrams before the call: when it returns, both sides
/// are ready and may send. `until` applies to all steps. Blocks and allocates.
///
/// Errors: `invalid_argument` for a queue pair of another protection domain; those of
/// negotiation::failure() and of protection_domain::create_ah(). The queue pair is not changed.
[[nodiscard]] result<datagram_peer> exchange_datagram_addresses(
    const protection_domain& pd, queue_pair<ud>& local, stream& peer, deadline until,
    const datagram_options& options = {});

}  // namespace verbena::inline VERBENA_ABI::bringup
