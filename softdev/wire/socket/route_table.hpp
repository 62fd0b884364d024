// SPDX-License-Identifier: MIT
// The addresses of queue pairs that are connected by packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "softdev/wire/network.hpp"

namespace verbena::softdev::wire {

/// The route between a queue pair and its peer.
struct wire_route {
  network_address own{};
  network_address peer{};
  std::uint16_t partition = 0xffff;

  bool operator==(const wire_route&) const = default;
};

/// Threads: thread-safe. Allocates in `set` only.
class route_table {
 public:
  /// Stores the route of a queue pair, instead of an older one.
  void set(std::uint32_t qp_num, const wire_route& route) {
    const std::lock_guard lock(mutex_);
    routes_[qp_num] = {.route = route};
  }
  void erase(std::uint32_t qp_num) noexcept {
    const std::lock_guard lock(mutex_);
    routes_.erase(qp_num);
  }
  [[nodiscard]] std::optional<wire_route> find(std::uint32_t qp_num) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(qp_num);
    return found != routes_.end() ? std::optional(found->second.route) : std::nullopt;
  }
  [[nodiscard]] bool empty() const noexcept {
    const std::lock_guard lock(mutex_);
    return routes_.empty();
  }

  /// Notes a packet of the peer whose IPv4 identification is 0 (`zero`), or another one. Returns
  /// whether it is accepted: after many packets in a row with 0, a peer is known to use no other
  /// one, and a packet for which another one fits is damaged.
  [[nodiscard]] bool accept_identification(std::uint32_t qp_num, bool zero) noexcept {
    constexpr std::uint32_t enough = 8;
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(qp_num);
    if (found == routes_.end()) return false;
    std::uint32_t& zeros = found->second.zeros_in_a_row;
    if (zero) {
      if (zeros < enough) ++zeros;
      return true;
    }
    if (zeros == enough) return false;
    zeros = 0;
    return true;
  }

 private:
  struct entry {
    wire_route route;
    std::uint32_t zeros_in_a_row = 0;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, entry> routes_;
};

}  // namespace verbena::softdev::wire
