// SPDX-License-Identifier: MIT
#include "softdev/core/multicast_groups.hpp"

#include <algorithm>
#include <memory>

namespace verbena::softdev {

/// Publishes a new state. Readers see either the old state or the new one, complete.
void multicast_groups::replace(const table* next) {
  const table* const before = now_.exchange(next);
  epoch_.synchronize();
  delete before;
}

multicast_groups::change multicast_groups::attach(const gid_bytes& group, std::uint32_t qpn) {
  const std::lock_guard lock(changes_);
  const table* const before = now_.load();
  auto next = before != nullptr ? std::make_unique<table>(*before) : std::make_unique<table>();
  auto found = std::ranges::find(*next, group, &entry::group);
  const bool is_new = found == next->end();
  if (is_new) {
    if (next->size() == limits::max_groups) return change::no_room;
    found = next->insert(found, {.group = group, .members = {}});
  }
  std::vector<std::uint32_t>& members = found->members;
  const auto place = std::ranges::lower_bound(members, qpn);
  if (place != members.end() && *place == qpn) return change::none;
  if (members.size() == limits::max_group_members) return change::no_room;
  members.insert(place, qpn);
  replace(next.release());
  return is_new ? change::group : change::member;
}

multicast_groups::change multicast_groups::detach(const gid_bytes& group, std::uint32_t qpn) {
  const std::lock_guard lock(changes_);
  const table* const before = now_.load();
  if (before == nullptr) return change::none;
  auto next = std::make_unique<table>(*before);
  const auto found = std::ranges::find(*next, group, &entry::group);
  if (found == next->end() || std::erase(found->members, qpn) == 0) return change::none;
  const bool was_last = found->members.empty();
  if (was_last) next->erase(found);
  replace(next.release());
  return was_last ? change::group : change::member;
}

bool multicast_groups::has(std::uint32_t qpn) {
  const std::lock_guard lock(changes_);
  const table* const now = now_.load();
  return now != nullptr && std::ranges::any_of(*now, [qpn](const entry& each) {
           return std::ranges::binary_search(each.members, qpn);
         });
}

std::span<const std::uint32_t> multicast_groups::members(const gid_bytes& group) const noexcept {
  const table* const now = now_.load();
  if (now == nullptr) return {};
  const auto found = std::ranges::find(*now, group, &entry::group);
  return found == now->end() ? std::span<const std::uint32_t>{} : found->members;
}

}  // namespace verbena::softdev
