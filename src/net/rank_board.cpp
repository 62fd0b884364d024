// SPDX-License-Identifier: MIT
#include "src/net/rank_board.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "src/base/relax.hpp"
#include "src/net/channel_access.hpp"
#include "src/net/message_word.hpp"
#include "src/net/rank_list.hpp"
#include "src/net/rendezvous.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

using verbena::detail::operation_kind;

constexpr std::size_t line = 64;
constexpr std::size_t word = sizeof(std::uint64_t);
constexpr std::uint32_t slots = 4;  // of each pair of ranks
constexpr std::size_t slot_bytes = 8192;
static_assert(max_element_bytes <= slot_bytes);
constexpr std::size_t entered_words = line / word;
constexpr std::size_t failure_at = 0;
constexpr std::size_t entered_at = line;
constexpr std::size_t arrivals_at = 2 * line;

std::size_t arrival_at(std::uint32_t rank, std::uint32_t number) {
  return arrivals_at + rank * line + number % slots * word;
}
std::size_t acknowledged_at(std::uint32_t rank) { return arrivals_at + rank * line + slots * word; }
// The outgoing line of a rank has the offsets of the line of the writer on its board.
std::size_t outgoing_at(std::uint32_t rank, std::uint32_t size) {
  return arrivals_at + (std::size_t{size} + rank) * line;
}
std::size_t outgoing_failure_at(std::uint32_t size) { return outgoing_at(size, size); }
std::size_t seen_at(std::uint32_t rank, std::uint32_t size) {
  return outgoing_at(size + 1 + rank, size);
}
std::size_t payload_at(std::uint32_t rank, std::uint32_t number, std::uint32_t size) {
  return seen_at(size, size) + (std::size_t{rank} * slots + number % slots) * slot_bytes;
}
std::size_t board_bytes(std::uint32_t size) { return payload_at(size, 0, size); }

// The time for writes in flight after a failure, and for room to report it to a rank.
constexpr std::chrono::milliseconds time_to_release{100};

// The time in which a failed operation connects to ranks to report the failure.
constexpr std::chrono::milliseconds time_to_report{1000};

// The first time in which an operation connects a channel before it looks at failures of others.
// Each further attempt has twice as much, so that slow connections succeed.
constexpr std::chrono::milliseconds first_time_to_connect{100};
// An operation without a deadline leaves the time of longer attempts to the connector.
constexpr std::chrono::milliseconds longest_time_to_connect{3000};

// A rank that waits asks for the ranks that have left after each such time.
constexpr std::chrono::milliseconds time_to_check{2};

// The time in which a failed operation asks for the missing ranks, before its deadline passes.
deadline time_to_give_up(deadline until) {
  constexpr std::chrono::nanoseconds most = std::chrono::milliseconds(50);
  if (until.is_never() || until.expired()) return until;
  const std::chrono::nanoseconds left = until.when() - deadline::clock::now();
  return deadline::at(until.when() - std::min(left / 8, most));
}

}  // namespace

rank_board::rank_board(memory_region memory, std::uint32_t rank, std::uint32_t size)
    : memory_(std::move(memory)),
      rank_(rank),
      size_(size),
      member_count_(size),
      is_member_(size, true),
      pairs_(size),
      posted_(std::size_t{size} + std::size_t{4} * slots) {
  sent_to_.reserve(size);
  received_from_.reserve(size);
}

result<rank_board> rank_board::create(const protection_domain& domain, std::uint32_t rank,
                                      std::uint32_t size) {
  VERBENA_TRY(auto memory,
              domain.allocate(board_bytes(size),
                              access::local_write | access::remote_read | access::remote_write));
  return rank_board(std::move(memory), rank, size);
}

result<void> rank_board::connect(std::vector<remote_region> boards,
                                 std::span<const std::uint32_t> members) {
  set_members(members);
  for (std::size_t each = 0; each < boards.size(); ++each)
    if (is_member_[each] && boards[each].length() < board_bytes(size_))
      return error::protocol("join", {},
                             fmt::format("the board of rank {} has {} bytes, not {}", each,
                                         boards[each].length(), board_bytes(size_)));
  boards_ = std::move(boards);
  return {};
}

registered_bytes rank_board::own(std::size_t offset, std::size_t bytes) const {
  return registered_bytes(source(memory_, offset, bytes));
}

result<void> rank_board::check(operation_name name, std::span<const std::uint32_t> ranks) const {
  const auto refuse = [&](const std::string& why) {
    return error::invalid_argument(name.function, fmt::format("rank {}", rank_), why);
  };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] >= size_)
      return refuse(
          fmt::format("rank {} is not less than the size of the group, {}", ranks[i], size_));
    if (!is_member_[ranks[i]])
      return refuse(fmt::format("rank {} is not a member of the group any more", ranks[i]));
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

result<collective> rank_board::enter(const participants& of, operation_name name,
                                     std::initializer_list<std::uint64_t> what) {
  const auto ranks = of.ranks;
  if (failure_) return *failure_;
  VERBENA_TRY_VOID(check(name, ranks));
  operation_tag hash;
  hash.mix(epoch_);
  for (const std::uint32_t each : ranks) hash.mix(each);
  const std::uint32_t set = hash.value();
  for (const std::uint64_t each : what) hash.mix(each);
  sent_to_.clear();
  received_from_.clear();
  return collective{
      .channels = of.channels,
      .client = of.client,
      .name = name,
      .ranks = ranks,
      .until = of.until,
      .give_up = time_to_give_up(of.until),
      .tag = hash.value(),
      .entered = publish(ranks, set),
      .index = static_cast<std::size_t>(std::ranges::lower_bound(ranks, rank_) - ranks.begin())};
}

// Stores the number of operations of these ranks where the other ranks can read it.
std::uint64_t rank_board::publish(std::span<const std::uint32_t> ranks, std::uint32_t set) {
  const std::uint64_t entered = word_of(set, ++entered_[set]);
  std::size_t place = 0;  // of all ranks
  if (ranks.size() != member_count_) {
    for (place = 1; place < entered_words; ++place)
      if (tag_of(load(entered_at + place * word)) == set) break;
    if (place == entered_words) place = 1 + subsets_++ % (entered_words - 1);
  }
  store(entered_at + place * word, entered);
  return entered;
}

// A rank that has left the operation has also entered it.
bool rank_board::has_entered(const collective& in, std::uint32_t rank) const {
  for (std::size_t place = 0; place < entered_words; ++place) {
    const std::uint64_t seen = load(seen_at(rank, size_) + place * word);
    if (tag_of(seen) == tag_of(in.entered) && seen != 0)
      return !is_before(number_of(seen), number_of(in.entered));
  }
  return false;
}

void rank_board::end_barrier() {
  // Each rank has entered the barrier behind its receives; possibly not yet received the last
  // message.
  for (const std::uint32_t each : sent_to_) pairs_[each].known = pairs_[each].sent - 1;
  for (const std::uint32_t each : received_from_)
    pairs_[each].acknowledged = pairs_[each].received - 1;
}

result<void> rank_board::step(collective& in, std::span<const std::uint32_t> to,
                              std::span<const std::uint32_t> from) {
  for (const std::uint32_t each : to) {
    VERBENA_TRY_VOID(send(in, each, nullptr));
    sent_to_.push_back(each);
  }
  for (; !from.empty(); from = from.subspan(1)) {
    const std::uint32_t next = from.front();
    if (!has_arrived(next))
      VERBENA_TRY_VOID(wait_until(in, {.messages = from}, [&] { return has_arrived(next); }));
    VERBENA_TRY_VOID(check_arrived(in, next));
    // Not acknowledged: the rank may leave the group when it has sent its last message.
    ++pairs_[next].received;
    received_from_.push_back(next);
  }
  return wait_for_requests(in);
}

result<void> rank_board::transfer(collective& in, const outgoing_part* out,
                                  const incoming_part* into) {
  const std::size_t out_bytes = out != nullptr ? out->bytes.length : 0;
  const std::size_t in_bytes = into != nullptr ? into->bytes.length : 0;
  const std::size_t most = slot_bytes / in.element_bytes * in.element_bytes;
  const bool is_shared = out_bytes != 0 && in_bytes != 0 && out->bytes.data == into->bytes.data;
  std::size_t sent = 0;
  std::size_t received = 0;
  const auto can_send = [&] { return sent != out_bytes && has_room(out->to); };
  const auto can_receive = [&] {
    return received != in_bytes && (!is_shared || received < sent) && has_arrived(into->from);
  };
  while (sent != out_bytes || received != in_bytes) {
    if (can_send()) {
      const auto part = out->bytes.part(sent, std::min(most, out_bytes - sent));
      VERBENA_TRY_VOID(send(in, out->to, &part));
      sent += part.length;
    }
    if (can_receive()) {
      VERBENA_TRY_VOID(check_arrived(in, into->from));
      // A write reads the bytes until it has completed.
      if (is_shared) VERBENA_TRY_VOID(wait_for_requests(in));
      const auto part = into->bytes.part(received, std::min(most, in_bytes - received));
      const std::byte* const theirs =
          memory_.bytes().data() + payload_at(into->from, pairs_[into->from].received + 1, size_);
      if (into->with != nullptr)
        into->with->run(part.data, theirs, part.length / in.element_bytes, into->from < rank_);
      else
        std::memcpy(part.data, theirs, part.length);
      ++pairs_[into->from].received;
      received += part.length;
      VERBENA_TRY_VOID(acknowledge(in, into->from));
    } else if (!can_send() && (sent != out_bytes || received != in_bytes)) {
      awaited_ranks awaited;
      if (received != in_bytes) awaited.messages = std::span(&into->from, 1);
      if (sent != out_bytes) awaited.room = std::span(&out->to, 1);
      VERBENA_TRY_VOID(wait_until(in, awaited, [&] { return can_send() || can_receive(); }));
    }
  }
  return wait_for_requests(in);
}

bool rank_board::has_room(std::uint32_t to) {
  pair_state& with = pairs_[to];
  if (with.sent - with.known < slots) return true;
  const auto told = number_of(load(acknowledged_at(to)));
  if (is_before(with.known, told)) with.known = told;
  return with.sent - with.known < slots;
}

bool rank_board::has_arrived(std::uint32_t from) const {
  const std::uint32_t number = pairs_[from].received + 1;
  return number_of(load(arrival_at(from, number))) == number;
}

// Precondition: has_room(to), or no bytes.
result<void> rank_board::send(collective& in, std::uint32_t to, const registered_bytes* bytes) {
  if (!has_room(to))
    VERBENA_TRY_VOID(wait_until(in, {.room = std::span(&to, 1)}, [&] { return has_room(to); }));
  const std::uint32_t number = ++pairs_[to].sent;
  if (bytes != nullptr) VERBENA_TRY_VOID(write(in, to, *bytes, payload_at(rank_, number, size_)));
  return write_word(in, to, number % slots, word_of(in.tag, number), arrival_at(rank_, number));
}

// Precondition: has_arrived(from).
result<void> rank_board::check_arrived(collective& in, std::uint32_t from) {
  const std::uint32_t number = pairs_[from].received + 1;
  if (load(arrival_at(from, number)) == word_of(in.tag, number)) return {};
  return fail(in, from,
              error::invalid_argument(
                  in.name.function, fmt::format("rank {}", rank_),
                  fmt::format("rank {} is in another operation; all ranks must call the same "
                              "barriers and collective operations in the same order, with equal "
                              "ranks, algorithms, lengths and roots",
                              from)));
}

result<void> rank_board::acknowledge(collective& in, std::uint32_t from) {
  pair_state& with = pairs_[from];
  if (with.received - with.acknowledged < slots / 2) return {};
  with.acknowledged = with.received;
  // Two words in turn, so that the write of the earlier one has usually completed.
  const std::size_t place = slots + with.received / (slots / 2) % 2;
  return write_word(in, from, place, with.received, acknowledged_at(rank_));
}

// An acknowledgment of the other rank does not show that the write has completed here: until the
// completion is polled, the word belongs to the adapter.
result<void> rank_board::write_word(collective& in, std::uint32_t to, std::size_t place,
                                    std::uint64_t value, std::size_t peer_offset) {
  const std::size_t at = outgoing_at(to, size_) + place * word;
  std::uint32_t& reader = pairs_[to].readers[place];
  // Another request may have its place now.
  if (reader < in_flight_ && posted_[reader].reads == at && !posted_[reader].waiter.ended)
    VERBENA_TRY_VOID(wait_until(in, {.requests = std::span(&to, 1)},
                                [&] { return posted_[reader].waiter.ended; }));
  store(at, value);
  VERBENA_TRY_VOID(write(in, to, own(at, word), peer_offset));
  reader = static_cast<std::uint32_t>(in_flight_ - 1);
  posted_[reader].reads = at;
  return {};
}

result<void> rank_board::wait_for_requests(collective& in) {
  while (in_flight_ != 0) {
    const request& last = posted_[in_flight_ - 1];
    if (!last.waiter.ended)
      VERBENA_TRY_VOID(wait_until(in, {.requests = std::span(&last.rank, 1)},
                                  [&] { return last.waiter.ended; }));
    if (!last.waiter.result) return fail_broken(in, last);
    --in_flight_;
  }
  return {};
}

bool rank_board::post(multi_channel& channels, const access_to_board& what, deadline until) {
  const registered_bytes& own = what.own;
  request& next = posted_[in_flight_];
  next.rank = what.rank;
  next.reads_program = false;
  next.reads = 0;
  next.waiter.ended = false;
  const verbena::detail::memory_piece piece(
      local_slice(reinterpret_cast<std::uintptr_t>(own.data), own.length, own.key), own.domain);
  const auto remote = boards_[what.rank].slice(what.peer_offset, own.length);
  next.slot =
      channel_access::core_of(channels[what.rank])
          .post(
              {.kind = what.kind, .piece = &piece, .remote = remote},
              {.waiter = &next.waiter, .posted = std::source_location::current(), .until = until});
  return next.slot != nullptr;
}

rank_board::access_to_board rank_board::read_of_entered(std::uint32_t rank) const {
  return {operation_kind::read, rank, own(seen_at(rank, size_), line), entered_at};
}

bool rank_board::is_late(const request& refused) noexcept {
  const auto& why = refused.waiter.result;
  return why.refusal() == refusal::connect_failed && why.code() == ETIMEDOUT;
}

result<void> rank_board::write(collective& in, std::uint32_t rank, const registered_bytes& from,
                               std::size_t peer_offset) {
  if (in_flight_ == posted_.size()) VERBENA_TRY_VOID(wait_for_requests(in));
  bool is_posted = false;
  auto time_to_connect = first_time_to_connect;
  const auto is_last_attempt = [&] {
    return in.give_up.is_never() ? time_to_connect > longest_time_to_connect : in.give_up.expired();
  };
  const auto try_post = [&] {
    if (is_posted) return true;
    request& next = posted_[in_flight_];
    is_posted = post(in.channels, {operation_kind::write, rank, from, peer_offset},
                     is_last_attempt() ? in.give_up : earliest(in.give_up, time_to_connect));
    next.reads_program = from.key.value() != memory_.local_key().value();
    in_flight_ += is_posted ? 1 : 0;
    return is_posted || next.waiter.result.refusal() != refusal::queue_full;
  };
  // Operations of the program may fill the queue.
  if (!try_post()) VERBENA_TRY_VOID(wait_until(in, {.requests = std::span(&rank, 1)}, try_post));
  // A first connection may take long; the failure of another rank makes it pointless.
  while (!is_posted && is_late(posted_[in_flight_]) && !is_last_attempt()) {
    VERBENA_TRY_VOID(look(in));
    VERBENA_TRY_VOID(check_departed(in, {.room = std::span(&rank, 1)}, [&] { return is_posted; }));
    time_to_connect *= 2;
    if (!try_post()) VERBENA_TRY_VOID(wait_until(in, {.requests = std::span(&rank, 1)}, try_post));
  }
  if (is_posted) return {};
  const request& refused = posted_[in_flight_];
  if (refused.waiter.result.refusal() == refusal::connect_failed && in.give_up.expired())
    return fail_late(in, rank);
  return fail_broken(in, refused);
}

template <class Ended>
result<void> rank_board::wait_until(collective& in, const awaited_ranks& awaited, Ended&& ended) {
  // Few, because the peer may need this processor: with 8 ranks on 2 processors, a barrier takes a
  // third of the time of one with 64 polls.
  constexpr std::uint32_t polls_per_look = 4;
  auto next_check = deadline::after(time_to_check);
  for (std::uint32_t idle = 0; !ended();) {
    const int polled = channel_access::core_of(in.channels[rank_]).progress();
    if (polled > 0) continue;
    if (polled < 0) return fail_unpolled(in);
    if (++idle % polls_per_look != 0) {
      verbena::detail::relax();
      continue;
    }
    VERBENA_TRY_VOID(look(in));
    if (in.give_up.expired()) return ended() ? result<void>() : fail_late(in, awaited.first());
    if (next_check.expired()) {
      VERBENA_TRY_VOID(check_departed(in, awaited, ended));
      next_check = deadline::after(time_to_check);
    }
    ::sched_yield();
  }
  return look(in);
}

template <class Ended>
result<void> rank_board::check_departed(collective& in, const awaited_ranks& awaited,
                                        Ended&& ended) {
  const auto contains = [](std::span<const std::uint32_t> ranks, std::uint32_t rank) {
    return std::ranges::find(ranks, rank) != ranks.end();
  };
  for (const std::uint32_t each : in.client.departed()) {
    // The messages of a rank precede the report of the store.
    if (!contains(awaited.room, each) && (!contains(awaited.messages, each) || has_arrived(each)))
      continue;
    if (ended()) return {};
    VERBENA_TRY_VOID(check_failure_of_others(in));
    return fail(in, each,
                error::from_errno(ECONNABORTED, in.name.function, fmt::format("rank {}", rank_),
                                  fmt::format("rank {} left the group before the end of {}", each,
                                              in.name.noun)));
  }
  return {};
}

result<void> rank_board::look(collective& in) {
  for (std::size_t each = 0; each < in_flight_; ++each)
    if (const request& of = posted_[each]; of.waiter.ended && !of.waiter.result)
      return fail_broken(in, of);
  return check_failure_of_others(in);
}

result<void> rank_board::check_failure_of_others(collective& in) {
  const std::uint64_t told = load(failure_at);
  if (told == 0) return {};
  if (told >> 48U != epoch_ % 0x1'0000) return {};  // of an earlier epoch
  const std::uint32_t by = (tag_of(told) & 0xffffU) - 1;
  const auto culprit = number_of(told);
  return fail(in, culprit,
              error::from_errno(ECONNABORTED, in.name.function, fmt::format("rank {}", rank_),
                                fmt::format("rank {} failed in {} because of rank {}", by,
                                            in.name.noun, culprit)));
}

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
  // A rank that failed because of another one may have ended, so that it cannot be reached.
  if (auto told = check_failure_of_others(in); !told) return std::move(told).error();
  const std::string call = fmt::format("{}()", in.name.function);
  if (missing.empty())
    return fail(in, awaited,
                error::timed_out(
                    in.name.function, fmt::format("rank {}", rank_),
                    fmt::format("all ranks have called {}, but the last ones too late", call)));
  return fail(in, missing.front(),
              error::timed_out(in.name.function, fmt::format("rank {}", rank_),
                               fmt::format("{} had not called {} when the deadline passed, "
                                           "or cannot be reached",
                                           to_text(missing), call)));
}

error rank_board::fail(collective& in, std::uint32_t culprit, error why) {
  failure_ = why;
  release_memory(in);
  abandon();
  const std::size_t from = outgoing_failure_at(size_);
  store(from, failure_word(culprit));
  const auto time_to_connect = earliest(in.until, time_to_report);
  const auto try_to_report = [&](std::uint32_t rank) {
    return report_to(in, rank, culprit, time_to_connect);
  };
  std::vector<std::uint32_t> untold(in.ranks.begin(), in.ranks.end());
  std::erase(untold, rank_);
  std::erase_if(untold, try_to_report);
  const auto limit = deadline::after(time_to_release);
  while (std::erase_if(untold, try_to_report), !untold.empty() && !limit.expired())
    if (channel_access::core_of(in.channels[rank_]).progress() <= 0) ::sched_yield();
  for (const std::uint32_t each : untold) channel_access::core_of(in.channels[each]).flush();
  for (std::size_t polls = 0; polls < in_flight_; ++polls)
    channel_access::core_of(in.channels[rank_]).progress();
  abandon();
  return why;
}

bool rank_board::report_to(collective& in, std::uint32_t rank, std::uint32_t culprit,
                           deadline time_to_connect) {
  auto& to = channel_access::core_of(in.channels[rank]);
  if (to.awaits_first_use() && (rank == culprit || time_to_connect.expired())) return true;
  const auto report = own(outgoing_failure_at(size_), word);
  if (post(in.channels, {operation_kind::write, rank, report, failure_at},
           earliest(time_to_connect, time_to_report / 4)))
    return ++in_flight_ != 0;
  return posted_[in_flight_].waiter.result.refusal() != refusal::queue_full;
}

std::uint64_t rank_board::failure_word(std::uint32_t culprit) const {
  static_assert(max_ranks < 0xffff);
  return word_of(epoch_ << 16U | (rank_ + 1), culprit);
}

std::vector<std::uint32_t> rank_board::probe(multi_channel& channels,
                                             std::span<const std::uint32_t> ranks, deadline until) {
  abandon();
  std::vector<std::uint32_t> silent;
  std::vector<std::uint32_t> without_room;  // operations of the program fill the queue
  const auto try_post = [&](std::uint32_t rank) {
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
  // Polls a few times even if this thread had no processor until the deadline.
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

void rank_board::clear(std::uint32_t epoch, std::span<const std::uint32_t> members) {
  epoch_ = epoch;
  // A late word of another epoch has another number, too.
  const std::uint32_t first = epoch << 24U;
  for (std::uint32_t each = 0; each < size_; ++each) {
    for (std::uint32_t slot = 0; slot < slots; ++slot) store(arrival_at(each, slot), 0);
    store(acknowledged_at(each), first);
    pairs_[each] = {.sent = first, .known = first, .received = first, .acknowledged = first};
  }
  for (std::size_t place = 0; place < entered_words; ++place) store(entered_at + place * word, 0);
  store(failure_at, 0);
  entered_.clear();
  subsets_ = 0;
  set_members(members);
}

void rank_board::start(std::span<const std::uint32_t> members) {
  set_members(members);
  failure_.reset();
}

void rank_board::set_members(std::span<const std::uint32_t> members) {
  member_count_ = members.size();
  is_member_.assign(size_, false);
  for (const std::uint32_t each : members) is_member_[each] = true;
}

// Afterwards no write reads memory of the program.
void rank_board::release_memory(collective& in) {
  const auto limit = deadline::after(time_to_release);
  for (const request& each : std::span(posted_).first(in_flight_))
    if (each.reads_program && !each.waiter.ended)
      channel_access::core_of(in.channels[each.rank]).await(each.waiter, limit);
}

std::vector<std::uint32_t> rank_board::find_missing(collective& in) {
  release_memory(in);
  abandon();
  std::vector<std::uint32_t> missing;
  for (const std::uint32_t each : in.ranks) {
    if (each == rank_) continue;
    // A rank that cannot be connected takes only its share of the time.
    const auto left =
        std::max(in.until.when() - deadline::clock::now(), deadline::clock::duration());
    const auto share = deadline::after(left / static_cast<std::int64_t>(in.count()));
    if (post(in.channels, read_of_entered(each), share))
      ++in_flight_;
    else
      missing.push_back(each);
  }
  // Polls a few times even if this thread had no processor until the deadline.
  for (std::size_t polls = 0; !requests_ended() && (polls <= in.count() || !in.until.expired());
       ++polls)
    channel_access::core_of(in.channels[rank_]).progress();
  for (const request& each : std::span(posted_).first(in_flight_))
    if (!each.waiter.ended || !each.waiter.result || !has_entered(in, each.rank))
      missing.push_back(each.rank);
  std::ranges::sort(missing);
  return missing;
}

void rank_board::abandon() noexcept {
  // The memory of the board stays registered, so that the requests can complete later.
  for (const request& each : std::span(posted_).first(in_flight_))
    if (!each.waiter.ended) verbena::detail::channel_core::redirect(*each.slot, nullptr);
  in_flight_ = 0;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
