// SPDX-License-Identifier: MIT
#include "softdev/host/gid_table.hpp"

#include <algorithm>

namespace verbena::softdev {

gid_entry gid_table::at(std::size_t index) const noexcept {
  if (index >= length) return {};
  const std::lock_guard lock(mutex_);
  return entries_[index];
}

gid_table::entries gid_table::all() const noexcept {
  const std::lock_guard lock(mutex_);
  return entries_;
}

bool gid_table::contains(std::span<const std::uint8_t, 16> gid) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [gid](const gid_entry& entry) {
    return !entry.empty() && std::equal(gid.begin(), gid.end(), entry.gid.begin());
  });
}

bool gid_table::set(std::span<const gid_entry> now) noexcept {
  const std::lock_guard lock(mutex_);
  const entries before = entries_;
  for (gid_entry& entry : entries_)
    if (std::find(now.begin(), now.end(), entry) == now.end()) entry = {};
  for (const gid_entry& wanted : now) {
    if (std::find(entries_.begin(), entries_.end(), wanted) != entries_.end()) continue;
    const auto room = std::find_if(entries_.begin(), entries_.end(),
                                   [](const gid_entry& entry) { return entry.empty(); });
    if (room != entries_.end()) *room = wanted;
  }
  if (entries_ == before) return false;
  version_.fetch_add(1, std::memory_order_release);
  return true;
}

void gid_table::move() noexcept {
  const std::lock_guard lock(mutex_);
  std::rotate(entries_.rbegin(), entries_.rbegin() + 1, entries_.rend());
  version_.fetch_add(1, std::memory_order_release);
}

}  // namespace verbena::softdev
