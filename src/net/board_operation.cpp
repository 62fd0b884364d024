// SPDX-License-Identifier: MIT
// Operations of a board. They advance without blocking; the state of an operation is in its
// `collective`. run() polls until the operation ends.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "src/base/earliest.hpp"
#include "src/base/relax.hpp"
#include "src/net/board_layout.hpp"
#include "src/net/board_turn.hpp"
#include "src/net/channel_access.hpp"
#include "src/net/message_word.hpp"
#include "src/net/rank_board.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

using verbena::detail::earliest;
using verbena::detail::operation_kind;

}  // namespace

void rank_board::end_barrier() {
  // Every rank received all earlier messages before it entered the barrier. Only the last message
  // of the barrier may still be in flight.
  for (const std::uint32_t each : sent_to_)
    pairs_[each].acknowledged_by_peer = pairs_[each].sent - 1;
  for (const std::uint32_t each : received_from_)
    pairs_[each].acknowledged = pairs_[each].received - 1;
}

result<void> rank_board::run(collective& in) {
  running_operation running(*this, in);
  auto ended = run_to_end(in);
  running.end();
  return ended;
}

result<void> rank_board::run_to_end(collective& in) {
  // A small number, because the peer may need this processor: with 8 ranks on 2 processors, a
  // barrier takes a third of the time that it takes with 64 polls.
  constexpr std::uint32_t polls_per_look = 4;
  for (std::uint32_t idle = 0;;) {
    VERBENA_TRY(const bool has_ended, advance(in));
    if (has_ended) return {};
    const int polled = channel_access::core_of(in.channels[rank_]).progress();
    if (polled > 0) continue;
    if (polled < 0) return fail_unpolled(in);
    if (++idle % polls_per_look != 0) {
      verbena::detail::relax();
      continue;
    }
    VERBENA_TRY_VOID(watch(in));
    ::sched_yield();
  }
}

result<bool> rank_board::poll(collective& in) {
  if (failure_) {  // a queued operation was given up, or this rank was expelled
    abandon(in);
    return *failure_;
  }
  if (channel_access::core_of(in.channels[rank_]).progress() < 0) return fail_unpolled(in);
  VERBENA_TRY(const bool has_ended, advance(in));
  if (!has_ended) VERBENA_TRY_VOID(watch(in));
  return has_ended;
}

result<bool> rank_board::advance(collective& in) {
  while (true) {
    VERBENA_TRY(const bool has_written, write_pending(in));
    if (!has_written) return false;
    if (!in.has_step) {
      in.step = {};
      in.sent = in.received = 0;
      in.receives_next = false;
      in.has_step = in.next(in, in.step_number, in.step);
      if (!in.has_step) break;
      ++in.step_number;
    }
    VERBENA_TRY(const bool has_moved, take_step(in));
    if (has_moved) {
      ++in.moves;
    } else if (in.must_send() || in.must_receive()) {
      return false;
    } else {
      // The next step may store to memory that a write in flight reads. For words of the board,
      // write_pending() checks this with is_read().
      if (!in.is_barrier) {
        VERBENA_TRY(const bool has_completed, complete_requests(in));
        if (!has_completed) return false;
      }
      in.has_step = false;
    }
  }
  VERBENA_TRY(const bool has_completed, complete_requests(in));
  if (!has_completed) return false;
  if (in.has_watched) VERBENA_TRY_VOID(look(in));
  if (in.is_barrier) end_barrier();
  return true;
}

/// Sends or receives one message of a step. Returns false if neither is possible now.
result<bool> rank_board::take_step(collective& in) {
  const board_step& step = in.step;
  const bool is_shared =
      step.out.length != 0 && step.into.length != 0 && step.out.data == step.into.data;
  const bool can_receive =
      in.must_receive() && (!is_shared || in.received < in.sent) && has_arrived(*step.from);
  if (in.must_send() && !(can_receive && in.receives_next) && has_room(*step.to)) {
    in.receives_next = true;
    send(in);
    return true;
  }
  if (!can_receive) return false;
  VERBENA_TRY_VOID(check_arrived(in, *step.from));
  // A write reads the bytes until the write has completed.
  if (is_shared) {
    VERBENA_TRY(const bool has_completed, complete_requests(in));
    if (!has_completed) {
      in.receives_next = true;
      return false;
    }
  }
  in.receives_next = false;
  receive(in);
  return true;
}

// Precondition: must_send() and has_room().
void rank_board::send(collective& in) {
  const std::uint32_t to = *in.step.to;
  const std::uint32_t number = ++pairs_[to].sent;
  if (in.is_barrier) {
    sent_to_.push_back(to);
    in.sent = 1;
  } else {
    const auto part =
        in.step.out.part(in.sent, std::min(in.most_bytes(), in.step.out.length - in.sent));
    in.sent += part.length;
    in.pending.push(
        {.rank = to, .from = part, .peer_offset = board_layout::payload_at(rank_, number, size_)});
  }
  in.pending.push(
      {.rank = to,
       .word = board_word{.place = number % board_layout::slots, .value = word_of(in.tag, number)},
       .peer_offset = board_layout::arrival_at(rank_, number)});
}

// Precondition: must_receive() and has_arrived().
void rank_board::receive(collective& in) {
  const std::uint32_t from = *in.step.from;
  if (in.is_barrier) {
    // Not acknowledged: the sender may leave the group after its last message.
    received_from_.push_back(from);
    in.received = 1;
    ++pairs_[from].received;
    return;
  }
  const auto& step = in.step;
  const auto part =
      step.into.part(in.received, std::min(in.most_bytes(), step.into.length - in.received));
  const std::byte* const theirs =
      memory_.bytes().data() + board_layout::payload_at(from, pairs_[from].received + 1, size_);
  if (step.with != nullptr)
    step.with->run(part.data, theirs, part.length / in.element_bytes, from < rank_);
  else
    std::memcpy(part.data, theirs, part.length);
  ++pairs_[from].received;
  in.received += part.length;
  acknowledge(in, from);
}

void rank_board::acknowledge(collective& in, std::uint32_t from) {
  constexpr std::uint32_t slots = board_layout::slots;
  pair_state& with = pairs_[from];
  if (with.received - with.acknowledged < slots / 2) return;
  with.acknowledged = with.received;
  // Alternates between two words, so that the write of the earlier word has usually completed.
  in.pending.push(
      {.rank = from,
       .word = board_word{.place = slots + with.received / (slots / 2) % 2, .value = with.received},
       .peer_offset = board_layout::acknowledged_at(rank_),
       .is_acknowledgment = true});
}

bool rank_board::has_room(std::uint32_t to) {
  pair_state& with = pairs_[to];
  if (with.sent - with.acknowledged_by_peer < board_layout::slots) return true;
  const auto acknowledged = number_of(load(board_layout::acknowledged_at(to)));
  if (is_before(with.acknowledged_by_peer, acknowledged)) with.acknowledged_by_peer = acknowledged;
  return with.sent - with.acknowledged_by_peer < board_layout::slots;
}

bool rank_board::has_arrived(std::uint32_t from) const {
  const std::uint32_t number = pairs_[from].received + 1;
  return number_of(load(board_layout::arrival_at(from, number))) == number;
}

// Precondition: has_arrived(from).
result<void> rank_board::check_arrived(collective& in, std::uint32_t from) {
  const std::uint32_t number = pairs_[from].received + 1;
  const std::uint32_t theirs = tag_of(load(board_layout::arrival_at(from, number)));
  if (theirs == in.tag || is_one_operation(theirs, in.tag)) return {};
  return fail_mixed_up(in, from, theirs);
}

/// Posts the pending writes of a send or receive. Returns false if a write cannot be posted yet.
result<bool> rank_board::write_pending(collective& in) {
  for (; !in.pending.empty(); in.pending.pop()) {
    const board_write& next = in.pending.front();
    const auto place = next.word ? next.word->place : 0;
    const std::size_t at = board_layout::outgoing_at(next.rank, size_) + place * board_layout::word;
    if (next.word) {
      if (is_read(next.rank, place)) return false;
      store(at, next.word->value);
    }
    VERBENA_TRY(const bool is_written,
                write(in, next, next.word ? own(at, board_layout::word) : next.from));
    if (!is_written) return false;
    ++in.moves;
  }
  return true;
}

// An acknowledgment of the other rank does not imply that the write has completed locally. The
// adapter may read the word until the completion is polled.
bool rank_board::is_read(std::uint32_t rank, std::size_t place) const {
  const std::size_t at = board_layout::outgoing_at(rank, size_) + place * board_layout::word;
  const std::uint32_t reader = pairs_[rank].readers.at(place);
  // Another request may occupy the entry of posted_ by now.
  return reader < in_flight_ && posted_[reader].reads == at && !posted_[reader].waiter.ended;
}

result<bool> rank_board::write(collective& in, const board_write& what,
                               const registered_bytes& from) {
  if (in_flight_ == posted_.size()) {
    VERBENA_TRY(const bool has_completed, complete_requests(in));
    if (!has_completed) return false;
  }
  const deadline limit = in.give_up.is_never() ? in.connect_by : in.give_up;
  const auto attempt = std::min(in.time_to_connect, first_use_timeout_);
  if (post(in.channels, {operation_kind::write, what.rank, from, what.peer_offset},
           earliest(limit, attempt))) {
    request& made = posted_[in_flight_];
    made.reads_program = !what.word;
    made.is_acknowledgment = what.is_acknowledgment;
    if (what.word) {
      made.reads =
          board_layout::outgoing_at(what.rank, size_) + what.word->place * board_layout::word;
      pairs_[what.rank].readers.at(what.word->place) = static_cast<std::uint32_t>(in_flight_);
    }
    in.time_to_connect = collective::first_time_to_connect;
    in.connect_by = deadline::never();
    ++in_flight_;
    return true;
  }
  request& refused = posted_[in_flight_];
  refused.is_acknowledgment = what.is_acknowledgment;
  const auto& why = refused.waiter.result;
  // The queue may be full of operations of the program.
  if (why.refusal() == refusal::queue_full) return false;
  // Connecting a channel can take a long time. Between attempts, watch() checks for failures of
  // other ranks.
  if (why.refusal() == refusal::connect_failed && why.code() == ETIMEDOUT) {
    if (in.give_up.expired()) return fail_late(in, what.rank);
    if (limit.is_never()) in.connect_by = deadline::after(first_use_timeout_ - attempt);
    in.time_to_connect = std::min(in.time_to_connect * 2, collective::longest_time_to_connect);
    if (!in.connect_by.expired()) {
      VERBENA_TRY_VOID(watch(in));
      return false;
    }
  }
  if (is_dispensable(in, refused)) return true;
  return fail_broken(in, refused);
}

bool rank_board::is_dispensable(const collective& in, const request& failed) {
  return failed.is_acknowledgment && !waits_for(in, failed.rank);
}

/// Returns true if all requests have completed successfully, except dispensable ones.
result<bool> rank_board::complete_requests(collective& in) {
  for (; in_flight_ != 0; --in_flight_) {
    const request& last = posted_[in_flight_ - 1];
    if (!last.waiter.ended) return false;
    if (!last.waiter.result && !is_dispensable(in, last)) return fail_broken(in, last);
  }
  return true;
}

bool rank_board::post(multi_channel& channels, const access_to_board& what, deadline until) {
  const registered_bytes& own = what.own;
  request& next = posted_[in_flight_];
  next.rank = what.rank;
  next.reads_program = false;
  next.is_read = what.kind == operation_kind::read;
  next.is_acknowledgment = false;
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

/// Checks for failures while an operation waits: failed requests, failures of other ranks, departed
/// ranks, ranks that take part in no operation, and the deadline.
result<void> rank_board::watch(collective& in) {
  in.has_watched = true;
  VERBENA_TRY_VOID(look(in));
  if (in.give_up.expired()) {
    // The last messages may have arrived just before the deadline: advances once more.
    if (in.has_watched_late) return fail_late(in, awaited_rank(in));
    in.has_watched_late = true;
    return {};
  }
  if (!in.next_check.expired()) return {};
  in.next_check = deadline::after(time_to_check_ranks);
  VERBENA_TRY_VOID(check_departed(in));
  return check_states(in);
}

/// Returns a rank that the operation waits for.
std::uint32_t rank_board::awaited_rank(const collective& in) const {
  if (in.has_step && in.must_receive() && !has_arrived(*in.step.from)) return *in.step.from;
  if (!in.pending.empty()) return in.pending.front().rank;
  if (in.has_step && in.must_send()) return *in.step.to;
  return in_flight_ != 0 ? posted_[in_flight_ - 1].rank : rank_;
}

// A message that arrived before the rank stopped counts.
bool rank_board::waits_for(const collective& in, std::uint32_t rank) {
  const bool owes_message =
      (in.has_step && in.must_receive() && *in.step.from == rank) ||
      (in.has_step && std::ranges::find(in.step.later, rank) != in.step.later.end());
  if (owes_message && !has_arrived(rank)) return true;
  return in.has_step && in.must_send() && *in.step.to == rank && !has_room(rank);
}

/// Fails if an awaited rank has left the group before it sent its message.
result<void> rank_board::check_departed(collective& in) {
  // The messages of a rank arrive before the store reports that the rank has left.
  const auto departed = in.client.departed();
  for (const std::uint32_t each : departed) {
    const bool is_unreached = !in.pending.empty() && in.pending.front().rank == each &&
                              channel_access::core_of(in.channels[each]).awaits_first_use();
    if (!waits_for(in, each)) {
      if (!is_unreached) continue;
      if (in.pending.front().is_acknowledgment) {
        in.pending.pop();
        continue;
      }
    }
    VERBENA_TRY_VOID(check_failure_of_others(in));
    return fail(in, each,
                error::from_errno(ECONNABORTED, in.name.function, fmt::format("rank {}", rank_),
                                  fmt::format("rank {} left the group before the end of {}", each,
                                              in.name.noun)));
  }
  return {};
}

/// Fails if an awaited rank takes part in no operation until the next epoch.
result<void> rank_board::check_states(collective& in) {
  for (const std::uint32_t each : in.ranks) {
    // The messages of a rank arrive before its state.
    const std::uint64_t state = load(board_layout::state_at(each));
    if (tag_of(state) != epoch_ || number_of(state) == 0 || !waits_for(in, each)) continue;
    VERBENA_TRY_VOID(check_failure_of_others(in));
    const bool shrinks = number_of(state) == static_cast<std::uint32_t>(rank_state::shrinks);
    return fail(
        in, each,
        error::from_errno(
            ECONNABORTED, in.name.function, fmt::format("rank {}", rank_),
            shrinks ? fmt::format("rank {} called shrink() before the end of {}; call shrink() too",
                                  each, in.name.noun)
                    : fmt::format("rank {} takes no part in {}, because another barrier or "
                                  "collective operation of rank {} failed; call shrink()",
                                  each, in.name.noun, each)),
        shrinks ? rank_state::shrinks : rank_state::works);
  }
  return {};
}

result<void> rank_board::look(collective& in) {
  for (std::size_t each = 0; each < in_flight_; ++each)
    if (const request& of = posted_[each];
        of.waiter.ended && !of.waiter.result && !is_dispensable(in, of))
      return fail_broken(in, of);
  return check_failure_of_others(in);
}

result<void> rank_board::check_failure_of_others(collective& in) {
  const std::uint64_t report = load(board_layout::failure_at);
  if (report == 0) return {};
  if (report >> 48U != epoch_ % 0x1'0000) return {};  // from another epoch
  const std::uint32_t by = (tag_of(report) & 0xffffU) - 1;
  const std::uint32_t culprit = number_of(report) & 0xffffU;
  const auto state = static_cast<rank_state>(number_of(report) >> 16U);
  const std::string what =
      by == culprit
          ? fmt::format("rank {} aborted {}; see its error for the cause", by, in.name.noun)
      : state == rank_state::shrinks
          ? fmt::format("rank {} failed in {} because rank {} called shrink(); call shrink() too",
                        by, in.name.noun, culprit)
          : fmt::format("rank {} failed in {} because of rank {}", by, in.name.noun, culprit);
  return fail(
      in, culprit,
      error::from_errno(ECONNABORTED, in.name.function, fmt::format("rank {}", rank_), what),
      state);
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
