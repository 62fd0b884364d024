// SPDX-License-Identifier: MIT
// The blocking level: post, then poll until it is over.
#include "src/channel/usual.hpp"
#include "verbena/channel/channel.hpp"

namespace verbena::inline VERBENA_ABI {

using detail::send_kind;
using detail::usual;

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

operation_result channel::run(const detail::send_description& what, deadline until,
                              std::source_location posted) {
  detail::operation_waiter waiter;
  if (auto refused = core().post(what, {.waiter = &waiter, .posted = posted})) return *refused;
  core().await(waiter, until);
  return waiter.result;
}

operation_result channel::send(const outgoing& data, deadline until,
                               const operation_options& options, std::source_location posted) {
  if (const source* piece = usual(data, options); piece != nullptr) [[likely]]
    if (auto* slot =
            core().post_usual<send_kind::send>(piece->slice(), piece->domain(), {}, posted);
        slot != nullptr) [[likely]]
      return outcome_of(core(), *slot, until, posted);
  return run({.kind = send_kind::send, .out = data, .options = options}, until, posted);
}

operation_result channel::receive(const sink& into, deadline until, std::source_location posted) {
  if (auto* slot = core().post_usual_receive(into.slice(), into.domain(), posted); slot != nullptr)
      [[likely]]
    return outcome_of(core(), *slot, until, posted);
  return receive(std::span(&into, 1), until, posted);
}

operation_result channel::receive(std::span<const sink> into, deadline until,
                                  std::source_location posted) {
  detail::operation_waiter waiter;
  if (auto refused = core().post(into, {.waiter = &waiter, .posted = posted})) return *refused;
  core().await(waiter, until);
  return waiter.result;
}

operation_result channel::write(const outgoing& data, const remote_region& to, deadline until,
                                const operation_options& options, std::source_location posted) {
  if (const source* piece = usual(data, options); piece != nullptr) [[likely]]
    if (auto* slot =
            core().post_usual<send_kind::write>(piece->slice(), piece->domain(), to, posted);
        slot != nullptr) [[likely]]
      return outcome_of(core(), *slot, until, posted);
  return run({.kind = send_kind::write, .out = data, .remote = to, .options = options}, until,
             posted);
}

operation_result channel::read(const sink& into, const remote_region& from, deadline until,
                               std::source_location posted) {
  if (auto* slot = core().post_usual<send_kind::read>(into.slice(), into.domain(), from, posted);
      slot != nullptr) [[likely]]
    return outcome_of(core(), *slot, until, posted);
  return read(std::span(&into, 1), from, until, posted);
}

operation_result channel::read(std::span<const sink> into, const remote_region& from,
                               deadline until, std::source_location posted) {
  return run({.kind = send_kind::read, .in = into, .remote = from}, until, posted);
}

operation_result channel::compare_and_swap(const sink& before, const remote_region& target,
                                           compare_and_swap_operands operands, deadline until,
                                           std::source_location posted) {
  return run({.kind = send_kind::compare_and_swap,
              .in = std::span(&before, 1),
              .remote = target,
              .expected_or_addend = operands.expected,
              .desired = operands.desired},
             until, posted);
}

operation_result channel::fetch_and_add(const sink& before, const remote_region& target,
                                        std::uint64_t addend, deadline until,
                                        std::source_location posted) {
  return run({.kind = send_kind::fetch_and_add,
              .in = std::span(&before, 1),
              .remote = target,
              .expected_or_addend = addend},
             until, posted);
}

}  // namespace verbena::inline VERBENA_ABI
