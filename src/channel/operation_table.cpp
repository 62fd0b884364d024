// SPDX-License-Identifier: MIT
#include "verbena/channel/detail/operation_table.hpp"

#include <array>
#include <cerrno>

#include "verbena/base/assert.hpp"
#include "verbena/channel/detail/channel_core.hpp"

namespace verbena::inline VERBENA_ABI::detail {

operation_table::operation_table(completion_queue cq, std::uint32_t slots)
    : cq_(std::move(cq)), slots_(slots), unreserved_(slots) {
  for (std::uint32_t i = 0; i < slots; ++i) slots_[i].next = i + 1 < slots ? i + 1 : none;
  free_ = slots == 0 ? none : 0;
}

bool operation_table::reserve(std::uint32_t count) noexcept {
  if (count > unreserved_) return false;
  unreserved_ -= count;
  return true;
}

operation_slot& operation_table::take(channel_core& owner) noexcept {
  VERBENA_ASSERT(free_ != none, "channels use no more slots than they have reserved");
  operation_slot& slot = slots_[free_];
  free_ = slot.next;
  slot.owner = &owner;
  return slot;
}

void operation_table::put(operation_slot& slot) noexcept {
  slot.owner = nullptr;
  slot.waiter = nullptr;
  slot.scope = nullptr;
  ++slot.generation;
  slot.next = free_;
  free_ = static_cast<std::uint32_t>(&slot - slots_.data());
}

int operation_table::progress(std::size_t& delivered) noexcept {
  std::array<completion, 16> batch;
  const poll_result polled = cq_.poll(batch);
  if (!polled) [[unlikely]] {
    const int code = polled.error().code();
    return code == 0 ? EIO : code;
  }
  delivered = (*polled).size();
  for (const completion& done : *polled) {
    const auto index = static_cast<std::uint32_t>(done.id());
    if (index >= slots_.size()) continue;
    operation_slot& slot = slots_[index];
    // What lost its slot before it completed means nothing any more.
    if (slot.owner == nullptr || slot.generation != done.id() >> 32U) continue;
    slot.owner->ended(slot, done);
  }
  return 0;
}

}  // namespace verbena::inline VERBENA_ABI::detail
