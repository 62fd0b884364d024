// SPDX-License-Identifier: MIT
#include "verbena/channel/detail/operation_table.hpp"

#include <cerrno>
#include <utility>

#include "verbena/channel/detail/channel_core.hpp"

namespace verbena::inline VERBENA_ABI::detail {

operation_table::operation_table(completion_queue cq, std::uint32_t slots)
    : cq_(std::move(cq)), events_(cq_.channel()), slots_(slots), held_(slots), unreserved_(slots) {
  for (std::uint32_t i = slots; i-- != 0;) {
    slots_[i].id = i;
    slots_[i].next = std::exchange(free_, &slots_[i]);
  }
}

bool operation_table::reserve(std::uint32_t count) noexcept {
  if (count > unreserved_) return false;
  unreserved_ -= count;
  return true;
}

void operation_table::remove_completed(const queued_waiter& waiter) noexcept {
  for (queued_waiter** at = &completed_; *at != nullptr; at = &(*at)->next) {
    if (*at != &waiter) continue;
    *at = waiter.next;
    if (*at == nullptr) last_completed_ = at;
    return;
  }
}

void operation_table::lose_all() noexcept {
  for (const operation_slot& slot : slots_)
    if (slot.owner != nullptr) slot.owner->lose(last_failure_);
}

int operation_table::failed(const poll_result& polled) noexcept {
  const int code = polled.error().code();
  last_failure_ = code == 0 ? EIO : code;
  return -1;
}

}  // namespace verbena::inline VERBENA_ABI::detail
