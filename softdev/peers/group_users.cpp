// SPDX-License-Identifier: MIT
#include "softdev/peers/group_users.hpp"

#include "softdev/core/process_slot.hpp"

namespace verbena::softdev {

result<std::vector<std::uint32_t>> group_users::meet(const slot_set& peers) {
  const std::lock_guard lock(mutex_);
  if (!announced_) {
    if (const int failed = own_.announce_group_user(); failed != 0)
      return error::from_errno(failed, "listen", "multicast groups of soft0");
    announced_ = true;
  }
  std::vector<std::uint32_t> found;
  VERBENA_TRY(group_user_search search, group_user_search::begin());
  int failed = 0;
  const auto try_slot = [&](std::uint32_t other) {
    if (other == own_.slot() || failed != 0) return;
    if (search.is_group_user(other, failed)) found.push_back(other);
  };
  if (searched_) {
    peers.for_each(try_slot);
  } else {
    for (std::uint32_t other = 0; other < slot_count; ++other) try_slot(other);
  }
  if (failed != 0) return error::from_errno(failed, "socket", "multicast groups of soft0");
  searched_ = true;
  return found;
}

}  // namespace verbena::softdev
