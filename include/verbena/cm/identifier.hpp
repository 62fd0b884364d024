// SPDX-License-Identifier: MIT
// An identifier of the connection manager: what a socket is to TCP. Every call returns at once; how
// it went comes as an event on the channel (event_channel.hpp). The usual way to connect is
// shorter: connector.hpp and listener.hpp.
#pragma once

#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/timers.hpp"
#include "verbena/cm/connection_parameters.hpp"
#include "verbena/cm/detail/states.hpp"
#include "verbena/cm/port_space.hpp"
#include "verbena/cm/socket_address.hpp"
#include "verbena/verbs/async_event.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"

namespace verbena::inline VERBENA_ABI::cm {

class event_channel;

/// How a queue pair takes part in a multicast group. Source: rdma_join_multicast_ex(3).
enum class membership : std::uint32_t {
  full = RDMA_MC_JOIN_FLAG_FULLMEMBER,                ///< sends and receives
  send_only = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,  ///< sends
};

/// An identifier. Copies share it; it is destroyed when the last one is gone, which ends what is
/// under way: a request that was not answered is rejected, a connection is closed.
///
/// No call blocks or waits for the peer; steps that take time are ended by an event of the kind
/// that the call names. Errors are the errno of the C function, with what usually stands behind it.
/// Source: rdma_cm(7). Threads: one thread at a time.
class identifier {
 public:
  /// A new identifier whose events go to `channel`: rdma_create_id(3).
  [[nodiscard]] static result<identifier> create(const event_channel& channel,
                                                 port_space space = port_space::tcp);

  /// Gives it an address of this host, which binds it to a device unless the address is any: port 0
  /// for any free one. Errors: ENODEV, EADDRNOTAVAIL, EADDRINUSE, EACCES with a remedy.
  [[nodiscard]] result<void> bind(const socket_address& to);
  /// Takes requests from now on; each comes as `connect_request`. Binds it to any address when it
  /// is not bound yet.
  [[nodiscard]] result<void> listen(int backlog = 128);

  /// Finds the device and the address for packets to `to`, optionally from an address of this host.
  /// Ends by `address_resolved` or `address_error`, at the latest after `timeout`.
  [[nodiscard]] result<void> resolve_address(const socket_address& to,
                                             std::chrono::milliseconds timeout,
                                             const std::optional<socket_address>& from = {});
  /// Finds the way to the address. Ends by `route_resolved` or `route_error`.
  [[nodiscard]] result<void> resolve_route(std::chrono::milliseconds timeout);

  /// Asks the peer for a connection of the queue pair that `with` names, or for the queue pair of a
  /// datagram service. Ends by `connect_response` (then the queue pair is to be made ready, and
  /// establish() called) or on iWARP and for datagrams by `established`; or by `rejected`,
  /// `unreachable` or `connect_error`. Errors: `invalid_argument` for too much private data, with
  /// the limit.
  [[nodiscard]] result<void> connect(const connection_parameters& with);
  /// Grants a request. The queue pair must be ready to receive and, but for iWARP, to send. Ends by
  /// `established`; datagrams need no more.
  [[nodiscard]] result<void> accept(const connection_parameters& with);
  /// Refuses a request, or a response on the active side. Errors: as connect().
  [[nodiscard]] result<void> reject(std::span<const std::byte> private_data = {});
  /// The same because of ECE options that this side cannot accept: rdma_reject_ece(3).
  [[nodiscard]] result<void> reject_ece(std::span<const std::byte> private_data = {});
  /// Tells the peer that the connection stands, after `connect_response`: rdma_establish(3).
  [[nodiscard]] result<void> establish();
  /// Closes the connection. Both sides get `disconnected`. The queue pair is the caller's: requests
  /// outstanding are flushed when it is brought to the state error.
  [[nodiscard]] result<void> disconnect();
  /// Tells it of an asynchronous event of its queue pair. After `communication_established` it
  /// takes the connection for established although the peer's last message was lost:
  /// rdma_notify(3).
  [[nodiscard]] result<void> notify(async_event_kind kind);

  /// The type of service of the packets; on RoCE it becomes the traffic class. Before resolving.
  [[nodiscard]] result<void> set_type_of_service(std::uint8_t value);
  /// Lets bind() take an address that another identifier with this option has. Before bind().
  [[nodiscard]] result<void> allow_address_reuse();
  /// Keeps an IPv6 address from taking IPv4 requests too. Before bind().
  [[nodiscard]] result<void> limit_to_address_family();
  /// How long queue pairs wait for an acknowledgement, in what attributes() gives. Before
  /// connect().
  [[nodiscard]] result<void> set_ack_timeout(ack_timeout timeout);

  /// What a queue pair of this connection needs to go to `state`: rdma_init_qp_attr(3). Complete
  /// for the states init, ready_to_receive and ready_to_send in that order; on iWARP the last two
  /// are empty, and the connection manager does them.
  [[nodiscard]] result<queue_pair_attributes> attributes(queue_pair_state state) const;

  /// Lets its events go to another channel from now on: rdma_migrate_id(3).
  [[nodiscard]] result<void> migrate(const event_channel& to);

  /// Joins a group. Ends by `multicast_join`, whose datagram() says how the group is addressed, or
  /// by `multicast_error`. The queue pair is attached by whoever made it.
  [[nodiscard]] result<void> join_multicast(const socket_address& group,
                                            membership as = membership::full);
  /// Leaves a group. Errors: EADDRNOTAVAIL for one that it did not join.
  [[nodiscard]] result<void> leave_multicast(const socket_address& group);

  /// Offers options of enhanced connection establishment to the peer. Before connect() or accept().
  [[nodiscard]] result<void> set_local_ece(const ece& offered);
  /// What the peer offered, after `connect_request` or `connect_response`.
  [[nodiscard]] result<ece> remote_ece() const;

  /// Whether it has an identifier; false once it was moved from.
  [[nodiscard]] bool is_valid() const noexcept { return state_ != nullptr; }
  /// The port space that it was created in.
  [[nodiscard]] port_space space() const;
  /// The address of this side, once it is known.
  [[nodiscard]] std::optional<socket_address> local_address() const;
  /// The address of the peer, once it is known.
  [[nodiscard]] std::optional<socket_address> peer_address() const;
  /// The port of the device, once it is known.
  [[nodiscard]] std::optional<port_number> port() const;
  /// Whether the connection manager moves the queue pair by itself, as on iWARP.
  [[nodiscard]] bool is_iwarp() const;
  /// The device. It is the connection manager's, open for as long as the process runs: objects may
  /// outlive the identifier. Errors: `unavailable` while none is bound.
  [[nodiscard]] result<verbena::context> context() const;

  /// The object of the C API, for calls that this library does not cover. It stays owned by this
  /// library. Neither rdma_create_qp(3) nor synchronous calls go with it.
  [[nodiscard]] rdma_cm_id* native() const;
  /// Who executes the calls.
  [[nodiscard]] const verbena::provider& provider() const;
  /// How messages call it: `connection 10.0.0.1:40000 -> 10.0.0.2:7471`.
  [[nodiscard]] std::string name() const;

 private:
  friend class event_channel;
  friend class event;
  explicit identifier(std::shared_ptr<detail::identifier_state> state) noexcept
      : state_(std::move(state)) {}
  [[nodiscard]] detail::identifier_state& state() const;
  [[nodiscard]] result<void> set_option(int option, void* value, std::size_t bytes);

  std::shared_ptr<detail::identifier_state> state_;
};

}  // namespace verbena::inline VERBENA_ABI::cm
