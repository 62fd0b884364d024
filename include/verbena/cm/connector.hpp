// SPDX-License-Identifier: MIT
// Connecting to a listener of the connection manager:
//
//   auto peer = cm::connector::resolve({"10.0.0.2", 7471}, deadline::after(5s)).value();
//   auto pd = peer.context().value().allocate_pd().value();
//   ...
//   auto queue = peer.create_queue_pair(pd, cq, cq).value();
//   auto link = peer.connect(std::move(queue), {}, deadline::after(5s)).value();
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/cm/connection.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// How to find the peer. Threads: immutable value.
struct connector_options {
  /// The address of this host to send from, and so the device. Not given: the route decides.
  std::optional<socket_address> from = {};
  /// The type of service of the packets: see identifier::set_type_of_service().
  std::optional<std::uint8_t> type_of_service = {};
  /// `tcp`, or `ib` for a listener in that space.
  port_space space = port_space::tcp;
  /// Whose connection manager; not given: see event_channel::create().
  const verbena::provider* provider = nullptr;
};

/// A peer that was found, and the device that reaches it. Threads: one thread at a time.
class connector : public detail::bound {
 public:
  /// Finds `to`: looks up the name, and takes the first of its addresses that a device of this host
  /// reaches. Blocks until `until`.
  ///
  /// Errors: `invalid_argument` for a port space of datagrams; those of event_channel::create();
  /// `timed_out`; the connection manager's, with what the address lacks.
  [[nodiscard]] static result<connector> resolve(const bringup::address& to, deadline until,
                                                 const connector_options& options = {});

  /// Asks the peer for a connection with `prepared`, and brings the queue pair up. Its options
  /// hold: rights, read depth, retries, timeouts; the path is the connection manager's. Blocks
  /// until `until`. Whatever happens, this connector has then done its work. `post_receives` is
  /// called before the peer knows that it may send; its error ends the connection.
  ///
  /// Errors: `invalid_argument` for a queue pair of another open device, for too much private
  /// data, and on iWARP for one that signals all, when the peer is to send first; `timed_out`;
  /// ECONNREFUSED when the peer refused (rejection() says more); EHOSTUNREACH and ETIMEDOUT when it
  /// does not answer; those of queue_pair::modify(). The queue pair is then destroyed.
  [[nodiscard]] result<connection> connect(prepared_queue_pair<rc>&& prepared,
                                           const connection_options& options, deadline until,
                                           const receive_poster& post_receives = {});

  /// After connect() failed: why the peer refused, and what it said; nothing if it did not.
  [[nodiscard]] const std::optional<cm::rejection>& rejection() const noexcept {
    return rejection_;
  }

 private:
  using bound::bound;
  [[nodiscard]] result<event> await(event_kind wanted, event_kind or_else, const char* step,
                                    deadline until);
  [[nodiscard]] result<void> find(const socket_address& to, const connector_options& options,
                                  deadline until);

  std::optional<cm::rejection> rejection_;
};

}  // namespace verbena::inline VERBENA_ABI::cm
