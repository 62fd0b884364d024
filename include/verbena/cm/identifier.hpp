// SPDX-License-Identifier: MIT
// An identifier of the connection manager (struct rdma_cm_id). No call waits for the peer; the
// result of a step is an event on the channel (event_channel.hpp). connector.hpp and listener.hpp
// are the blocking, shorter interface.
#pragma once

#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ratio>
#include <span>
#include <string>
#include <utility>

#include "verbena/base/detail/saturating_cast.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/timers.hpp"
#include "verbena/cm/connection_parameters.hpp"
#include "verbena/cm/port_space.hpp"
#include "verbena/cm/socket_address.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/async_event.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"

namespace verbena::inline VERBENA_ABI::cm {

class event_channel;

namespace detail {
class identifier_state;
}  // namespace detail

/// The membership of a queue pair in a multicast group. Source: rdma_join_multicast_ex(3).
enum class membership : std::uint32_t {
  full = RDMA_MC_JOIN_FLAG_FULLMEMBER,                ///< sends and receives
  send_only = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,  ///< sends
};

/// An identifier. Copies share it. When the last copy is destroyed, a pending request is rejected
/// and a connection is closed.
///
/// No call waits for the peer; a step ends with an event of the kind that its comment names. Errors
/// are the errno of the C function, with its usual cause. Source: rdma_cm(7). Threads: one thread
/// at a time.
class identifier {
 public:
  /// Creates an identifier whose events are reported on `channel`: rdma_create_id(3).
  [[nodiscard]] static result<identifier> create(const event_channel& channel,
                                                 port_space space = port_space::tcp);

  /// Binds to a local address, and to its device unless the address is the wildcard. Port 0 means
  /// any free port. Errors: ENODEV, EADDRNOTAVAIL, EADDRINUSE, EACCES with a remedy.
  [[nodiscard]] result<void> bind(const socket_address& to);
  /// Listens for requests; each one is an event `connect_request`. Binds to the wildcard address if
  /// the identifier is not bound.
  [[nodiscard]] result<void> listen(int backlog = 128);

  /// Resolves the device and the address for packets to `to`, optionally from a local address.
  /// Ends with `address_resolved` or `address_error`, at the latest after `timeout`. The timeout is
  /// rounded up to milliseconds; librdmacm's range is 1 ms to 24 days.
  template <class Rep = std::int64_t, class Period = std::milli>
  [[nodiscard]] result<void> resolve_address(const socket_address& to,
                                             std::chrono::duration<Rep, Period> timeout,
                                             const std::optional<socket_address>& from = {}) {
    return begin_resolve_address(
        to, verbena::detail::saturating_cast<std::chrono::nanoseconds>(timeout), from);
  }
  /// Resolves the route to the address. Ends with `route_resolved` or `route_error`. `timeout` is
  /// that of resolve_address().
  template <class Rep = std::int64_t, class Period = std::milli>
  [[nodiscard]] result<void> resolve_route(std::chrono::duration<Rep, Period> timeout) {
    return begin_resolve_route(verbena::detail::saturating_cast<std::chrono::nanoseconds>(timeout));
  }

  /// Requests a connection for the queue pair in `with`, or the address of a datagram service. Ends
  /// with `connect_response`: bring the queue pair to RTS and call establish(). On iWARP and for
  /// datagrams it ends with `established`. Failures: `rejected`, `unreachable`, `connect_error`.
  /// Errors: `invalid_argument` for too much private data.
  [[nodiscard]] result<void> connect(const connection_parameters& with);
  /// Accepts a request. The caller brings the queue pair to RTR and RTS before. On iWARP the queue
  /// pair must be in INIT, and the connection manager brings it to RTS. For datagrams any state is
  /// permitted. Ends with `established`, except for datagrams.
  [[nodiscard]] result<void> accept(const connection_parameters& with);
  /// Rejects a request, or a response on the active side. Errors: those of connect().
  [[nodiscard]] result<void> reject(std::span<const std::byte> private_data = {});
  /// Rejects because of ECE options that this side does not support: rdma_reject_ece(3).
  [[nodiscard]] result<void> reject_ece(std::span<const std::byte> private_data = {});
  /// Completes the connection after `connect_response`: rdma_establish(3).
  [[nodiscard]] result<void> establish();
  /// Closes the connection. Both sides receive the event `disconnected`. The caller owns the queue
  /// pair, and must move it to the error state to flush outstanding requests.
  [[nodiscard]] result<void> disconnect();
  /// Reports an asynchronous event of the queue pair: rdma_notify(3). After
  /// `communication_established` the connection is established even if the peer's last connection
  /// message was lost.
  [[nodiscard]] result<void> notify(async_event_kind kind);

  /// Sets the type of service of the packets; on RoCE the traffic class. Call it before resolving.
  [[nodiscard]] result<void> set_type_of_service(std::uint8_t value);
  /// Permits bind() to an address of another identifier with this option. Call it before bind().
  [[nodiscard]] result<void> allow_address_reuse();
  /// Excludes IPv4 requests from an IPv6 address. Call it before bind().
  [[nodiscard]] result<void> limit_to_address_family();
  /// Sets the ACK timeout that attributes() returns. Call it before connect().
  [[nodiscard]] result<void> set_ack_timeout(ack_timeout timeout);

  /// Returns the attributes that bring a queue pair of this connection to `state`:
  /// rdma_init_qp_attr(3). Call it for init, ready_to_receive and ready_to_send in this order; on
  /// iWARP the last two are empty, because the connection manager performs these transitions.
  [[nodiscard]] result<queue_pair_attributes> attributes(queue_pair_state state) const;

  /// Moves the identifier to another event channel: rdma_migrate_id(3). Blocks until all events of
  /// the identifier that were taken from its channel are acknowledged; event_channel acknowledges
  /// them before it returns them. While the call runs, no thread may take events of that channel.
  [[nodiscard]] result<void> migrate(const event_channel& to);

  /// Joins a multicast group. Ends with `multicast_join`, whose datagram() is the address of the
  /// group, or with `multicast_error`. The caller attaches the queue pair.
  [[nodiscard]] result<void> join_multicast(const socket_address& group,
                                            membership as = membership::full);
  /// Leaves a multicast group. Errors: EADDRNOTAVAIL if the identifier is not a member.
  [[nodiscard]] result<void> leave_multicast(const socket_address& group);

  /// Offers ECE options to the peer. Call it before connect() or accept().
  [[nodiscard]] result<void> set_local_ece(const ece& offered);
  /// Returns the ECE options of the peer, after `connect_request` or `connect_response`.
  [[nodiscard]] result<ece> remote_ece() const;

  /// Returns whether the object has an identifier: false after a move.
  [[nodiscard]] bool is_valid() const noexcept { return state_ != nullptr; }
  /// Returns the port space.
  [[nodiscard]] port_space space() const;
  /// Returns the local address, or `nullopt` if it is not known yet.
  [[nodiscard]] std::optional<socket_address> local_address() const;
  /// Returns the peer's address, or `nullopt` if it is not known yet.
  [[nodiscard]] std::optional<socket_address> peer_address() const;
  /// Returns the port of the device, or `nullopt` if it is not known yet.
  [[nodiscard]] std::optional<port_number> port() const;
  /// Returns whether the device is iWARP, where the connection manager changes the state of the
  /// queue pair.
  [[nodiscard]] bool is_iwarp() const;
  /// Returns the device. The connection manager keeps it open until the process ends, so objects
  /// may outlive the identifier. Errors: `unavailable` if no device is bound.
  [[nodiscard]] result<verbena::context> context() const;

  /// Returns the object of the C API, for calls that this library does not cover. This library
  /// keeps ownership. rdma_create_qp(3) and synchronous calls are not supported.
  [[nodiscard]] rdma_cm_id* native() const;
  /// Returns the provider that executes the calls.
  [[nodiscard]] const verbena::provider& provider() const;
  /// Returns the name for messages: `connection 10.0.0.1:40000 -> 10.0.0.2:7471 on mlx5_0`.
  [[nodiscard]] std::string name() const;

 private:
  friend class event_channel;
  friend class event;
  explicit identifier(std::shared_ptr<detail::identifier_state> state) noexcept
      : state_(std::move(state)) {}
  [[nodiscard]] detail::identifier_state& state() const;
  [[nodiscard]] result<void> set_option(int option, void* value, std::size_t bytes);
  [[nodiscard]] result<void> begin_resolve_address(const socket_address& to,
                                                   std::chrono::nanoseconds timeout,
                                                   const std::optional<socket_address>& from);
  [[nodiscard]] result<void> begin_resolve_route(std::chrono::nanoseconds timeout);

  std::shared_ptr<detail::identifier_state> state_;
};

}  // namespace verbena::inline VERBENA_ABI::cm
