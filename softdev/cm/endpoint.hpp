// SPDX-License-Identifier: MIT
// One end of a connection, a listener, or one end of a SIDR exchange: the object of an rdma_cm_id.
#pragma once

#include <cstdint>
#include <utility>

#include "softdev/cm/event.hpp"
#include "softdev/cm/manager_options.hpp"
#include "softdev/cm/ports.hpp"

namespace verbena::softdev::cm {

/// The state of an endpoint. The manager changes it until the route is resolved, then `connections`
/// does.
enum class phase : std::uint8_t {
  idle,
  bound,
  listening,
  address_resolved,
  route_resolved,
  waiting,        ///< the peer has no room for another connection, or does not listen yet
  requesting,     ///< active: request sent
  answered,       ///< active: reply received, not confirmed
  requested,      ///< passive: not answered yet
  replied,        ///< passive: answered, not confirmed
  connected,      ///< both sides
  disconnecting,  ///< the peer has not confirmed the end
  timewait,
  closed,  ///< rejected, failed, or a SIDR exchange that is complete
};

/// A snapshot of an endpoint. Threads: value.
struct endpoint_view {
  phase state = phase::idle;
  bool active = false;
  address source;
  address destination;
  side local;
  side remote;
  endpoint_options options;
};

/// Threads: one thread at a time: only functions of its manager use it, with the lock held.
/// `owner` belongs to the caller.
class endpoint {
 public:
  endpoint(port_space space, std::uint64_t number) noexcept {
    place_.space = space;
    place_.number = number;
  }
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  [[nodiscard]] port_space space() const noexcept { return place_.space; }
  /// Returns whether the endpoint resolves datagram services (SIDR) instead of connecting.
  [[nodiscard]] bool datagram() const noexcept {
    return space() == port_space::udp || space() == port_space::ipoib;
  }

  void* owner = nullptr;

 private:
  friend class manager;      // addresses and events
  friend class connections;  // everything else

  struct request {
    private_data data;
    time_point give_up_at = time_point::max();
    time_point retry_until{};  ///< while no process listens
  };
  struct route {
    bool to_another_host = false;        ///< active: `destination_` is on another host
    std::uint32_t communication_id = 0;  ///< 0: the peer is on this host
  };
  struct backlog {
    unsigned limit = 0;
    unsigned waiting = 0;  ///< requests that the program has not taken
  };

  port_holder place_;
  phase phase_ = phase::idle;
  bool active_ = false;
  bool adopted_ = true;  ///< false for a request that was not accepted: it has no events
  channel_ptr channel_;
  std::uint32_t events_taken_ = 0;

  address destination_;
  route route_;
  side local_;
  side remote_;
  unique_fd socket_;  ///< to the peer
  request request_;   ///< of the active side
  backlog backlog_;   ///< of a listener
  time_point deadline_ = time_point::max();
};

}  // namespace verbena::softdev::cm
