// SPDX-License-Identifier: MIT
// The active side of a connection:
//
//   auto peer = cm::connector::resolve({"10.0.0.2", 7471}, deadline::after(5s)).value();
//   auto pd = peer.context().value().allocate_pd().value();
//   ...
//   auto queue = peer.create_qp(pd, cq, cq).value();
//   auto link = peer.connect(std::move(queue), {}, deadline::after(5s)).value();
//
// resolve_in_steps() and connect_in_steps() do not block.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/cm/connection.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// Options of connector::resolve(). Threads: immutable value.
struct connector_options {
  /// The local address, which selects the device. If not set, the route selects it.
  std::optional<socket_address> from = {};
  /// The type of service of the packets: see identifier::set_type_of_service().
  std::optional<std::uint8_t> type_of_service = {};
  /// `tcp`, or `ib` for a listener in that space.
  port_space space = port_space::tcp;
  /// The provider of the connection manager. `nullptr`: see event_channel::create().
  const verbena::provider* provider = nullptr;
};

/// A resolved peer, and the device that reaches it. Threads: one thread at a time.
class connector : public pending_connection {
 public:
  /// Resolves the name `to`, and selects the first of its addresses that a local device reaches.
  /// Blocks until `until`.
  ///
  /// Errors: `invalid_argument` for a port space of datagrams; those of event_channel::create();
  /// `timed_out`; those of rdma_resolve_addr(3) and rdma_resolve_route(3), with a remedy.
  [[nodiscard]] static result<connector> resolve(const bringup::address& to, deadline until,
                                                 const connector_options& options = {});
  /// Resolves in steps that do not block. A name is resolved on a separate thread.
  [[nodiscard]] static steps<connector> resolve_in_steps(bringup::address to, deadline until,
                                                         connector_options options = {});

  /// Requests a connection for `prepared`, and brings the queue pair to RTS. Access flags, read
  /// depth, retry counts and timeouts are those of its options; the connection manager selects the
  /// path. `post_receives` is called before the peer can send; if it fails, the connection is
  /// closed and its error is returned. Blocks until `until`. The connector must not be used again,
  /// not even after an error.
  ///
  /// Errors: `invalid_argument` for a queue pair of another open device, for too much private data,
  /// and on iWARP for a queue pair with `signal_all` if the peer sends first; `timed_out`;
  /// ECONNREFUSED if the peer rejected the request (see rejection()); EHOSTUNREACH or ETIMEDOUT if
  /// the peer does not respond; those of queue_pair::modify(). The queue pair is then destroyed.
  [[nodiscard]] result<connection> connect(prepared_queue_pair<rc>&& prepared,
                                           const connection_options& options, deadline until,
                                           receive_poster post_receives = {});
  /// Connects in steps that do not block. The private data is copied. The connector must outlive
  /// the steps, and must not be moved. If the steps are destroyed before the end, the connection
  /// and the queue pair are destroyed.
  [[nodiscard]] steps<connection> connect_in_steps(prepared_queue_pair<rc> prepared,
                                                   connection_options options, deadline until,
                                                   kept_receive_poster post_receives = {});

  /// Returns the rejection of the peer after connect() failed; `nullopt` if the peer did not
  /// reject.
  [[nodiscard]] const std::optional<cm::rejection>& rejection() const noexcept {
    return rejection_;
  }

 private:
  using pending_connection::pending_connection;
  [[nodiscard]] steps<event> wait(event_kind wanted, event_kind or_else, const char* step,
                                  deadline until);
  [[nodiscard]] steps<void> find(socket_address to, connector_options options, deadline until);

  std::optional<cm::rejection> rejection_;
};

}  // namespace verbena::inline VERBENA_ABI::cm
