// SPDX-License-Identifier: MIT
// Events of the connection manager. event_channel::poll_event() and wait_event() return them.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/attributes.hpp"
#include "verbena/base/result.hpp"
#include "verbena/cm/connection_parameters.hpp"
#include "verbena/cm/identifier.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// Types of events. Values as in `rdma_cm_event_type`; unknown values are kept.
/// Source: rdma_get_cm_event(3).
enum class event_kind : std::uint32_t {
  address_resolved = RDMA_CM_EVENT_ADDR_RESOLVED,  ///< resolve_address() found the device
  address_error = RDMA_CM_EVENT_ADDR_ERROR,        ///< resolve_address() failed
  route_resolved = RDMA_CM_EVENT_ROUTE_RESOLVED,   ///< resolve_route() found the route
  route_error = RDMA_CM_EVENT_ROUTE_ERROR,         ///< resolve_route() failed
  connect_request =
      RDMA_CM_EVENT_CONNECT_REQUEST,  ///< a peer requests a connection: take_request()
  connect_response = RDMA_CM_EVENT_CONNECT_RESPONSE,  ///< the peer accepted; establish() is next
  connect_error = RDMA_CM_EVENT_CONNECT_ERROR,        ///< connecting failed on this side
  unreachable = RDMA_CM_EVENT_UNREACHABLE,            ///< the peer does not respond
  rejected = RDMA_CM_EVENT_REJECTED,          ///< the peer rejected; rejected() has the reason
  established = RDMA_CM_EVENT_ESTABLISHED,    ///< the connection is established
  disconnected = RDMA_CM_EVENT_DISCONNECTED,  ///< the connection was closed, by either side
  device_removal =
      RDMA_CM_EVENT_DEVICE_REMOVAL,  ///< the device was removed: destroy the identifier
  multicast_join = RDMA_CM_EVENT_MULTICAST_JOIN,    ///< the group was joined
  multicast_error = RDMA_CM_EVENT_MULTICAST_ERROR,  ///< the group cannot be joined, or was lost
  address_change = RDMA_CM_EVENT_ADDR_CHANGE,       ///< the network interface has another address
  timewait_exit =
      RDMA_CM_EVENT_TIMEWAIT_EXIT,  ///< the queue pair of a closed connection may be reused
  address_info_resolved = 16,       ///< RDMA_CM_EVENT_ADDRINFO_RESOLVED, of newer rdma-core
  address_info_error = 17,          ///< RDMA_CM_EVENT_ADDRINFO_ERROR, of newer rdma-core
  user = 18,                        ///< RDMA_CM_EVENT_USER, of newer rdma-core
  internal = 19,                    ///< RDMA_CM_EVENT_INTERNAL, of newer rdma-core
};

/// Returns the name of rdma_cma.h without `RDMA_CM_EVENT_`, such as `ADDR_RESOLVED`. Returns
/// `unknown (77)` for other values.
[[nodiscard]] std::string to_string(event_kind kind);
/// Returns whether the event reports the failure of a step: ADDR_ERROR, ROUTE_ERROR, CONNECT_ERROR,
/// UNREACHABLE, REJECTED, DEVICE_REMOVAL, MULTICAST_ERROR, ADDRINFO_ERROR.
[[nodiscard]] bool is_failure(event_kind kind) noexcept;

/// The rejection of a request by the peer. Threads: one thread at a time.
struct rejection {
  /// The status if the peer's program called reject(), on InfiniBand and RoCE.
  static constexpr int consumer_reject = 28;
  /// The status if no program listens at the port, on InfiniBand and RoCE.
  static constexpr int no_listener = 8;

  /// On InfiniBand and RoCE the reason of the REJ message, on iWARP a negative errno; 0: none.
  int status = 0;
  /// The private data of reject(), padded with zeros.
  std::vector<std::byte> private_data;

  /// Returns whether the peer's program rejected, not its connection manager. On iWARP the status
  /// does not distinguish them: the result is also true if no program listens at the port.
  [[nodiscard]] bool is_consumer_reject() const noexcept;
};
/// Returns the meaning of a status: `28, the peer's program rejected the request`.
[[nodiscard]] std::string describe_rejection(int status);

/// A copy of an event. The event was acknowledged, so destroying an identifier does not wait for
/// it. A connect_request owns the new identifier until take_request(). If it is destroyed before
/// take_request(), the request is rejected. Threads: one thread at a time.
class event {
 public:
  /// Moves the event with its request.
  event(event&&) noexcept;
  /// Rejects the request of this event, unless it was taken, and moves the other event.
  event& operator=(event&& other) noexcept;
  ~event();

  /// Returns the type of the event.
  [[nodiscard]] event_kind kind() const noexcept { return kind_; }
  /// Returns 0, a negative errno, or a status of the transport: see describe_rejection().
  [[nodiscard]] int status() const noexcept { return status_; }
  /// Returns whether the event belongs to `id`; a connect_request also belongs to the listening
  /// identifier. Do not compare with identifiers that were created after the event was taken.
  [[nodiscard]] bool concerns(const identifier& id) const;
  /// Returns the name of the identifier in error messages.
  [[nodiscard]] const std::string& object() const noexcept VERBENA_LIFETIMEBOUND { return object_; }

  /// Returns the new identifier of a connect_request, to accept or reject the request. Its events
  /// are reported on the listener's channel. Errors: `invalid_argument` for another kind, or if the
  /// identifier was taken before.
  [[nodiscard]] result<identifier> take_request();

  /// Returns the parameters of connect_request, connect_response and established, in connected port
  /// spaces; `nullopt` for other events.
  [[nodiscard]] std::optional<connection_parameters> connection() const noexcept
      VERBENA_LIFETIMEBOUND;
  /// Returns the address of established, in datagram port spaces, and of multicast_join; `nullopt`
  /// for other events.
  [[nodiscard]] std::optional<datagram_parameters> datagram() const noexcept;
  /// Returns the private data of the peer, padded with zeros; valid as long as the event.
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept VERBENA_LIFETIMEBOUND {
    return private_data_;
  }
  /// Returns the rejection; `nullopt` for kinds other than `rejected`.
  [[nodiscard]] std::optional<rejection> rejected() const;

  /// Returns the error of `call`, with cause and remedy. Precondition: is_failure(kind()).
  [[nodiscard]] error failure(std::string_view call) const;

 private:
  friend class event_channel;
  event(const rdma_cm_event& pending, std::shared_ptr<detail::identifier_state> request);
  void drop_request() noexcept;

  event_kind kind_;
  int status_;
  const rdma_cm_id* id_;
  const rdma_cm_id* listener_;
  std::string object_;
  std::vector<std::byte> private_data_;
  bool has_connection_ = false;
  bool has_datagram_ = false;
  connection_parameters connection_;
  datagram_parameters datagram_;
  identifier request_;  // of a connect_request that was not taken
};

/// Describes an event: `REJECTED of connection 10.0.0.1:40000 -> 10.0.0.2:7471, status 28, …`.
[[nodiscard]] std::string to_string(const event& of);

}  // namespace verbena::inline VERBENA_ABI::cm
