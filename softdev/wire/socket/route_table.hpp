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

/// The route between a queue pair and its peer, or of datagrams from and to any host.
struct wire_route {
  network_address own{};
  network_address peer{};
  bool any = false;  ///< of UD: then there are no addresses

  bool operator==(const wire_route&) const = default;
};

/// Threads: thread-safe. Allocates in `set` only.
class route_table {
 public:
  /// Stores the route of a queue pair, instead of an older one.
  void set(std::uint32_t qp_num, const wire_route& route) {
    const std::lock_guard lock(mutex_);
    routes_[qp_num] = route;
  }
  void erase(std::uint32_t qp_num) noexcept {
    const std::lock_guard lock(mutex_);
    routes_.erase(qp_num);
  }
  [[nodiscard]] std::optional<wire_route> find(std::uint32_t qp_num) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(qp_num);
    return found != routes_.end() ? std::optional(found->second) : std::nullopt;
  }
  [[nodiscard]] bool empty() const noexcept {
    const std::lock_guard lock(mutex_);
    return routes_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, wire_route> routes_;
};

}  // namespace verbena::softdev::wire
