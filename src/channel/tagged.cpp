// SPDX-License-Identifier: MIT
// Operations with a tag, whose results completion_hub::next_completed() returns.
#include <algorithm>
#include <cerrno>

#include "verbena/channel/channel.hpp"
#include "verbena/channel/detail/channel_core.hpp"

namespace verbena::inline VERBENA_ABI {
namespace detail {

tagged_waiter* operation_table::take_tagged() {
  if (tagged_.empty()) {
    tagged_ = std::vector<tagged_waiter>(most_slots_);
    for (tagged_waiter& each : tagged_) put_tagged(each);
  }
  tagged_waiter* const taken = free_tagged_;
  if (taken == nullptr) return nullptr;
  free_tagged_ = static_cast<tagged_waiter*>(taken->next);
  taken->table = this;
  taken->ended = false;
  taken->complete = [](queued_waiter& self) noexcept {
    auto& mine = static_cast<tagged_waiter&>(self);
    mine.table->collected_.push_back(mine);
  };
  return taken;
}

void operation_table::put_tagged(tagged_waiter& waiter) noexcept {
  waiter.next = free_tagged_;
  free_tagged_ = &waiter;
}

std::size_t operation_table::collect(std::span<completed_operation> out) noexcept {
  std::size_t count = 0;
  for (; count < out.size() && !collected_.empty(); ++count) {
    auto& first = static_cast<tagged_waiter&>(collected_.pop_front());
    out[count] = {.tag = first.tag, .result = first.result};
    put_tagged(first);
  }
  return count;
}

std::optional<operation_result> channel_core::start(std::uint64_t tag,
                                                    const operation_description& what,
                                                    std::source_location posted) {
  operation_table& table = slots_.table();
  if (!accept_queued()) return operation_result::refuse(refusal::queue_full, ENOMEM, posted);
  tagged_waiter* const waiter = table.take_tagged();
  if (waiter == nullptr) return operation_result::refuse(refusal::not_collected, ENOMEM, posted);
  waiter->tag = tag;
  waiter->result = operation_result::pending(posted);
  if (post(what, *waiter)) [[likely]]
    return std::nullopt;
  const operation_result refused = waiter->result;
  table.put_tagged(*waiter);
  return refused;
}

}  // namespace detail

using kind = detail::operation_kind;

std::optional<operation_result> channel::start_send(std::uint64_t tag, const outgoing& data,
                                                    const operation_options& options,
                                                    std::source_location posted) {
  return core().start(tag, {.kind = kind::send, .out = data, .options = options}, posted);
}

std::optional<operation_result> channel::start_receive(std::uint64_t tag,
                                                       std::span<const sink> into,
                                                       std::source_location posted) {
  return core().start(tag, {.kind = kind::receive, .in = into}, posted);
}

std::optional<operation_result> channel::start_write(std::uint64_t tag, const outgoing& data,
                                                     const remote_region& to,
                                                     const operation_options& options,
                                                     std::source_location posted) {
  return core().start(tag, {.kind = kind::write, .out = data, .remote = to, .options = options},
                      posted);
}

std::optional<operation_result> channel::start_read(std::uint64_t tag, std::span<const sink> into,
                                                    const remote_region& from,
                                                    std::source_location posted) {
  return core().start(tag, {.kind = kind::read, .in = into, .remote = from}, posted);
}

std::optional<operation_result> channel::start_compare_and_swap(std::uint64_t tag,
                                                                const sink& before,
                                                                const remote_region& target,
                                                                compare_and_swap_operands operands,
                                                                std::source_location posted) {
  return core().start(
      tag, detail::operation_description::comparison(target, operands, std::span(&before, 1)),
      posted);
}

std::optional<operation_result> channel::start_fetch_and_add(std::uint64_t tag, const sink& before,
                                                             const remote_region& target,
                                                             std::uint64_t addend,
                                                             std::source_location posted) {
  return core().start(
      tag, detail::operation_description::addition(target, addend, std::span(&before, 1)), posted);
}

}  // namespace verbena::inline VERBENA_ABI
