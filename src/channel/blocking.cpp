// SPDX-License-Identifier: MIT
// The blocking level: posts an operation and polls until it has completed.
#include <cerrno>

#include "verbena/channel/channel.hpp"

namespace verbena::inline VERBENA_ABI {

using detail::operation_kind;

namespace {

// Waits for an operation whose completion was not found by the first poll. `polled` may be another
// completion.
[[gnu::noinline]] operation_result outcome_later(detail::channel_core& core, operation_kind kind,
                                                 abort_at limit, const operation_result& polled,
                                                 detail::found what) {
  detail::operation_waiter waiter;
  detail::operation_slot& slot = core.begin(kind, polled.posted());
  slot.waiter = &waiter;
  slot.scope = nullptr;
  if (what == detail::found::something_else) core.deliver(polled);
  core.await(waiter, limit.when());
  return waiter.result;
}

// Posts an operation for which is_usual() is true, and waits for its completion.
template <operation_kind Kind, class Piece>
[[gnu::always_inline]] inline operation_result run_usual(detail::channel_core& core,
                                                         const Piece& piece,
                                                         const remote_region& remote,
                                                         abort_at limit,
                                                         std::source_location posted) {
  const detail::operation_slot& slot = core.table().next_free();
  // The only returned object, so that the compiler constructs it in the memory of the caller.
  operation_result outcome = detail::channel_core::hope(posted);
  if (limit.has_passed()) [[unlikely]] {
    outcome = operation_result::refuse(refusal::limit_passed, ETIMEDOUT, posted);
  } else if (const post_status status = core.submit_usual<Kind>(piece, remote); !status)
      [[unlikely]] {
    outcome = operation_result::refuse_post(Kind, status.code(), posted);
  } else if (const auto what = core.poll_for(core.table(), slot, outcome);
             what != detail::found::it) [[unlikely]] {
    outcome = outcome_later(core, Kind, limit, outcome, what);
  }
  return outcome;
}

}  // namespace

operation_result channel::run(const detail::operation_description& what, abort_at limit,
                              std::source_location posted) {
  if (limit.has_passed()) [[unlikely]]
    return operation_result::refuse(refusal::limit_passed, ETIMEDOUT, posted);
  detail::operation_waiter waiter;
  if (core().post(what, {.waiter = &waiter, .posted = posted, .until = limit.when()}) != nullptr)
    core().await(waiter, limit.when());
  return waiter.result;
}

operation_result channel::send(const source& data, abort_at limit, place_of_post posted) {
  detail::channel_core& core = this->core();
  if (core.is_usual<operation_kind::send>(data, {})) [[likely]]
    return run_usual<operation_kind::send>(core, data, {}, limit, posted.at());
  return send(data, limit, {}, posted.at());
}

operation_result channel::send(const outgoing& data, abort_at limit,
                               const operation_options& options, std::source_location posted) {
  return run({.kind = operation_kind::send, .out = data, .options = options}, limit, posted);
}

operation_result channel::receive(const sink& into, abort_at limit, std::source_location posted) {
  detail::channel_core& core = this->core();
  if (core.is_usual<operation_kind::receive>(into, {})) [[likely]]
    return run_usual<operation_kind::receive>(core, into, {}, limit, posted);
  return receive(std::span(&into, 1), limit, posted);
}

operation_result channel::receive(std::span<const sink> into, abort_at limit,
                                  std::source_location posted) {
  return run({.kind = operation_kind::receive, .in = into}, limit, posted);
}

operation_result channel::write(const source& data, const remote_region& to, abort_at limit,
                                place_of_post posted) {
  detail::channel_core& core = this->core();
  if (core.is_usual<operation_kind::write>(data, to)) [[likely]]
    return run_usual<operation_kind::write>(core, data, to, limit, posted.at());
  return write(data, to, limit, {}, posted.at());
}

operation_result channel::write(const outgoing& data, const remote_region& to, abort_at limit,
                                const operation_options& options, std::source_location posted) {
  return run({.kind = operation_kind::write, .out = data, .remote = to, .options = options}, limit,
             posted);
}

operation_result channel::read(const sink& into, const remote_region& from, abort_at limit,
                               std::source_location posted) {
  detail::channel_core& core = this->core();
  if (core.is_usual<operation_kind::read>(into, from)) [[likely]]
    return run_usual<operation_kind::read>(core, into, from, limit, posted);
  return read(std::span(&into, 1), from, limit, posted);
}

operation_result channel::read(std::span<const sink> into, const remote_region& from,
                               abort_at limit, std::source_location posted) {
  return run({.kind = operation_kind::read, .in = into, .remote = from}, limit, posted);
}

operation_result channel::compare_and_swap(const sink& before, const remote_region& target,
                                           compare_and_swap_operands operands, abort_at limit,
                                           std::source_location posted) {
  return run(detail::operation_description::comparison(target, operands, std::span(&before, 1)),
             limit, posted);
}

operation_result channel::fetch_and_add(const sink& before, const remote_region& target,
                                        std::uint64_t addend, abort_at limit,
                                        std::source_location posted) {
  return run(detail::operation_description::addition(target, addend, std::span(&before, 1)), limit,
             posted);
}

}  // namespace verbena::inline VERBENA_ABI
