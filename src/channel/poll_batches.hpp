// SPDX-License-Identifier: MIT
// The polls of an operation_table that take all completions of its queue. Inline, so that a poll of
// an engine is one function.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "verbena/channel/detail/channel_core.hpp"

namespace verbena::inline VERBENA_ABI::detail {

template <class Handle>
[[gnu::always_inline]] inline bool operation_table::poll_batches(Handle handle) {
  std::array<completion, batch> room;
  for (std::size_t polled = 0;;) {
    // Completions are undelivered here if a recipient calls a function that polls.
    if (has_undelivered()) [[unlikely]]
      deliver_undelivered();
    const poll_result found = cq_.poll(room);
    if (!found) [[unlikely]] {
      failed(found.error().code());
      return false;
    }
    const std::size_t count = (*found).size();
    const bool again = handle(*found);
    polled += count;
    if (polled >= (count == batch ? most_completions : batch) || (count < batch && !again))
      return true;
  }
}

[[gnu::always_inline]] inline std::optional<std::size_t> operation_table::complete_all() {
  std::size_t called = 0;
  const bool polled = poll_batches([&](std::span<const completion> found) {
    const std::size_t before = called;
    complete(found, called);
    return called != before;
  });
  if (!polled) [[unlikely]]
    return std::nullopt;
  if (has_more_to_do()) [[unlikely]] {
    delivered_ += upkeep();
    called += complete_completed();
  }
  return called;
}

// A recipient may call a function that polls, which first delivers the rest of `found` to the list
// of completed operations. While recipients are in that list, newer ones are appended to it.
[[gnu::always_inline]] inline void operation_table::complete(std::span<const completion> found,
                                                             std::size_t& called) noexcept {
  if (has_completed()) [[unlikely]]
    return deliver_later(found);
  if (found.size() == 1) return complete_one(found.front(), called);  // leaves none undelivered
  undelivered_ = found.data();
  undelivered_end_ = undelivered_ + found.size();
  while (has_undelivered()) complete_one(*undelivered_++, called);
}

[[gnu::always_inline]] inline void operation_table::complete_one(const completion& done,
                                                                 std::size_t& called) noexcept {
  queued_line& line = line_of(done.id());
  if (!line.is_oldest(done.id()) || !done.ok()) [[unlikely]] {
    called += complete_unusual(done);
    return;
  }
  ++called;
  queued_waiter& waiter = line.pop();
  waiter.result.succeed(done);
  waiter.complete(waiter);
}

}  // namespace verbena::inline VERBENA_ABI::detail
