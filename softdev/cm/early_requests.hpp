// SPDX-License-Identifier: MIT
// Requests of other hosts that arrive before a process listens.
#pragma once

#include <cstdint>
#include <vector>

#include "softdev/cm/mad_carrier.hpp"
#include "softdev/cm/mad_routing.hpp"
#include "softdev/cm/manager_options.hpp"

namespace verbena::softdev::cm {

/// Keeps a request for manager_options::listener_timeout and then rejects it, so that two programs
/// that agree on a port do not depend on which of them is first. The kernel's active side sends one
/// request and reports its rejection. Threads: one thread at a time: the manager holds its lock
/// during each call.
class early_requests {
 public:
  /// Both arguments outlive it.
  early_requests(const manager_options& options, mad_carrier* carrier) noexcept
      : options_(options), carrier_(carrier) {}

  /// Passes a request to the listening process. Keeps the request if no process listens, or if it
  /// cannot be passed on. If too many requests are kept, rejects it instead, or drops it if it
  /// cannot be passed on: the peer sends it again. Allocates.
  void arrive(const address& own, const address& peer, const mad& request, time_point now);
  /// Handles a rejection without a receiver: the peer gives up a request. Forgets the request, or
  /// passes the rejection to the process that has the request.
  void give_up(const address& peer, const mad& rejection) noexcept;
  /// Passes on the requests that are due. Rejects or drops those that have been kept for too long.
  void expire(time_point now);
  [[nodiscard]] time_point next_deadline() const noexcept { return next_try_; }

 private:
  struct early_request {
    address own;
    address peer;
    mad request;
    time_point reject_at;
  };

  [[nodiscard]] bool has_room_for(const address& peer) const noexcept;
  [[nodiscard]] static bool is(const early_request& which, const address& peer, mad_kind kind,
                               std::uint32_t communication_id) noexcept;
  [[nodiscard]] bool ends(const early_request& which, time_point reject_at,
                          time_point now) noexcept;

  const manager_options& options_;
  mad_carrier* const carrier_;
  std::vector<early_request> kept_;
  passed_requests passed_;
  time_point next_try_ = time_point::max();
};

}  // namespace verbena::softdev::cm
