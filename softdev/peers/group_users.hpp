// SPDX-License-Identifier: MIT
// How the processes that use multicast groups find each other. Each listens by a second name of its
// slot, and looks once, after it listens, which of the other slots' names have a listener. The
// public segment of a process says in which groups it is.
//
// The first search tries each slot, because there is no list of slots in use that other users
// cannot change: they can remove sockets while the kernel lists all, so that it skips ours, and
// processes of one user may have different private directories. Processes that come later find this
// one. So later searches ask the processes that are, or were, peers: the pairing with one of them
// may have ended.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "softdev/peers/slot_claim.hpp"
#include "softdev/peers/slot_set.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Threads: thread-safe.
class group_users {
 public:
  /// The claim outlives it.
  explicit group_users(slot_claim& own) noexcept : own_(own) {}

  /// Makes this process known to all that use multicast groups from now on. Returns the slots of
  /// those that do already: of two such processes the later one finds the other. `peers` are the
  /// slots of all that were peers of this process. The first call makes about four thousand system
  /// calls, later calls some for each slot of `peers`. Does not block. Errors: the errno of
  /// listen(2), socket(2), or of opening the table of names.
  [[nodiscard]] result<std::vector<std::uint32_t>> meet(const slot_set& peers);

 private:
  slot_claim& own_;
  std::mutex mutex_;
  bool announced_ = false;
  bool searched_ = false;  ///< each slot was tried after that
};

}  // namespace verbena::softdev
