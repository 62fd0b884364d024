// SPDX-License-Identifier: MIT
// One end of a connection, a listener, or one end of a look-up: what an rdma_cm_id stands for.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <utility>

#include "softdev/cm/event.hpp"
#include "softdev/cm/port_addresses.hpp"

namespace verbena::softdev::cm {

using time_point = std::chrono::steady_clock::time_point;

/// How far an endpoint has come. Changed by the program's calls (manager_requests.cpp), and by
/// frames of peers and deadlines (manager_protocol.cpp).
enum class phase : std::uint8_t {
  idle,
  bound,
  listening,
  address_resolved,
  route_resolved,
  waiting,        ///< the peer has no room for another connection, or does not listen yet
  requesting,     ///< active: the request is on its way
  answered,       ///< active: the reply is here, and not confirmed
  requested,      ///< passive: not answered yet
  replied,        ///< passive: answered, not confirmed
  connected,      ///< both
  disconnecting,  ///< the peer has not confirmed the end
  timewait,
  closed,  ///< refused, failed, or a look-up that is done
};

/// What an endpoint is asked for besides its addresses.
struct endpoint_options {
  bool reuse_address = false;
  bool one_family = false;  ///< an IPv6 wildcard does not stand for IPv4, too
};

/// What is known of an endpoint at one moment. Threads: value.
struct endpoint_view {
  phase state = phase::idle;
  bool active = false;
  address source;
  address destination;
  side local;
  side remote;
};

/// Threads: thread-safe by its manager, whose functions are the only way to use it; `owner` is
/// the caller's.
class endpoint {
 public:
  endpoint(port_space space, std::uint64_t number) noexcept : space_(space), number_(number) {}
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  [[nodiscard]] port_space space() const noexcept { return space_; }
  /// Whether it looks up datagram services instead of connecting.
  [[nodiscard]] bool datagram() const noexcept {
    return space_ == port_space::udp || space_ == port_space::ipoib;
  }

  void* owner = nullptr;

 private:
  friend class manager;

  const port_space space_;
  const std::uint64_t number_;
  phase phase_ = phase::idle;
  bool active_ = false;
  bool adopted_ = true;  ///< false for a request that was not answered: nothing is told about it
  endpoint_options options_;
  channel_ptr channel_;
  std::uint32_t events_taken_ = 0;

  address source_;
  address destination_;
  side local_;
  side remote_;
  private_data proposed_;  ///< goes with the request

  unique_fd socket_;
  bool holds_port_ = false;           ///< in its manager's list of ports
  published_address published_;       ///< while it holds the port
  unique_fd own_socket_;              ///< if another process has the number of the port
  std::uint16_t ephemeral_port_ = 0;  ///< to be given back
  unsigned backlog_ = 0;
  unsigned waiting_requests_ = 0;  ///< of a listener: not taken by the program yet

  time_point deadline_ = time_point::max();
  time_point give_up_at_ = time_point::max();
  time_point patient_until_{};  ///< while nobody listens
};

}  // namespace verbena::softdev::cm
