// SPDX-License-Identifier: MIT
// Connections over several ports or devices between all ranks of a group:
//
//   auto rails = net::group_rails::connect(group, ports, until).value();
//   auto memory = net::rail_memory::allocate(ports, bytes, access).value();
//   auto all = group.exchange("weights", memory.remote(), until).value();
//   rails[peer].write(net::rail_source(memory), all[peer], until).value();
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "verbena/base/deadline.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/net/multi_rail_channel.hpp"
#include "verbena/net/rail.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/async_event.hpp"

namespace verbena::inline VERBENA_ABI::net {

class group;

namespace detail {
struct group_rails_state;
void destroy(group_rails_state& of) noexcept;
}  // namespace detail

/// Options of group_rails::connect(). Threads: immutable value.
struct group_rails_options {
  rail_options rails = {};  ///< of each connection, also timeouts and retries of the passive sides
  /// Access flags of the queue pairs by which peers access memory of this rank. A peer can access
  /// each memory region of the protection domains whose rkey it has, within the access flags of the
  /// region.
  access_flags access = access::remote_read | access::remote_write;
  /// An address of this host at which the other ranks reach it by TCP, for the streams of the
  /// connections. If empty, the local address of the connection to the store. It should belong to a
  /// network that does not depend on the rails.
  std::string host = {};
};

/// A multi_rail_channel to each member of a group, including this rank, and the passive sides of
/// the channels of the members to this rank.
///
/// One thread of the object serves all peers: it connects their queue pairs, moves them to the
/// error state when a peer requests it, and reads the asynchronous events of all ports, which it
/// passes to the channels. So all connections share the contexts and protection domains of the
/// ports, and each memory is registered once for all peers. Another object for rails needs other
/// contexts, and the program must not read events of these contexts; otherwise see
/// rail_options::reads_async_events and take().
///
/// If a member ends, or the connection to it, only operations to this member fail. The object does
/// not change if group::shrink() removes members. To connect new processes of ranks after
/// group::readmit(), all members call connect() again.
///
/// Each rank has, for each member, two TCP connections, and on each rail two queue pairs with a
/// completion queue each: one for its own requests, one for those of the member.
///
/// The destructor ends all connections: operations of peers to this rank then fail, and afterwards
/// no peer accesses memory by this object. To prevent failures, end a program with a barrier.
/// Destroy the object before the memory. It does not need the group after connect().
///
/// Threads: one thread at a time, except take(), which is thread-safe. Different channels can be
/// used by different threads at the same time.
class [[nodiscard]] group_rails {
 public:
  /// Connects all members of a group over the rails. All members must call connect(), with the same
  /// number of ports: rail i of a rank is connected to rail i of each other rank. Returns when the
  /// connections of all members have been made; multi_rail_channel::status() shows rails that are
  /// not active. Meanwhile, operations of the channels of the group make no progress. Uses
  /// group::exchange() twice.
  ///
  /// Errors, on all members: `invalid_argument` with the ranks if the numbers of ports differ;
  /// ECONNABORTED with the rank and its error if a rank has passed wrong arguments or cannot
  /// connect; those of group::exchange(), which names ranks that end or do not call connect() in
  /// time. Errors on this rank: `invalid_argument` for no ports, more than `max_rails`, options out
  /// of range or a wildcard address as `host`; `protocol` if only some ranks have a loopback
  /// address; those of multi_rail_channel::connect(), with the rank of the peer, and of
  /// bringup::listener::open(), eventfd(2) and pthread_create(3). A peer that does not answer is
  /// reported after three quarters of the time. Blocks and allocates.
  [[nodiscard]] static result<group_rails> connect(group& among, std::span<const rail_port> ports,
                                                   deadline until,
                                                   const group_rails_options& options = {});

  /// Returns the channel to `rank`, which may be the own rank. Precondition: contains(rank).
  [[nodiscard]] multi_rail_channel& operator[](std::uint32_t rank);
  /// Returns whether `rank` was a member of the group when connect() was called.
  [[nodiscard]] bool contains(std::uint32_t rank) const noexcept;

  /// Calls multi_rail_channel::progress() of all channels.
  void progress();
  /// Handles an event that the program has read from the context of port `rail`, for all channels,
  /// in their next operation or progress(). Needed only without rail_options::reads_async_events.
  /// Allocates. Precondition: `rail` is less than the number of ports.
  void take(std::uint32_t rail, const async_event& event);

 private:
  explicit group_rails(detail::group_rails_state* state) noexcept : state_(state) {}

  verbena::detail::sole_owner<detail::group_rails_state> state_;
};

}  // namespace verbena::inline VERBENA_ABI::net
