// SPDX-License-Identifier: MIT
// What the connection manager has to say. event_channel::poll_event() and wait_event() deliver it.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/cm/connection_parameters.hpp"
#include "verbena/cm/identifier.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// What happened. Values as in `rdma_cm_event_type`; unknown ones are kept.
/// Source: rdma_get_cm_event(3).
enum class event_kind : std::uint32_t {
  address_resolved = RDMA_CM_EVENT_ADDR_RESOLVED,     ///< resolve_address() found the device
  address_error = RDMA_CM_EVENT_ADDR_ERROR,           ///< resolve_address() failed
  route_resolved = RDMA_CM_EVENT_ROUTE_RESOLVED,      ///< resolve_route() found the way
  route_error = RDMA_CM_EVENT_ROUTE_ERROR,            ///< resolve_route() failed
  connect_request = RDMA_CM_EVENT_CONNECT_REQUEST,    ///< a peer asks; take_request() gives it
  connect_response = RDMA_CM_EVENT_CONNECT_RESPONSE,  ///< the peer accepted; establish() is next
  connect_error = RDMA_CM_EVENT_CONNECT_ERROR,        ///< connecting failed on this side
  unreachable = RDMA_CM_EVENT_UNREACHABLE,            ///< the peer does not answer
  rejected = RDMA_CM_EVENT_REJECTED,                  ///< the peer refused; rejection() says why
  established = RDMA_CM_EVENT_ESTABLISHED,            ///< the connection stands
  disconnected = RDMA_CM_EVENT_DISCONNECTED,          ///< the connection was closed, by either side
  device_removal = RDMA_CM_EVENT_DEVICE_REMOVAL,      ///< the device is gone: drop the identifier
  multicast_join = RDMA_CM_EVENT_MULTICAST_JOIN,      ///< a group was joined
  multicast_error = RDMA_CM_EVENT_MULTICAST_ERROR,    ///< a group cannot be joined, or was lost
  address_change = RDMA_CM_EVENT_ADDR_CHANGE,         ///< the network interface has another address
  timewait_exit = RDMA_CM_EVENT_TIMEWAIT_EXIT,  ///< a closed connection's queue pair is free again
  address_info_resolved = 16,  ///< RDMA_CM_EVENT_ADDRINFO_RESOLVED, of newer rdma-core
  address_info_error = 17,     ///< RDMA_CM_EVENT_ADDRINFO_ERROR, of newer rdma-core
  user = 18,                   ///< RDMA_CM_EVENT_USER, of newer rdma-core
  internal = 19,               ///< RDMA_CM_EVENT_INTERNAL, of newer rdma-core
};

/// `ADDR_RESOLVED`: the name of rdma_cma.h without `RDMA_CM_EVENT_`; `unknown (77)` for others.
[[nodiscard]] std::string to_string(event_kind kind);
/// Whether it ends a step by failure: ADDR_ERROR, ROUTE_ERROR, CONNECT_ERROR, UNREACHABLE,
/// REJECTED, DEVICE_REMOVAL, MULTICAST_ERROR, ADDRINFO_ERROR.
[[nodiscard]] bool is_failure(event_kind kind) noexcept;

/// Why a peer refused. Threads: one thread at a time.
struct rejection {
  /// The status that programs give by reject(), on InfiniBand and RoCE.
  static constexpr int by_the_program = 28;
  /// The status when nothing listens at the port, on InfiniBand and RoCE.
  static constexpr int no_listener = 8;

  /// On InfiniBand and RoCE the reason of the REJ message, on iWARP a negated errno; 0: none.
  int status = 0;
  /// What the peer gave to reject(), filled up with zeros.
  std::vector<std::byte> private_data;

  /// Whether the peer's program refused, not its connection manager.
  [[nodiscard]] bool is_by_the_program() const noexcept;
};
/// `28, the peer's program refused`; what a status means in words.
[[nodiscard]] std::string describe_rejection(int status);

/// One event: a copy, acknowledged before it was delivered, so that dropping an identifier never
/// waits for it. A connect_request owns the new identifier until it is taken: dropping the event
/// then rejects the request. Threads: one thread at a time.
class event {
 public:
  /// Takes over what the other has, its request included.
  event(event&&) noexcept = default;
  /// Rejects a request that is still inside, then takes over the other's.
  event& operator=(event&& other) noexcept;
  ~event();

  /// What happened.
  [[nodiscard]] event_kind kind() const noexcept { return kind_; }
  /// 0, a negated errno, or what the transport says: see describe_rejection().
  [[nodiscard]] int status() const noexcept { return status_; }
  /// True when it is of `id`; a connect_request also when `id` is the one that listens. Events
  /// concern no identifier that was made after they were taken.
  [[nodiscard]] bool concerns(const identifier& id) const;
  /// What it is about, as messages call it.
  [[nodiscard]] const std::string& object() const noexcept { return object_; }

  /// The new identifier of a connect_request, which can be accepted or rejected; its events go to
  /// the listener's channel. Errors: `invalid_argument` for another kind, or when it was taken.
  [[nodiscard]] result<identifier> take_request();

  /// Of connected port spaces, for connect_request, connect_response and established.
  [[nodiscard]] std::optional<connection_parameters> connection() const noexcept;
  /// Of datagram port spaces, for established; and for multicast_join.
  [[nodiscard]] const std::optional<datagram_parameters>& datagram() const noexcept {
    return datagram_;
  }
  /// The peer's bytes, filled up with zeros by the transport; they live as long as the event.
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept { return private_data_; }
  /// Why the peer refused; nothing for other kinds than `rejected`.
  [[nodiscard]] std::optional<rejection> rejected() const;

  /// The error that it means for `call`, with cause and remedy. Precondition: is_failure(kind()).
  [[nodiscard]] error failure(std::string_view call) const;

 private:
  friend class event_channel;
  event(const rdma_cm_event& pending, const std::shared_ptr<detail::channel_state>& channel);
  void drop_request() noexcept;

  event_kind kind_;
  int status_;
  const rdma_cm_id* id_;
  const rdma_cm_id* listener_;
  std::string object_;
  std::vector<std::byte> private_data_;
  std::optional<connection_parameters> connection_;
  std::optional<datagram_parameters> datagram_;
  std::optional<identifier> request_;
};

/// `REJECTED of connection 10.0.0.1:40000 -> 10.0.0.2:7471, status 28, the peer's program refused`.
[[nodiscard]] std::string to_string(const event& of);

}  // namespace verbena::inline VERBENA_ABI::cm
