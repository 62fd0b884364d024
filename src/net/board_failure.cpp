// SPDX-License-Identifier: MIT
// Failures of operations of a board: finds the missing ranks and reports failures to the other
// ranks.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <iterator>
#include <utility>

#include "src/base/call_or_else.hpp"
#include "src/base/earliest.hpp"
#include "src/net/board_layout.hpp"
#include "src/net/channel_access.hpp"
#include "src/net/message_word.hpp"
#include "src/net/rank_board.hpp"
#include "src/net/rank_list.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

using board_layout::failure_at;
using board_layout::outgoing_failure_at;
using board_layout::outgoing_state_at;
using board_layout::seen_at;
using board_layout::state_at;
using verbena::detail::earliest;
using verbena::detail::operation_kind;

// The time limit for writes in flight after a failure, and for room in a send queue for the failure
// report.
constexpr std::chrono::milliseconds time_to_release{100};

// The minimum time for the replies of the ranks that may be missing.
constexpr std::chrono::milliseconds time_for_answers{2};

// The time limit for connecting channels to report a failure.
constexpr std::chrono::milliseconds time_to_report{1000};

}  // namespace

error rank_board::fail_broken(collective& in, const request& of) {
  const std::uint32_t rank = of.rank;
  const error why = channel_access::reason(in.channels[rank], of.waiter.result);
  return fail(in, rank,
              error(why.kind(), why.code(), in.name.function, fmt::format("rank {}", rank_),
                    fmt::format("rank {} is not reachable: {}", rank, why.message())));
}

error rank_board::fail_unpolled(collective& in) {
  return fail(in, rank_,
              error::from_errno(channel_access::core_of(in.channels[rank_]).table().last_failure(),
                                in.name.function, fmt::format("rank {}", rank_),
                                "polling the completion queue of the group failed"));
}

error rank_board::fail_late(collective& in, std::uint32_t awaited) {
  const auto missing = find_missing(in);
  // If a rank failed because of another rank, its process may have ended, and the rank is
  // unreachable.
  if (auto failed_elsewhere = check_failure_of_others(in); !failed_elsewhere)
    return std::move(failed_elsewhere).error();
  const std::string call = fmt::format("{}()", in.name.function);
  if (missing.empty())
    return fail(
        in, awaited,
        error::timed_out(
            in.name.function, fmt::format("rank {}", rank_),
            fmt::format("all ranks called {}, but at least one called it after the deadline",
                        call)));
  return fail(in, missing.front(),
              error::timed_out(in.name.function, fmt::format("rank {}", rank_),
                               fmt::format("{} had not called {} when the deadline passed, "
                                           "or cannot be reached",
                                           to_text(missing), call)));
}

error rank_board::fail(collective& in, std::uint32_t culprit, error why, rank_state state) {
  is_reporting_ = true;
  failure_ = why;
  abandon(in);
  store(outgoing_failure_at(size_), failure_word(culprit, state));
  const auto time_to_connect = earliest(in.until, time_to_report);
  const auto try_to_report = [&](std::uint32_t rank) {
    return report_to(in, rank, culprit, time_to_connect);
  };
  std::vector<std::uint32_t> unreported(in.ranks.begin(), in.ranks.end());
  std::erase(unreported, rank_);
  std::erase_if(unreported, try_to_report);
  const auto limit = deadline::after(time_to_release);
  while (std::erase_if(unreported, try_to_report), !unreported.empty() && !limit.expired())
    if (channel_access::core_of(in.channels[rank_]).progress() <= 0) ::sched_yield();
  for (const std::uint32_t each : unreported) channel_access::core_of(in.channels[each]).flush();
  report_to_others(in);
  for (std::size_t polls = 0; polls < in_flight_; ++polls)
    channel_access::core_of(in.channels[rank_]).progress();
  abandon();
  is_reporting_ = false;
  return why;
}

bool rank_board::report_to(collective& in, std::uint32_t rank, std::uint32_t culprit,
                           deadline time_to_connect) {
  auto& to = channel_access::core_of(in.channels[rank]);
  if (!to.is_connected() && (rank == culprit || time_to_connect.expired())) return true;
  const auto report = own(outgoing_failure_at(size_), board_layout::word);
  if (post(in.channels, {operation_kind::write, rank, report, failure_at},
           earliest(time_to_connect, time_to_report / 4)))
    return ++in_flight_ != 0;
  return posted_[in_flight_].waiter.result.refusal() != refusal::queue_full;
}

std::uint64_t rank_board::failure_word(std::uint32_t culprit, rank_state state) const {
  static_assert(max_ranks < 0xffff);
  return word_of(epoch_ << 16U | (rank_ + 1), static_cast<std::uint32_t>(state) << 16U | culprit);
}

bool rank_board::post_state(multi_channel& channels, std::uint32_t rank) {
  if (in_flight_ == posted_.size() ||
      !post(channels,
            {operation_kind::write, rank, own(outgoing_state_at(size_), board_layout::word),
             state_at(rank_)},
            deadline::after({})))
    return false;
  ++in_flight_;
  return true;
}

// One attempt for each rank: a rank that is not informed fails at its own deadline.
void rank_board::report_to_others(collective& in) {
  store(outgoing_state_at(size_), word_of(epoch_, static_cast<std::uint32_t>(rank_state::failed)));
  for (std::uint32_t each = 0; each < size_; ++each)
    if (is_member_[each] && !std::ranges::binary_search(in.ranks, each) &&
        channel_access::core_of(in.channels[each]).is_connected())
      static_cast<void>(post_state(in.channels, each));
}

void rank_board::post_states(multi_channel& channels, std::span<const std::uint32_t> ranks,
                             deadline room) {
  abandon();
  std::vector<std::uint32_t> without_room;
  const auto is_done = [&](std::uint32_t rank) {
    return rank == rank_ || post_state(channels, rank) ||
           posted_[in_flight_].waiter.result.refusal() != refusal::queue_full;
  };
  std::ranges::copy_if(ranks, std::back_inserter(without_room), std::not_fn(is_done));
  while (!without_room.empty() && !room.expired()) {
    if (channel_access::core_of(channels[rank_]).progress() <= 0) ::sched_yield();
    std::erase_if(without_room, is_done);
  }
}

void rank_board::announce_shrink(multi_channel& channels, std::span<const std::uint32_t> ranks) {
  store(outgoing_state_at(size_), word_of(epoch_, static_cast<std::uint32_t>(rank_state::shrinks)));
  post_states(channels, ranks, deadline::after(time_to_release));
  abandon();
}

void rank_board::withdraw_shrink(multi_channel& channels, std::span<const std::uint32_t> ranks) {
  const auto state = failure_ ? rank_state::failed : rank_state::works;
  store(outgoing_state_at(size_), word_of(epoch_, static_cast<std::uint32_t>(state)));
  const auto limit = deadline::after(time_to_report);
  post_states(channels, ranks, limit);
  while (!requests_ended() && !limit.expired())
    if (channel_access::core_of(channels[rank_]).progress() <= 0) ::sched_yield();
  abandon();
}

rank_board::access_to_board rank_board::read_of_entered(std::uint32_t rank) const {
  return {operation_kind::read, rank, own(seen_at(rank, size_), board_layout::line),
          board_layout::entered_at};
}

error rank_board::destroyed(operation_name name) const {
  return error::from_errno(
      ECANCELED, name.function, fmt::format("rank {}", rank_),
      std::uncaught_exceptions() != 0
          ? fmt::format("an exception ended {} on this rank", name.noun)
          : fmt::format("the steps of {} were destroyed before it ended", name.noun));
}

void rank_board::cancel(collective& in) noexcept {
  if (is_reporting_) return fail_without_memory(&in);  // an allocation in fail() has failed
  // If this rank was expelled, writes of the operation can still be in flight.
  if (failure_) return abandon(in);
  verbena::detail::call_or_else([&] { static_cast<void>(fail(in, rank_, destroyed(in.name))); },
                                [&] { fail_without_memory(&in); });
}

error rank_board::give_up(const participants& of, operation_name name, error why) {
  if (failure_) return *failure_;
  std::vector<std::uint32_t> ranks(of.ranks.begin(), of.ranks.end());
  if (running_ != nullptr)
    ranks.insert(ranks.end(), running_->ranks.begin(), running_->ranks.end());
  std::erase_if(ranks, [this](std::uint32_t each) { return each >= size_ || !is_member_[each]; });
  ranks = each_once(std::move(ranks));
  collective unbegun{.channels = of.channels,
                     .client = of.client,
                     .name = name,
                     .ranks = ranks,
                     .until = of.until,
                     .give_up = of.until,
                     .tag = 0,
                     .entered = 0,
                     .index = 0,
                     .next_check = of.until};
  return fail(unbegun, rank_, std::move(why));
}

void rank_board::give_up(const participants& of, operation_name name) noexcept {
  if (is_reporting_) return fail_without_memory(running_);
  verbena::detail::call_or_else([&] { static_cast<void>(give_up(of, name, destroyed(name))); },
                                [&] { fail_without_memory(running_); });
}

void rank_board::fail_without_memory(collective* in) noexcept {
  is_reporting_ = false;
  if (!failure_) failure_.emplace(error_kind::os, ECANCELED, "");
  if (in == nullptr) return;
  abandon(*in);
  store(outgoing_failure_at(size_), failure_word(rank_));
  for (const std::uint32_t each : in->ranks)
    if (each != rank_ && channel_access::core_of(in->channels[each]).is_connected())
      static_cast<void>(report_to(*in, each, rank_, in->until));
  report_to_others(*in);
  abandon();
}

std::vector<std::uint32_t> rank_board::probe(multi_channel& channels,
                                             std::span<const std::uint32_t> ranks, deadline until) {
  abandon();
  std::vector<std::uint32_t> silent;
  // Ranks whose queue is full of operations of the program, or whose earlier read is in flight.
  std::vector<std::uint32_t> without_room;
  const auto try_post = [&](std::uint32_t rank) {
    if (!late_reads_[rank].ended) return false;
    if (post(channels, read_of_entered(rank), until)) {
      ++in_flight_;
      return true;
    }
    if (posted_[in_flight_].waiter.result.refusal() == refusal::queue_full) return false;
    silent.push_back(rank);
    return true;
  };
  for (const std::uint32_t each : ranks)
    if (each != rank_ && !try_post(each)) without_room.push_back(each);
  // Polls a few times even if this thread was not scheduled before the deadline.
  for (std::size_t polls = 0;
       (!without_room.empty() || !requests_ended()) && (polls <= ranks.size() || !until.expired());
       ++polls) {
    if (channel_access::core_of(channels[rank_]).progress() <= 0) ::sched_yield();
    std::erase_if(without_room, try_post);
  }
  silent.insert(silent.end(), without_room.begin(), without_room.end());
  for (const request& each : std::span(posted_).first(in_flight_))
    if (!each.waiter.ended || !each.waiter.result) silent.push_back(each.rank);
  abandon();
  std::ranges::sort(silent);
  return silent;
}

bool rank_board::requests_ended() const {
  return std::ranges::all_of(std::span(posted_).first(in_flight_),
                             [](const request& each) { return each.waiter.ended; });
}

void rank_board::abandon(collective& in) {
  const auto limit = deadline::after(time_to_release);
  for (const request& each : std::span(posted_).first(in_flight_))
    if (each.reads_program && !each.waiter.ended)
      channel_access::core_of(in.channels[each.rank]).await(each.waiter, limit);
  abandon();
}

std::vector<std::uint32_t> rank_board::find_missing(collective& in) {
  abandon(in);
  std::vector<std::uint32_t> missing;
  // Without a minimum time, ranks whose replies are still in flight would count as missing.
  const auto until =
      deadline::at(std::max(in.until.when(), deadline::after(time_for_answers).when()));
  for (const std::uint32_t each : in.ranks) {
    if (each == rank_) continue;
    // A rank that cannot be connected uses only its share of the time.
    const auto share = verbena::detail::share_of(until, in.count());
    if (late_reads_[each].ended && post(in.channels, read_of_entered(each), share))
      ++in_flight_;
    else
      missing.push_back(each);
  }
  // Polls a few times even if this thread was not scheduled before the deadline.
  for (std::size_t polls = 0; !requests_ended() && (polls <= in.count() || !until.expired());
       ++polls)
    channel_access::core_of(in.channels[rank_]).progress();
  for (const request& each : std::span(posted_).first(in_flight_))
    if (!each.waiter.ended || !each.waiter.result || !has_entered(in, each.rank))
      missing.push_back(each.rank);
  std::ranges::sort(missing);
  return missing;
}

void rank_board::abandon() noexcept {
  // The memory of the board remains registered, so the requests can complete later.
  for (const request& each : std::span(posted_).first(in_flight_)) {
    if (each.waiter.ended) continue;
    auto* const late = each.is_read ? &late_reads_[each.rank] : nullptr;
    if (late != nullptr) late->ended = false;
    has_abandoned_ = true;
    verbena::detail::channel_core::redirect(*each.slot, late);
  }
  in_flight_ = 0;
}

void rank_board::end_requests(multi_channel& channels) noexcept {
  if (!has_abandoned_ && in_flight_ == 0) return;
  for (std::uint32_t rank = 0; rank < size_; ++rank) {
    auto& core = channel_access::core_of(channels[rank]);
    if (core.in_flight() != 0) core.flush();
  }
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
