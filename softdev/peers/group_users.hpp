// SPDX-License-Identifier: MIT
// Discovery of the processes that use multicast groups. Each process listens on a second name of
// its slot. After that, it checks which second names of other slots have a listener. The public
// segment of a process contains its groups.
//
// The first search tries every slot, because no list of the slots in use is reliable. Other users
// can remove sockets while the kernel lists all sockets, so that the list lacks some of ours.
// Processes of one user may have different private directories. Processes that start later find
// this one. Later searches therefore try only present and former peers, whose pairing may have
// ended.
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
  /// `own` must outlive this object.
  explicit group_users(slot_claim& own) noexcept : own_(own) {}

  /// Announces this process as a user of multicast groups, and returns the slots of the others. Of
  /// two such processes, the later one finds the other. `peers` are the slots of all present and
  /// former peers. The first call makes about four thousand system calls, later calls a few for
  /// each slot of `peers`. Does not block. Errors: the errno of listen(2), socket(2), or of opening
  /// the table of names.
  [[nodiscard]] result<std::vector<std::uint32_t>> meet(const slot_set& peers);

 private:
  slot_claim& own_;
  std::mutex mutex_;
  bool announced_ = false;
  bool searched_ = false;  ///< every slot was tried after the announcement
};

}  // namespace verbena::softdev
