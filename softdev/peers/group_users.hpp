// SPDX-License-Identifier: MIT
// How the processes that use multicast groups find each other. Each holds an abstract name made of
// its user and its slot, and looks once, after it has its own, which of the other slots' names are
// held. Which group a process is in says its public segment.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Threads: thread-safe.
class group_users {
 public:
  explicit group_users(std::uint32_t own_slot) noexcept : own_slot_(own_slot) {}

  /// Makes this process known to all that use multicast groups from now on. Returns the slots of
  /// those that do already: of two such processes the later one finds the other. About a thousand
  /// system calls; does not block. Errors: the errno of socket(2), bind(2) or listen(2).
  [[nodiscard]] result<std::vector<std::uint32_t>> meet();

  /// For a child of fork: takes no lock.
  void close_all() noexcept { own_name_.reset(); }

 private:
  const std::uint32_t own_slot_;
  std::mutex mutex_;
  unique_fd own_name_;  ///< held while the process uses multicast groups
};

}  // namespace verbena::softdev
