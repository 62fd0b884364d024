// SPDX-License-Identifier: MIT
#include "src/net/barrier_board.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>

#include "src/base/relax.hpp"
#include "src/net/channel_access.hpp"
#include "src/net/rank_list.hpp"

namespace verbena::inline VERBENA_ABI::net {

std::string to_string(barrier_algorithm of) {
  switch (of) {
    case barrier_algorithm::dissemination:
      return "dissemination";
    case barrier_algorithm::binary_tree:
      return "binary tree";
    case barrier_algorithm::central:
      return "central";
  }
  return "unknown (" + std::to_string(static_cast<int>(of)) + ")";
}

namespace detail {
namespace {

using verbena::detail::operation_kind;

constexpr std::size_t line = 64;
constexpr std::size_t word = sizeof(std::uint64_t);
constexpr std::size_t failure_at = 0;
constexpr std::size_t entered_at = line;
constexpr std::size_t arrivals_at = 2 * line;

std::size_t arrival_at(std::uint32_t rank, std::uint32_t number) {
  return arrivals_at + (std::size_t{rank} * 2 + number % 2) * word;
}
std::size_t outgoing_at(std::uint32_t rank, std::uint32_t size) {
  return arrivals_at + (std::size_t{size} * 2 + rank) * word;
}
std::size_t outgoing_failure_at(std::uint32_t size) { return outgoing_at(size, size); }
std::size_t seen_at(std::uint32_t rank, std::uint32_t size) {
  return outgoing_at(size + 1 + rank, size);
}
std::size_t board_bytes(std::uint32_t size) { return seen_at(size, size); }

// The time in which a failed barrier asks for the missing ranks, before its deadline passes.
deadline time_to_give_up(deadline until) {
  constexpr std::chrono::nanoseconds most = std::chrono::milliseconds(50);
  if (until.is_never() || until.expired()) return until;
  const std::chrono::nanoseconds left = until.when() - deadline::clock::now();
  return deadline::at(until.when() - std::min(left / 8, most));
}

std::uint64_t word_of(std::uint32_t tag, std::uint32_t number) {
  return std::uint64_t{tag} << 32U | number;
}
std::uint32_t number_of(std::uint64_t notification) {
  return static_cast<std::uint32_t>(notification);
}

// FNV-1a. Equal tags of different barriers only mean that a confusion is not detected.
std::uint32_t tag_of(std::span<const std::uint32_t> ranks, barrier_algorithm algorithm) {
  std::uint32_t hash = 2166136261U;
  const auto mix = [&](std::uint32_t value) { hash = (hash ^ value) * 16777619U; };
  mix(static_cast<std::uint32_t>(algorithm));
  for (const std::uint32_t each : ranks) mix(each);
  return hash == 0 ? 1 : hash;
}

}  // namespace

struct barrier_board::barrier {
  multi_channel& channels;
  std::span<const std::uint32_t> ranks;
  deadline until;
  deadline give_up;
  std::uint32_t tag;
  std::uint64_t entered;  // the word of this barrier
  std::size_t index;      // of this rank in `ranks`

  [[nodiscard]] std::uint32_t at(std::size_t place) const { return ranks[place % ranks.size()]; }
};

barrier_board::barrier_board(memory_region memory, std::uint32_t rank, std::uint32_t size)
    : memory_(std::move(memory)),
      rank_(rank),
      size_(size),
      sent_(size),
      received_(size),
      posted_(size) {
  others_.reserve(size);
}

result<barrier_board> barrier_board::create(const protection_domain& domain, std::uint32_t rank,
                                            std::uint32_t size) {
  VERBENA_TRY(auto memory,
              domain.allocate(board_bytes(size),
                              access::local_write | access::remote_read | access::remote_write));
  return barrier_board(std::move(memory), rank, size);
}

result<void> barrier_board::connect(std::vector<remote_region> boards) {
  for (std::size_t each = 0; each < boards.size(); ++each)
    if (boards[each].length() < board_bytes(size_))
      return error::protocol("barrier", {},
                             fmt::format("the board of rank {} has {} bytes, not {}", each,
                                         boards[each].length(), board_bytes(size_)));
  boards_ = std::move(boards);
  return {};
}

std::uint64_t barrier_board::load(std::size_t offset) const {
  // C++20 has no atomic_ref of a const type; load() does not write.
  auto* const at = reinterpret_cast<std::uint64_t*>(memory_.bytes().data() + offset);
  return std::atomic_ref<std::uint64_t>(*at).load(std::memory_order_acquire);
}

void barrier_board::store(std::size_t offset, std::uint64_t value) {
  auto* const at = reinterpret_cast<std::uint64_t*>(memory_.bytes().data() + offset);
  std::atomic_ref<std::uint64_t>(*at).store(value, std::memory_order_release);
}

result<void> barrier_board::check(std::span<const std::uint32_t> ranks) const {
  const auto refuse = [&](const std::string& why) {
    return error::invalid_argument("barrier", fmt::format("rank {}", rank_), why);
  };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] >= size_)
      return refuse(
          fmt::format("rank {} is not less than the size of the group, {}", ranks[i], size_));
    if (i != 0 && ranks[i] == ranks[i - 1])
      return refuse(fmt::format("rank {} is named twice", ranks[i]));
    if (i != 0 && ranks[i] < ranks[i - 1])
      return refuse(fmt::format("the ranks are not in ascending order: {} follows {}", ranks[i],
                                ranks[i - 1]));
  }
  if (!std::ranges::binary_search(ranks, rank_))
    return refuse(fmt::format("the ranks do not contain rank {} itself", rank_));
  return {};
}

result<void> barrier_board::run(multi_channel& channels, std::span<const std::uint32_t> ranks,
                                deadline until, barrier_algorithm algorithm) {
  VERBENA_TRY_VOID(check(ranks));
  if (failure_) return *failure_;
  if (ranks.size() == 1) return {};
  const std::uint32_t tag = tag_of(ranks, algorithm);
  barrier in{
      .channels = channels,
      .ranks = ranks,
      .until = until,
      .give_up = time_to_give_up(until),
      .tag = tag,
      .entered = word_of(tag, ++entered_[tag]),
      .index = static_cast<std::size_t>(std::ranges::lower_bound(ranks, rank_) - ranks.begin())};
  store(entered_at, in.entered);
  switch (algorithm) {
    case barrier_algorithm::binary_tree:
      return climb(in);
    case barrier_algorithm::central:
      return gather(in);
    case barrier_algorithm::dissemination:
      break;
  }
  return disseminate(in);
}

result<void> barrier_board::disseminate(barrier& in) {
  const std::size_t count = in.ranks.size();
  for (std::size_t distance = 1; distance < count; distance *= 2) {
    const std::uint32_t to = in.at(in.index + distance);
    const std::uint32_t from = in.at(in.index + count - distance);
    VERBENA_TRY_VOID(step(in, std::span(&to, 1), std::span(&from, 1)));
  }
  return {};
}

result<void> barrier_board::climb(barrier& in) {
  others_.clear();
  for (std::size_t child = 2 * in.index + 1; child <= 2 * in.index + 2; ++child)
    if (child < in.ranks.size()) others_.push_back(in.ranks[child]);
  VERBENA_TRY_VOID(step(in, {}, others_));
  if (in.index != 0) {
    const std::uint32_t parent = in.ranks[(in.index - 1) / 2];
    VERBENA_TRY_VOID(step(in, std::span(&parent, 1), std::span(&parent, 1)));
  }
  return step(in, others_, {});
}

result<void> barrier_board::gather(barrier& in) {
  if (in.index != 0) return step(in, in.ranks.first(1), in.ranks.first(1));
  VERBENA_TRY_VOID(step(in, {}, in.ranks.subspan(1)));
  return step(in, in.ranks.subspan(1), {});
}

result<void> barrier_board::step(barrier& in, std::span<const std::uint32_t> to,
                                 std::span<const std::uint32_t> from) {
  for (const std::uint32_t each : to) VERBENA_TRY_VOID(notify(in, each));
  for (const std::uint32_t each : from) VERBENA_TRY_VOID(await(in, each));
  // The words to write are used again in the next barrier.
  while (in_flight_ != 0) {
    const notification& last = posted_[in_flight_ - 1];
    VERBENA_TRY_VOID(wait_until(in, [&] { return last.waiter.ended; }, last.rank));
    --in_flight_;
  }
  return {};
}

bool barrier_board::post(barrier& in, operation_kind kind, std::uint32_t rank,
                         std::size_t own_offset, std::size_t peer_offset) {
  notification& next = posted_[in_flight_];
  next.rank = rank;
  next.waiter.ended = false;
  const auto posted = std::source_location::current();
  auto& core = channel_access::core_of(in.channels[rank]);
  const auto target = boards_[rank].slice(peer_offset, word);
  if (kind == operation_kind::read) {
    const sink into(memory_, own_offset, word);
    next.slot = core.post({.kind = kind, .in = std::span(&into, 1), .remote = target},
                          {.waiter = &next.waiter, .posted = posted});
  } else {
    const source from(memory_, own_offset, word);
    next.slot = core.post({.kind = kind, .out = from, .remote = target},
                          {.waiter = &next.waiter, .posted = posted});
  }
  return next.slot != nullptr;
}

result<void> barrier_board::notify(barrier& in, std::uint32_t to) {
  const std::uint32_t number = ++sent_[to];
  store(outgoing_at(to, size_), word_of(in.tag, number));
  const auto try_post = [&] {
    return post(in, operation_kind::write, to, outgoing_at(to, size_), arrival_at(rank_, number)) ||
           posted_[in_flight_].waiter.result.refusal() != refusal::queue_full;
  };
  // Operations of the program may fill the queue.
  if (!try_post()) VERBENA_TRY_VOID(wait_until(in, try_post, to));
  const notification& made = posted_[in_flight_];
  if (made.slot == nullptr) return fail_broken(in, made);
  ++in_flight_;
  return {};
}

result<void> barrier_board::await(barrier& in, std::uint32_t from) {
  const std::uint32_t number = ++received_[from];
  std::uint64_t seen = 0;
  VERBENA_TRY_VOID(wait_until(
      in,
      [&] {
        seen = load(arrival_at(from, number));
        return number_of(seen) == number;
      },
      from));
  if (seen == word_of(in.tag, number)) return {};
  return fail(in, from,
              error::invalid_argument(
                  "barrier", fmt::format("rank {}", rank_),
                  fmt::format("rank {} is in a barrier of other ranks or with another algorithm; "
                              "all ranks of a barrier must name the same ranks, and call their "
                              "common barriers in the same order",
                              from)));
}

template <class Ended>
result<void> barrier_board::wait_until(barrier& in, Ended&& ended, std::uint32_t awaited) {
  constexpr std::uint32_t polls_per_look = 64;
  for (std::uint32_t idle = 0; !ended();) {
    if (channel_access::core_of(in.channels[rank_]).progress() > 0) continue;
    if (++idle % polls_per_look != 0) {
      verbena::detail::relax();
      continue;
    }
    VERBENA_TRY_VOID(look(in));
    if (in.give_up.expired()) return ended() ? result<void>() : fail_late(in, awaited);
    ::sched_yield();  // the peer may need this processor
  }
  return look(in);
}

result<void> barrier_board::look(barrier& in) {
  for (std::size_t each = 0; each < in_flight_; ++each)
    if (const notification& of = posted_[each]; of.waiter.ended && !of.waiter.result)
      return fail_broken(in, of);
  return check_failure_of_others(in);
}

result<void> barrier_board::check_failure_of_others(barrier& in) {
  const std::uint64_t told = load(failure_at);
  if (told == 0) return {};
  const auto by = static_cast<std::uint32_t>(told >> 32U) - 1;
  const auto culprit = static_cast<std::uint32_t>(told);
  return fail(in, culprit,
              error::from_errno(
                  ECONNABORTED, "barrier", fmt::format("rank {}", rank_),
                  fmt::format("rank {} failed in a barrier because of rank {}", by, culprit)));
}

error barrier_board::fail_broken(barrier& in, const notification& of) {
  const std::uint32_t rank = of.rank;
  const error why = of.waiter.result.error();
  return fail(in, rank,
              error(why.kind(), why.code(), "barrier", fmt::format("rank {}", rank_),
                    fmt::format("rank {} is not reachable: {}", rank, why.message())));
}

error barrier_board::fail_late(barrier& in, std::uint32_t awaited) {
  const auto missing = find_missing(in);
  // A rank that failed because of another one may have ended, so that it cannot be reached.
  if (auto told = check_failure_of_others(in); !told) return std::move(told).error();
  if (missing.empty())
    return fail(in, awaited,
                error::timed_out("barrier", fmt::format("rank {}", rank_),
                                 "all ranks have called barrier(), but the last ones too late"));
  return fail(in, missing.front(),
              error::timed_out("barrier", fmt::format("rank {}", rank_),
                               fmt::format("{} had not called barrier() when the deadline passed, "
                                           "or cannot be reached",
                                           to_text(missing))));
}

error barrier_board::fail(barrier& in, std::uint32_t culprit, error why) {
  failure_ = why;
  abandon();
  store(outgoing_failure_at(size_), std::uint64_t{rank_ + 1} << 32U | culprit);
  for (const std::uint32_t each : in.ranks) {
    if (each == rank_) continue;
    if (post(in, operation_kind::write, each, outgoing_failure_at(size_), failure_at)) ++in_flight_;
  }
  for (std::size_t polls = 0; polls < in_flight_; ++polls)
    channel_access::core_of(in.channels[rank_]).progress();
  abandon();
  return why;
}

std::vector<std::uint32_t> barrier_board::find_missing(barrier& in) {
  abandon();
  std::vector<std::uint32_t> missing;
  for (const std::uint32_t each : in.ranks) {
    if (each == rank_) continue;
    if (post(in, operation_kind::read, each, seen_at(each, size_), entered_at))
      ++in_flight_;
    else
      missing.push_back(each);
  }
  const auto have_ended = [&] {
    return std::ranges::all_of(std::span(posted_).first(in_flight_),
                               [](const notification& each) { return each.waiter.ended; });
  };
  // Polls a few times even if this thread had no processor until the deadline.
  for (std::size_t polls = 0; !have_ended() && (polls <= in.ranks.size() || !in.until.expired());
       ++polls)
    channel_access::core_of(in.channels[rank_]).progress();
  for (const notification& each : std::span(posted_).first(in_flight_))
    if (!each.waiter.ended || !each.waiter.result || load(seen_at(each.rank, size_)) != in.entered)
      missing.push_back(each.rank);
  std::ranges::sort(missing);
  return missing;
}

void barrier_board::abandon() noexcept {
  // The words stay registered, so that the operations can complete later.
  for (const notification& each : std::span(posted_).first(in_flight_))
    if (!each.waiter.ended) verbena::detail::channel_core::redirect(*each.slot, nullptr);
  in_flight_ = 0;
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::net
