// SPDX-License-Identifier: MIT
// The addresses of the queue pairs that communicate by packets.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "softdev/wire/network.hpp"
#include "softdev/wire/socket/udp_socket.hpp"

namespace verbena::softdev::wire {

/// Where packets of a connection may arrive. The destination address is always checked.
enum class arrival : std::uint8_t {
  any_interface,
  permitted_interfaces,  ///< the loopback interface and those of permit_interfaces()
};

/// The route between a queue pair and its peer, or a route for datagrams of any host.
struct wire_route {
  network_address own{};
  network_address peer{};
  wire::arrival arrival = arrival::any_interface;
  bool any = false;                ///< of a UD queue pair: the addresses are unused
  std::uint8_t traffic_class = 0;  ///< of IPv6 packets
  std::uint32_t interface = 0;     ///< for link-local addresses; 0: chosen by the kernel's route
  std::uint64_t connection = 0;    ///< set by the route table; different for each connection

  bool operator==(const wire_route&) const = default;
};

/// Threads: thread-safe. Allocates only in `set` and `permit_interfaces`.
class route_table {
 public:
  /// Stores the route of a queue pair. Replaces an existing route.
  void set(std::uint32_t qp_num, const wire_route& route) {
    const std::lock_guard lock(mutex_);
    wire_route& stored = routes_[qp_num];
    stored = route;
    stored.connection = ++connections_;
    empty_.store(false, std::memory_order_relaxed);
  }
  void erase(std::uint32_t qp_num) noexcept {
    const std::lock_guard lock(mutex_);
    routes_.erase(qp_num);
    empty_.store(routes_.empty(), std::memory_order_relaxed);
  }
  [[nodiscard]] std::optional<wire_route> find(std::uint32_t qp_num) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(qp_num);
    return found != routes_.end() ? std::optional(found->second) : std::nullopt;
  }
  /// One load.
  [[nodiscard]] bool empty() const noexcept { return empty_.load(std::memory_order_relaxed); }
  /// Replaces the interfaces of arrival::permitted_interfaces by those with these indexes.
  void permit_interfaces(std::vector<std::uint32_t> indexes) {
    const std::lock_guard lock(mutex_);
    permitted_ = std::move(indexes);
  }
  /// Returns whether a packet for the route may arrive on an interface. A packet on the loopback
  /// interface is from this host.
  [[nodiscard]] bool permits(const wire_route& route, std::uint32_t interface) const noexcept {
    if (interface == loopback_interface) return true;
    if (route.interface != 0 && route.interface != interface) return false;
    if (route.arrival == arrival::any_interface) return true;
    const std::lock_guard lock(mutex_);
    return std::ranges::find(permitted_, interface) != permitted_.end();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, wire_route> routes_;
  std::vector<std::uint32_t> permitted_;
  std::uint64_t connections_ = 0;
  std::atomic<bool> empty_{true};
};

}  // namespace verbena::softdev::wire
