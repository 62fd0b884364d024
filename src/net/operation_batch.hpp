// SPDX-License-Identifier: MIT
// Operations on several channels that are in flight at the same time. Used by the blocking
// functions and the steps of multi_channel.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "src/net/channel_access.hpp"
#include "src/net/rank_list.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/net/multi_channel.hpp"
#include "verbena/net/peer_operations.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

[[nodiscard]] inline std::uint32_t rank_of(std::uint32_t rank) { return rank; }
[[nodiscard]] inline std::uint32_t rank_of(const peer_send& of) { return of.rank; }
[[nodiscard]] inline std::uint32_t rank_of(const peer_receive& of) { return of.rank; }
[[nodiscard]] inline std::uint32_t rank_of(const peer_write& of) { return of.to.rank; }
[[nodiscard]] inline std::uint32_t rank_of(const peer_read& of) { return of.from.rank; }

[[nodiscard]] inline verbena::detail::operation_description describe(const peer_send& of) {
  return {.kind = verbena::detail::operation_kind::send, .out = of.data, .options = of.options};
}
[[nodiscard]] inline verbena::detail::operation_description describe(const peer_receive& of) {
  return {.kind = verbena::detail::operation_kind::receive, .in = std::span(&of.into, 1)};
}
[[nodiscard]] inline verbena::detail::operation_description describe(const peer_write& of) {
  return {.kind = verbena::detail::operation_kind::write,
          .out = of.data,
          .remote = of.to.region,
          .options = of.options};
}
[[nodiscard]] inline verbena::detail::operation_description describe(const peer_read& of) {
  return {.kind = verbena::detail::operation_kind::read,
          .in = std::span(&of.into, 1),
          .remote = of.from.region};
}

template <class Part>
[[nodiscard]] result<void> check_ranks(const char* call, const multi_channel& channels,
                                       std::span<Part> parts) {
  for (const auto& each : parts)
    if (rank_of(each) >= channels.size())
      return error::invalid_argument(
          call, {},
          fmt::format("rank {} is not less than the number of channels, {}", rank_of(each),
                      channels.size()));
  return {};
}

/// At most 64 operations. Must not be destroyed while an operation is in flight. Threads: one
/// thread at a time, with the channels.
class operation_batch {
 public:
  operation_batch(multi_channel& channels, std::source_location posted) noexcept
      : channels_(channels), posted_(posted) {}
  operation_batch(const operation_batch&) = delete;
  operation_batch& operator=(const operation_batch&) = delete;
  ~operation_batch() = default;

  [[nodiscard]] bool is_full() const noexcept { return count_ == entries_.size(); }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Posts an operation. collect() stores its result in `out`. Returns false if a queue is full. A
  /// post that connects its channel blocks at most until `until`. Precondition: !is_full().
  [[nodiscard]] bool try_post(std::uint32_t rank,
                              const verbena::detail::operation_description& what,
                              operation_result& out, deadline until) {
    entry& next = entries_[count_];
    next.waiter.ended = false;
    next.out = &out;
    next.rank = rank;
    const auto* const slot =
        core_of(next).post(what, {.waiter = &next.waiter, .posted = posted_, .until = until});
    const bool has_room = slot != nullptr || next.waiter.result.refusal() != refusal::queue_full;
    if (has_room) ++count_;
    return has_room;
  }
  /// Returns true if the last operation was refused because its channel could not be connected.
  /// Precondition: try_post() has returned true.
  [[nodiscard]] bool has_last_failed_to_connect() const noexcept {
    const auto& last = entries_[count_ - 1].waiter;
    return last.ended && last.result.refusal() == refusal::connect_failed;
  }
  /// Records the refusal of the last try_post() as the result of its operation.
  void refuse() noexcept { ++count_; }
  /// Records a refused operation without posting it. Precondition: !is_full().
  void refuse(std::uint32_t rank, operation_result& out, refusal why, int code) noexcept {
    entry& next = entries_[count_++];
    next.waiter.ended = true;
    next.waiter.result = operation_result::refuse(why, code, posted_);
    next.out = &out;
    next.rank = rank;
  }
  /// Calls `use` with the channel and the waiter of each operation in flight.
  template <class Use>
  void for_each_in_flight(Use&& use) {
    for (const entry& each : std::span(entries_).first(count_))
      if (!each.waiter.ended) use(core_of(each), each.waiter);
  }
  [[nodiscard]] bool have_ended() const noexcept {
    for (const entry& each : std::span(entries_).first(count_))
      if (!each.waiter.ended) return false;
    return true;
  }
  /// Stores the results. Precondition: have_ended(). Allocates if an operation has failed.
  void collect() {
    for (const entry& each : std::span(entries_).first(count_)) {
      *each.out = each.waiter.result;
      if (*each.out) continue;
      if (!first_) first_ = *each.out;
      failed_.push_back(each.rank);
    }
    count_ = 0;
  }
  /// Returns the first failure with the ranks of all failures.
  [[nodiscard]] result<void> outcome() {
    if (!first_) return {};
    auto first = channel_access::reason(channels_[failed_.front()], *first_);
    return with_failed_ranks(std::move(first), std::move(failed_));
  }

 private:
  struct entry {
    verbena::detail::operation_waiter waiter;
    operation_result* out = nullptr;
    std::uint32_t rank = 0;
  };

  [[nodiscard]] verbena::detail::channel_core& core_of(const entry& of) {
    return channel_access::core_of(channels_[of.rank]);
  }

  multi_channel& channels_;
  std::source_location posted_;
  std::array<entry, 64> entries_;
  std::size_t count_ = 0;
  std::optional<operation_result> first_;
  std::vector<std::uint32_t> failed_;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
