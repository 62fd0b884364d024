// SPDX-License-Identifier: MIT
#include "verbena/channel/completion_hub.hpp"

#include <poll.h>

#include <algorithm>
#include <cstdint>

#include "src/base/earliest.hpp"
#include "src/channel/connection_options.hpp"
#include "src/channel/poll_batches.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/verbs/completion_channel.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

const completion_channel& events_of(const detail::operation_table& table) {
  const auto& events = table.events();
  VERBENA_ASSERT(events.has_value(),
                 "an event of a completion_hub without a completion channel was requested: create "
                 "the hub with completion_hub_options::events");
  return *events;
}

// Returns the number of entries for `operations`. On iWARP, each channel posts first_requests()
// more operations while it connects; it has at least two of the program. Devices with fewer entries
// get as many as they have.
result<std::uint32_t> entries_for(const context& of, std::uint32_t operations) {
  const std::uint64_t own = std::uint64_t{operations} / 2 * detail::first_requests(of);
  if (own == 0) return operations;
  VERBENA_TRY(const auto limits, of.query());
  const auto most = static_cast<std::uint64_t>(std::max(limits.max_completions(), 0));
  return static_cast<std::uint32_t>(
      std::max<std::uint64_t>(std::min(operations + own, most), operations));
}

}  // namespace

result<completion_hub> completion_hub::create(const context& of, std::uint32_t operations,
                                              const completion_hub_options& options) {
  if (operations == 0)
    return error::invalid_argument("completion_hub::create", of.name(),
                                   "a hub needs room for at least 1 operation");
  completion_queue_options queue{.channel = std::nullopt,
                                 .completion_vector = options.completion_vector};
  if (options.events) {
    VERBENA_TRY(queue.channel, of.create_completion_channel());
  }
  VERBENA_TRY(const std::uint32_t entries, entries_for(of, operations));
  VERBENA_TRY(auto cq, of.create_cq(entries, queue));
  return completion_hub(std::make_shared<detail::operation_table>(std::move(cq), operations));
}

result<std::size_t> completion_hub::progress() const {
  const std::ptrdiff_t events = table_->deliver_all();
  if (events >= 0) [[likely]]
    return static_cast<std::size_t>(events);
  return lose_all();
}

error completion_hub::lose_all() const {
  const int code = table_->last_failure();
  table_->lose_all(code);
  return error::from_errno(
      code, "ibv_poll_cq", cq().name(),
      "the completion queue failed; the queue pairs of channels with operations in flight were "
      "destroyed");
}

result<std::size_t> completion_hub::next_completed(std::span<completed_operation> out) const {
  if (!table_->complete_all()) [[unlikely]] {
    auto failed = lose_all();
    table_->complete_completed();
    if (!table_->has_collected()) return failed;
  }
  return table_->collect(out);
}

result<std::size_t> completion_hub::next_ready(std::span<std::uint64_t> out) const {
  if (!table_->deliver_for_ready()) [[unlikely]] {
    auto failed = lose_all();
    if (!table_->has_ready()) return failed;
  }
  return table_->next_ready(out);
}

bool completion_hub::has_something_to_return() const noexcept {
  return table_->has_completed() || table_->has_collected() || table_->has_ready();
}

int completion_hub::fd() const { return events_of(*table_).fd(); }

result<void> completion_hub::read_event() const {
  if (!table_->armed()) return {};
  VERBENA_TRY(const auto event, events_of(*table_).poll_event());
  if (event) table_->armed() = false;
  return {};
}

// First reads the event of the last request, which would end the next wait immediately. If there
// is no event yet, the queue is still armed, because each request generates one. Polls after the
// request, because completions that arrived before it may generate no event.
result<std::size_t> completion_hub::arm_and_progress() const {
  VERBENA_TRY_VOID(read_event());
  if (!table_->armed()) {
    VERBENA_TRY_VOID(cq().request_notification(notify::any_completion));
    table_->armed() = true;
  }
  return progress();
}

deadline completion_hub::next_deadline() const noexcept { return deadline::at(table_->next_due()); }

result<bool> completion_hub::arm() const {
  VERBENA_TRY(const std::size_t delivered, arm_and_progress());
  return delivered == 0 && !has_something_to_return();
}

result<std::size_t> completion_hub::wait(deadline until) const {
  const int events = fd();
  while (true) {
    VERBENA_TRY(std::size_t delivered, progress());
    if (has_something_to_return()) return std::max<std::size_t>(delivered, 1);
    if (delivered != 0 || until.expired()) return delivered;
    VERBENA_TRY(delivered, arm_and_progress());
    if (delivered != 0) return delivered;
    VERBENA_TRY(const bool readable,
                wait_for_fd(events, POLLIN, detail::earliest(next_deadline(), until)));
    if (readable) {
      VERBENA_TRY_VOID(read_event());
    } else {
      table_->armed() = false;  // the kernel may have lost the event for lack of memory
    }
  }
}

}  // namespace verbena::inline VERBENA_ABI
