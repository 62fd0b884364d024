// SPDX-License-Identifier: MIT
// The selection of the path of each request of an engine.
#pragma once

#include <atomic>
#include <cstdint>

#include "softdev/core/process_slot.hpp"
#include "softdev/core/remote_path.hpp"
#include "softdev/core/traffic_observer.hpp"

namespace verbena::softdev {

/// Selects the paths of requests. Threads: thread-safe, but `observe` must be called before a queue
/// pair exists.
class request_routes {
 public:
  request_routes(std::uint32_t process_slot, remote_path* remote) noexcept
      : remote_(remote),
        first_here_(first_number_of(process_slot)),
        count_here_(count_of_numbers(process_slot)) {}

  /// Returns the path to other processes, or nullptr.
  [[nodiscard]] remote_path* remote() const noexcept {
    return remote_.load(std::memory_order_acquire);
  }
  void set_remote(remote_path* path) noexcept { remote_.store(path); }
  /// Returns whether requests to this number are executed without a path.
  [[nodiscard]] bool stay_here(std::uint32_t qp_num) const noexcept {
    return qp_num - first_here_ < count_here_;
  }

  /// Submits all requests one by one to `path`, also those to queue pairs of this process, and
  /// reports their answers to `observer`. Both outlive the engine.
  void observe(remote_path& path, traffic_observer& observer) noexcept {
    set_remote(&path);
    observer_ = &observer;
    count_here_ = 0;
  }
  /// Returns the observer; nullptr if the traffic is not observed.
  [[nodiscard]] traffic_observer* observer() const noexcept { return observer_; }

 private:
  std::atomic<remote_path*> remote_;
  const std::uint32_t first_here_;
  std::uint32_t count_here_;
  traffic_observer* observer_ = nullptr;
};

}  // namespace verbena::softdev
