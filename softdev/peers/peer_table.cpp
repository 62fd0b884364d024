// SPDX-License-Identifier: MIT
#include "softdev/peers/peer_table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace verbena::softdev {

peer_table::entry peer_table::find_or_make(std::uint32_t slot) {
  const std::lock_guard lock(mutex_);
  return find_or_make_locked(slot);
}

peer_table::entry peer_table::find_or_make_locked(std::uint32_t slot) {
  auto& place = by_slot_[slot];
  if (place && place->state() != peer_state::dead) return {place, false};
  if (place) {
    own_.ignore_wakes(*place);
    departed_.push_back(std::move(place));
  }
  place = own_.make_peer(slot);
  known_.insert(slot);
  used_.insert(slot);
  return {place, true};
}

peer_table::entry peer_table::connect(std::uint32_t slot) {
  const std::lock_guard lock(mutex_);
  new_.reserve(new_.size() + 1);  // a peer that is not in `new_` would never be connected
  entry found = find_or_make_locked(slot);
  if (found.is_new) new_.push_back(found.of);
  return found;
}

void peer_table::take_new(std::vector<std::shared_ptr<peer>>& out) {
  const std::lock_guard lock(mutex_);
  out.reserve(out.size() + new_.size());
  std::ranges::move(new_, std::back_inserter(out));
  new_.clear();
}

std::shared_ptr<peer> peer_table::find(std::uint32_t slot) const {
  if (slot >= slot_count) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto& place = by_slot_[slot];
  return place && place->state() != peer_state::dead ? place : nullptr;
}

std::vector<std::shared_ptr<peer>> peer_table::all() const {
  std::vector<std::shared_ptr<peer>> all;
  for_each([&](const std::shared_ptr<peer>& each) { all.push_back(each); });
  return all;
}

std::size_t peer_table::find_group(const gid_bytes& group,
                                   std::span<std::shared_ptr<peer>> out) const noexcept {
  std::size_t count = 0;
  const std::lock_guard lock(mutex_);
  known_.for_each([&](std::uint32_t slot) {
    const auto& each = by_slot_[slot];
    if (count == out.size() || !each) return;
    if (each->takes_records() && each->segment().may_be_in(group)) out[count++] = each;
  });
  return count;
}

bool peer_table::remove_ended(const std::shared_ptr<peer>& dead) {
  const std::lock_guard lock(mutex_);
  if (by_slot_[dead->slot()] != dead) return false;
  departed_.reserve(departed_.size() + 1);
  by_slot_[dead->slot()] = nullptr;
  known_.erase(dead->slot());
  departed_.push_back(dead);
  return true;
}

bool peer_table::sweep() {
  const std::lock_guard lock(mutex_);
  std::erase_if(departed_, [](const auto& each) {
    const bool is_remembered = each->pid() != 0 && each->may_write_late();
    return !each->may_be_inside() && !is_remembered;
  });
  return !departed_.empty();
}

void peer_table::close_all(bool queued) noexcept {
  const auto close = [queued](peer& each) {
    peer_parts& parts = each.parts();
    parts.messages.disconnect();
    if (queued) parts.messages.close_queued();
    parts.process.close();
    parts.memory.close_descriptor();
    parts.channels.close_all();
  };
  for (const auto& each : by_slot_)
    if (each) close(*each);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  for (const auto& each : departed_) close(*each);
}

}  // namespace verbena::softdev
