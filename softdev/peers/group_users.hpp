// SPDX-License-Identifier: MIT
// How the processes that use multicast groups find each other. Each listens by a second name of its
// slot, and looks once, after it listens, which of the other slots' names have a listener. Which
// group a process is in says its public segment.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "softdev/peers/slot_claim.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Threads: thread-safe.
class group_users {
 public:
  /// The claim outlives it.
  explicit group_users(slot_claim& own) noexcept : own_(own) {}

  /// Makes this process known to all that use multicast groups from now on. Returns the slots of
  /// those that do already: of two such processes the later one finds the other. About four
  /// thousand system calls; does not block. Errors: the errno of listen(2).
  [[nodiscard]] result<std::vector<std::uint32_t>> meet();

 private:
  slot_claim& own_;
  std::mutex mutex_;
  bool announced_ = false;
};

}  // namespace verbena::softdev
