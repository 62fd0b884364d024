// SPDX-License-Identifier: MIT
#include "verbena/channel/detail/operation_table.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "src/channel/poll_batches.hpp"
#include "verbena/channel/detail/channel_core.hpp"

namespace verbena::inline VERBENA_ABI::detail {

operation_table::operation_table(completion_queue cq, std::uint32_t slots)
    : cq_(std::move(cq)),
      events_(cq_.channel()),
      most_slots_(slots),
      unreserved_(slots),
      lines_{&no_line_},
      free_line_ids_{line_bit} {
  slots_.reserve(slots);
  held_.reserve(slots);
  add_slot();
}

void operation_table::add_slot() {
  if (slots_.size() == most_slots_) return;
  held_.emplace_back();
  operation_slot& added = slots_.emplace_back();
  // Not less than 2^30: ids of requests that the program posts itself are.
  added.id = one_use | (slots_.size() - 1);
  added.next = std::exchange(free_, &added);
}

bool operation_table::reserve(std::uint32_t count) noexcept {
  if (count > unreserved_) return false;
  unreserved_ -= count;
  return true;
}

std::ptrdiff_t operation_table::deliver_all() {
  const bool polled = poll_batches([this](std::span<const completion> found) {
    for (const completion& done : found) deliver(done);
    delivered_ += found.size();
    return false;
  });
  if (!polled) [[unlikely]]
    return -1;
  const std::size_t events = upkeep();
  return static_cast<std::ptrdiff_t>(take_delivered() + events);
}

void operation_table::deliver_one(const completion& done) noexcept {
  if (has_undelivered()) [[unlikely]] {
    // Completions that complete_all() has polled are older, and a queued line needs them first.
    // `done` may be part of a result that they replace.
    const completion later = done;
    deliver_undelivered();
    deliver(later);
  } else {
    deliver(done);
  }
  ++delivered_;
}

std::size_t operation_table::deliver_undelivered() noexcept {
  std::size_t delivered = 0;
  for (; has_undelivered(); ++delivered) deliver_polled(*undelivered_++);
  delivered_ += delivered;
  return delivered;
}

void operation_table::deliver_polled(const completion& done) noexcept { deliver(done); }

// Handles a completion that is not the success of the oldest operation of a line.
std::size_t operation_table::complete_unusual(const completion& done) noexcept {
  if (!is_of_line(done.id())) {
    ++delivered_;
    deliver(done);
    return 0;
  }
  queued_waiter* const ended = end_queued(done);
  if (ended == nullptr) return 0;
  ended->complete(*ended);
  return 1;
}

// Delivers completions without calling recipients, because older ones have not been called yet.
void operation_table::deliver_later(std::span<const completion> found) noexcept {
  for (const completion& done : found) {
    if (!is_of_line(done.id())) ++delivered_;
    deliver(done);
  }
}

bool operation_table::deliver_for_ready() {
  const bool polled = poll_batches([this](std::span<const completion> found) {
    for (const completion& done : found) {
      if (!is_of_line(done.id()) && !is_of_tagged(done.id())) ++delivered_;
      deliver_polled(done);
    }
    return false;
  });
  if (!polled) [[unlikely]]
    return false;
  delivered_ += upkeep();
  return true;
}

std::size_t operation_table::complete_completed() noexcept {
  const std::size_t count = completed_count_;
  for (std::size_t called = 0; called < count; ++called) {
    queued_waiter* const next = take_completed();
    if (next == nullptr) return called;  // some operations were destroyed in the meantime
    next->complete(*next);
  }
  return count;
}

void operation_table::lose_all(int code) noexcept {
  for (const operation_slot& slot : slots_)
    if (slot.owner != nullptr) slot.owner->lose(code);
  for (const membership& each : members_)
    if (each.who != nullptr) {
      each.who->lose(code);
      mark_ready(*each.who);
    }
  for (const queued_line* const line : lines_)
    if (line != &no_line_) line->owner().lose(code);
}

bool operation_table::enroll(table_member& member) {
  if (free_members_.empty()) {
    if (members_.size() == most_members) return false;
    const auto index = static_cast<std::uint32_t>(members_.size());
    free_members_.reserve(members_.size() + 1);  // dismiss() does not allocate
    members_.push_back({.who = nullptr, .key = member_bit | std::uint64_t{index} << 32U});
    free_members_.push_back(index);
  }
  membership& taken = members_[free_members_.back()];
  free_members_.pop_back();
  taken.who = &member;
  member.key_ = taken.key;
  return true;
}

bool operation_table::add(queued_line& line) {
  if (free_line_ids_.empty()) {
    const std::size_t before = lines_.size();
    if (before == most_members) return false;
    free_line_ids_.reserve(2 * before);  // dismiss() does not allocate
    lines_.resize(2 * before, &no_line_);
    line_mask_ = lines_.size() - 1;
    for (std::size_t index = lines_.size(); index-- > before;)
      free_line_ids_.push_back(line_bit | index);
  }
  line.next_id_ = line.oldest_id_ = free_line_ids_.back();
  free_line_ids_.pop_back();
  lines_[index_of(line.next_id_ ^ line_bit)] = &line;
  return true;
}

void operation_table::dismiss(queued_line& line) noexcept {
  if (line.next_id_ == 0) return;
  lines_[index_of(line.next_id_ ^ line_bit)] = &no_line_;
  free_line_ids_.push_back(line.next_id_);
  line.next_id_ = 0;
}

void operation_table::dismiss(table_member& member) noexcept {
  if (member.key_ == 0) return;
  const auto index = static_cast<std::uint32_t>(member.key_ >> 32U) % most_members;
  membership& left = members_[index];
  left.who = nullptr;
  left.key = (left.key + member_use) & key_mask;
  free_members_.push_back(index);
  member.key_ = 0;
  unmark_ready(member);
  for (table_member** at = &attended_; *at != nullptr; at = &(*at)->next_attended_) {
    if (*at != &member) continue;
    *at = member.next_attended_;
    break;
  }
  for (table_member** at = &timed_; *at != nullptr; at = &(*at)->next_timed_) {
    if (*at != &member) continue;
    *at = member.next_timed_;
    break;
  }
  if (timed_ == nullptr) next_due_ = table_member::time_point::max();
}

void operation_table::deliver_to_others(const completion& done) noexcept {
  const std::uint64_t id = done.id();
  if (is_of_line(id)) {
    if (queued_waiter* const ended = end_queued(done); ended != nullptr) append_completed(*ended);
    return;
  }
  const auto index = static_cast<std::uint32_t>(id >> 32U) % most_members;
  if ((id & member_bit) == 0 || index >= members_.size()) return;
  const membership& to = members_[index];
  if (to.who == nullptr || to.key != (id & key_mask)) return;
  attend(*to.who);
  to.who->completed(done);
}

bool operation_table::is_of_tagged(std::uint64_t id) const noexcept {
  const auto index = static_cast<std::uint32_t>(id >> 32U) % most_members;
  return (id & member_bit) != 0 && index < members_.size() && members_[index].who != nullptr &&
         members_[index].who->tag_.has_value();
}

void operation_table::set_tag(table_member& member, std::optional<std::uint64_t> tag) noexcept {
  unmark_ready(member);
  member.tag_ = tag;
  mark_ready(member);
}

void operation_table::unmark_ready(table_member& member) noexcept {
  if (!member.is_ready_) return;
  member.is_ready_ = false;
  table_member** at = &ready_;
  while (*at != &member) at = &(*at)->next_ready_;
  *at = member.next_ready_;
  if (end_of_ready_ == &member.next_ready_) end_of_ready_ = at;
}

std::size_t operation_table::next_ready(std::span<std::uint64_t> out) noexcept {
  std::size_t count = 0;
  for (; count < out.size() && ready_ != nullptr; ++count) {
    table_member& member = *ready_;
    ready_ = member.next_ready_;
    if (ready_ == nullptr) end_of_ready_ = &ready_;
    member.is_ready_ = false;
    out[count] = *member.tag_;
  }
  return count;
}

void operation_table::start_timer(table_member& member) noexcept {
  if (member.is_timed_) return;
  member.is_timed_ = true;
  member.due_ = next_due_ = table_member::time_point::min();
  member.next_timed_ = std::exchange(timed_, &member);
}

// If a member calls attend() in tend(), the next call of this function tends the member again.
std::size_t operation_table::upkeep_of_members() {
  table_member* next = std::exchange(attended_, nullptr);
  while (next != nullptr) {
    table_member& member = *next;
    next = std::exchange(member.next_attended_, nullptr);
    member.is_attended_ = false;
    member.tend();
    mark_ready(member);
  }
  if (timed_ == nullptr) return 0;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_due_) return 0;
  std::size_t events = 0;
  next_due_ = table_member::time_point::max();
  for (table_member** at = &timed_; *at != nullptr;) {
    table_member& member = **at;
    if (member.due_ <= now) {
      const std::size_t before = events;
      const auto due = member.expire(now, events);
      if (events != before) mark_ready(member);
      if (!due) {
        member.is_timed_ = false;
        *at = std::exchange(member.next_timed_, nullptr);
        continue;
      }
      member.due_ = *due;
    }
    next_due_ = std::min(next_due_, member.due_);
    at = &member.next_timed_;
  }
  return events;
}

int operation_table::failed(int code) noexcept {
  last_failure_ = code == 0 ? EIO : code;
  return -1;
}

}  // namespace verbena::inline VERBENA_ABI::detail
