// SPDX-License-Identifier: MIT
#include "verbena/net/multi_channel_steps.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "src/base/earliest.hpp"
#include "src/net/operation_batch.hpp"
#include "src/net/step_pauses.hpp"
#include "verbena/net/multi_channel.hpp"

namespace verbena::inline VERBENA_ABI::net {
// Types in coroutine frames are not in an unnamed namespace, because g++ 12 warns about them in
// unity builds (-Wsubobject-linkage).
namespace detail {

namespace {

using verbena::detail::earliest;

// The time limit for a queue pair in the error state to flush.
constexpr std::chrono::seconds longest_flush{5};
// The longest wait for an event, because another user of the hub may have consumed it.
constexpr std::chrono::milliseconds longest_wait{20};

}  // namespace

/// The operations of one call. Threads: one thread at a time, with the channels.
class batch_in_steps : public operation_batch {
 public:
  batch_in_steps(multi_channel& channels, abort_at limit, std::source_location posted) noexcept
      : operation_batch(channels, posted), hub_(channels.hub()), limit_(limit.when()) {}
  batch_in_steps(const batch_in_steps&) = delete;
  batch_in_steps& operator=(const batch_in_steps&) = delete;
  // If the steps are destroyed early, the device must not access the memory afterwards.
  ~batch_in_steps() {
    for_each_in_flight(
        [](verbena::detail::channel_core& on, const auto& /*waiter*/) { on.flush(); });
  }

  /// Polls the hub. After the limit, ends the connections of operations in flight.
  [[nodiscard]] result<void> poll() {
    VERBENA_TRY(const std::size_t completed, hub_.progress());
    if (completed != 0) pauses_.restart();
    if (!limit_.expired() || have_ended()) return {};
    if (!is_aborting_) {
      is_aborting_ = true;
      flushed_by_ = deadline::after(longest_flush);
      for_each_in_flight(
          [](verbena::detail::channel_core& on, const auto& /*waiter*/) { on.begin_abort(); });
    } else if (flushed_by_.expired()) {
      for_each_in_flight(
          [](verbena::detail::channel_core& on, const auto& /*waiter*/) { on.lose(0); });
    }
    return {};
  }
  [[nodiscard]] deadline limit() const noexcept { return limit_; }

  /// Returns the event to wait for before the next poll().
  [[nodiscard]] result<verbena::detail::step_awaiter> next_event() {
    const auto pause = pauses_.next();
    if (!hub_.has_events() || !pauses_.may_sleep()) return verbena::detail::expiry(pause);
    VERBENA_TRY(const bool may_wait, hub_.arm());
    if (!may_wait) return verbena::detail::expiry(deadline::after(std::chrono::nanoseconds(0)));
    auto until = earliest(hub_.next_deadline(), longest_wait);
    until = earliest(until, is_aborting_ ? flushed_by_ : limit_);
    return verbena::detail::ready(hub_.fd(), POLLIN, until);
  }

 private:
  completion_hub hub_;
  deadline limit_;
  bool is_aborting_ = false;
  deadline flushed_by_ = deadline::never();
  step_pauses pauses_;
};

/// The operations of a list of parts. Threads: one thread at a time, with the channels.
template <class Part>
struct listed_operations {
  std::span<Part> parts;

  [[nodiscard]] std::size_t size() const noexcept { return parts.size(); }
  [[nodiscard]] bool try_post(operation_batch& in, std::size_t index, deadline until) {
    Part& part = parts[index];
    return in.try_post(rank_of(part), describe(part), part.result, until);
  }
  void refuse(operation_batch& in, std::size_t index) {
    in.refuse(rank_of(parts[index]), parts[index].result, refusal::limit_passed, ETIMEDOUT);
  }
  [[nodiscard]] result<void> check(const char* call, const multi_channel& channels) const {
    return check_ranks(call, channels, parts);
  }
};

/// The sends of a multicast. Threads: one thread at a time, with the channels.
struct multicast_operations {
  std::span<const std::uint32_t> ranks;
  source data;
  operation_options options;
  operation_result unused = {};

  [[nodiscard]] std::size_t size() const noexcept { return ranks.size(); }
  [[nodiscard]] bool try_post(operation_batch& in, std::size_t index, deadline until) {
    return in.try_post(
        ranks[index],
        {.kind = verbena::detail::operation_kind::send, .out = data, .options = options}, unused,
        until);
  }
  void refuse(operation_batch& in, std::size_t index) {
    in.refuse(ranks[index], unused, refusal::limit_passed, ETIMEDOUT);
  }
  [[nodiscard]] result<void> check(const char* call, const multi_channel& channels) const {
    return check_ranks(call, channels, ranks);
  }
};

/// Posts operations while there is room. After the limit, refuses the rest, so that only
/// connections with operations in flight are ended. Returns the index of the next operation.
template <class Operations>
[[nodiscard]] std::size_t post_some(batch_in_steps& all, Operations& what, std::size_t next) {
  for (; next != what.size() && !all.is_full(); ++next) {
    if (all.limit().expired())
      what.refuse(all, next);
    else if (!what.try_post(all, next, all.limit()))
      return next;
  }
  return next;
}

template <class Operations>
steps<void> run_in_steps(const char* call, multi_channel& channels, Operations what, abort_at limit,
                         std::source_location posted) {
  if (auto checked = what.check(call, channels); !checked) co_return std::move(checked).error();
  batch_in_steps all(channels, limit, posted);
  std::size_t next = 0;
  while (next != what.size() || !all.empty()) {
    next = post_some(all, what, next);
    auto polled = all.poll();
    const bool have_ended = !all.empty() && all.have_ended();
    if (have_ended) all.collect();
    if (!polled) co_return std::move(polled).error();
    if (have_ended) continue;
    VERBENA_CO_TRY(auto event, all.next_event());
    VERBENA_CO_TRY_DISCARD(co_await event);
  }
  co_return all.outcome();
}

}  // namespace detail

using detail::listed_operations;
using detail::run_in_steps;

steps<void> multi_channel_steps::scatter(std::span<peer_send> parts, abort_at limit,
                                         std::source_location posted) const {
  return run_in_steps("scatter", *of_, listed_operations<peer_send>{parts}, limit, posted);
}

steps<void> multi_channel_steps::scatter(std::span<peer_write> parts, abort_at limit,
                                         std::source_location posted) const {
  return run_in_steps("scatter", *of_, listed_operations<peer_write>{parts}, limit, posted);
}

steps<void> multi_channel_steps::gather(std::span<peer_receive> parts, abort_at limit,
                                        std::source_location posted) const {
  return run_in_steps("gather", *of_, listed_operations<peer_receive>{parts}, limit, posted);
}

steps<void> multi_channel_steps::gather(std::span<peer_read> parts, abort_at limit,
                                        std::source_location posted) const {
  return run_in_steps("gather", *of_, listed_operations<peer_read>{parts}, limit, posted);
}

steps<void> multi_channel_steps::multicast(const detail::lasting_ranks& ranks, const source& data,
                                           abort_at limit, const operation_options& options,
                                           std::source_location posted) const {
  return run_in_steps(
      "multicast", *of_,
      detail::multicast_operations{.ranks = ranks.get(), .data = data, .options = options}, limit,
      posted);
}

}  // namespace verbena::inline VERBENA_ABI::net
