// SPDX-License-Identifier: MIT
// The blocking level: post, then poll until it is over.
#include "verbena/channel/channel.hpp"

namespace verbena::inline VERBENA_ABI {

using detail::operation_kind;

namespace {

// The operation in `slot` has not succeeded at once; `polled` may have another completion.
[[gnu::noinline]] operation_result outcome_later(detail::channel_core& core,
                                                 detail::operation_slot& slot, deadline until,
                                                 const operation_result* polled) {
  detail::operation_waiter waiter;
  slot.waiter = &waiter;
  slot.scope = nullptr;
  if (polled != nullptr) core.deliver(*polled);
  core.await(waiter, until);
  return waiter.result;
}

// Waits for an operation that was just posted.
[[gnu::always_inline]] inline operation_result outcome_of(detail::channel_core& core,
                                                          detail::operation_slot& slot,
                                                          deadline until,
                                                          std::source_location posted) {
  operation_result outcome;
  const auto what = core.poll_for(slot, outcome, posted);
  if (what != detail::found::it) [[unlikely]]
    outcome = outcome_later(core, slot, until, what == detail::found::nothing ? nullptr : &outcome);
  return outcome;
}

}  // namespace

operation_result channel::run(const detail::operation_description& what, deadline until,
                              std::source_location posted) {
  detail::operation_waiter waiter;
  if (core().post(what, {.waiter = &waiter, .posted = posted}) != nullptr)
    core().await(waiter, until);
  return waiter.result;
}

operation_result channel::send(const outgoing& data, deadline until,
                               const operation_options& options, std::source_location posted) {
  if (auto* slot = core().post_usual<operation_kind::send>(data, options, {}, posted);
      slot != nullptr) [[likely]]
    return outcome_of(core(), *slot, until, posted);
  return run({.kind = operation_kind::send, .out = data, .options = options}, until, posted);
}

operation_result channel::receive(const sink& into, deadline until, std::source_location posted) {
  if (auto* slot = core().post_usual<operation_kind::receive>(into, {}, posted); slot != nullptr)
      [[likely]]
    return outcome_of(core(), *slot, until, posted);
  return receive(std::span(&into, 1), until, posted);
}

operation_result channel::receive(std::span<const sink> into, deadline until,
                                  std::source_location posted) {
  return run({.kind = operation_kind::receive, .in = into}, until, posted);
}

operation_result channel::write(const outgoing& data, const remote_region& to, deadline until,
                                const operation_options& options, std::source_location posted) {
  if (auto* slot = core().post_usual<operation_kind::write>(data, options, to, posted);
      slot != nullptr) [[likely]]
    return outcome_of(core(), *slot, until, posted);
  return run({.kind = operation_kind::write, .out = data, .remote = to, .options = options}, until,
             posted);
}

operation_result channel::read(const sink& into, const remote_region& from, deadline until,
                               std::source_location posted) {
  if (auto* slot = core().post_usual<operation_kind::read>(into, from, posted); slot != nullptr)
      [[likely]]
    return outcome_of(core(), *slot, until, posted);
  return read(std::span(&into, 1), from, until, posted);
}

operation_result channel::read(std::span<const sink> into, const remote_region& from,
                               deadline until, std::source_location posted) {
  return run({.kind = operation_kind::read, .in = into, .remote = from}, until, posted);
}

operation_result channel::compare_and_swap(const sink& before, const remote_region& target,
                                           compare_and_swap_operands operands, deadline until,
                                           std::source_location posted) {
  return run(detail::operation_description::comparison(target, operands, std::span(&before, 1)),
             until, posted);
}

operation_result channel::fetch_and_add(const sink& before, const remote_region& target,
                                        std::uint64_t addend, deadline until,
                                        std::source_location posted) {
  return run(detail::operation_description::addition(target, addend, std::span(&before, 1)), until,
             posted);
}

}  // namespace verbena::inline VERBENA_ABI
