// SPDX-License-Identifier: MIT
#include "softdev/peers/group_users.hpp"

#include "softdev/core/process_slot.hpp"

namespace verbena::softdev {

result<std::vector<std::uint32_t>> group_users::meet() {
  const std::lock_guard lock(mutex_);
  if (!announced_) {
    if (const int failed = own_.announce_group_user(); failed != 0)
      return error::from_errno(failed, "listen", "multicast groups of soft0");
    announced_ = true;
  }
  std::vector<std::uint32_t> found;
  group_user_search search;
  for (std::uint32_t other = 0; other < slot_count; ++other)
    if (other != own_.slot() && search.is_group_user(other)) found.push_back(other);
  return found;
}

}  // namespace verbena::softdev
