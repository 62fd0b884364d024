// SPDX-License-Identifier: MIT
// Posts messages, receives and credits.
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "src/channel/message_core.hpp"
#include "src/channel/part_length.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);
// The number of polls without credit before the first probe, and the maximum number between probes.
constexpr std::uint32_t first_probe = 256;
constexpr std::uint32_t rarest_probe = 65536;
// The minimum and maximum intervals of the timer, for retries and for probes.
constexpr std::chrono::microseconds first_retry(50);
constexpr std::chrono::milliseconds rarest_retry(1);
constexpr std::chrono::milliseconds first_timed_probe(10);
constexpr std::chrono::seconds rarest_timed_probe(1);

send_result refuse(send_refusal why) noexcept {
  switch (why) {
    case send_refusal::too_long:
      return send_result::refuse(why, EMSGSIZE);
    case send_refusal::foreign_domain:
      return send_result::refuse(why, EINVAL);
    case send_refusal::ended:
      return send_result::refuse(why, ENOTCONN);
    default:
      return send_result::refuse(why, EAGAIN);
  }
}

}  // namespace

bool message_core::has_credit() noexcept {
  if (sent_ < credit_) return true;
  if (is_woken_by_credits_) return false;
  // The peer posted the receives before it wrote the word, so they are posted before a later
  // message arrives.
  const std::uint64_t granted = network_order(own_.word.load());
  return granted > credit_ && accept_credit(granted);
}

bool message_core::accept_credit(std::uint64_t granted) noexcept {
  if (granted - sent_ > peer_receives_) {
    ++counters_.bad_credits;
    return false;
  }
  credit_ = granted;
  return true;
}

// Reposts the consumed receive with its unused buffer, before the credit can be used.
void message_core::credit_arrived(std::uint32_t place, std::uint32_t low) noexcept {
  const std::uint32_t added = low - static_cast<std::uint32_t>(credit_);
  if (!queue_ || has_ended()) return receives_.release(place);
  auto batch = queue_->start_receive<1>();
  batch.receive({.id = key() | receive_bit | place}, receives_.at(place).slice(0, message_bytes_));
  if (const post_status status = batch.submit(); !status) [[unlikely]] {
    receives_.release(place);
    return fail_posting(status.code());
  }
  if (added == 0 || added > peer_receives_) {
    ++counters_.bad_credits;
    return;
  }
  if (accept_credit(credit_ + added)) lacks_credit_ = false;
}

send_refusal message_core::missing() noexcept {
  if (!sends_.has_place(line_kind::message)) return send_refusal::queue_full;
  if (!uses_credits_ || has_credit()) return send_refusal::none;
  lacks_credit_ = true;
  start_timer_if_needed();
  return send_refusal::no_credit;
}

send_refusal message_core::refusal_for(std::size_t bytes) {
  if (has_ended() || !queue_) return send_refusal::ended;
  if (bytes > message_bytes_) return send_refusal::too_long;
  if (missing() == send_refusal::none) return send_refusal::none;
  progress();
  return has_ended() ? send_refusal::ended : missing();
}

template <class Data>
send_result message_core::post_message(const Data& data, buffer&& held) {
  const bool signaled = sends_.must_signal(line_kind::message);
  auto batch = queue_->start_send<1>();
  batch.send({.id = key() | (sends_.next_id() & number_mask), .signaled = signaled}, data);
  if (const post_status status = batch.submit(); !status) [[unlikely]]
    return send_result::refuse(send_refusal::verb, status.code());
  sends_.posted(line_kind::message, signaled, std::move(held));
  lacks_credit_ = false;
  lacks_buffer_ = false;
  polls_without_credit_ = 0;
  counters_.signaled += signaled ? 1 : 0;
  return send_result::of(++sent_);
}

send_result message_core::send(std::span<const std::byte> bytes) {
  if (const send_refusal why = refusal_for(bytes.size()); why != send_refusal::none)
    return refuse(why);
  const bool is_inline = !bytes.empty() && bytes.size() <= inline_bytes_;
  if (bytes.empty() || is_inline) {
    const auto outcome = is_inline ? post_message(inline_data(bytes), {})
                                   : post_message(std::span<const local_slice>(), {});
    if (outcome) counters_.inlined += 1;
    return outcome;
  }
  auto copy = take_buffer();
  // take_buffer() polls, and so may end the channel, which returns a buffer.
  if (has_ended() || !queue_) return refuse(send_refusal::ended);
  if (!copy) return refuse(send_refusal::no_buffer);
  std::memcpy(copy->bytes().data(), bytes.data(), bytes.size());
  const auto slice = copy->slice(0, bytes.size());
  const auto outcome = post_message(slice, std::move(*copy));
  if (outcome) counters_.copied += 1;
  return outcome;
}

send_result message_core::send(buffer& memory, const buffer_slice& part) {
  VERBENA_ASSERT(!memory.empty(), "an empty or moved-from buffer was sent");
  const std::size_t length = part_length(memory, part);
  if (memory.native_pd() != own_.domain.native()) return refuse(send_refusal::foreign_domain);
  if (const send_refusal why = refusal_for(length); why != send_refusal::none) return refuse(why);
  if (length == 0) return post_message(std::span<const local_slice>(), std::move(memory));
  const auto slice = memory.slice(part.offset, length);
  return post_message(slice, std::move(memory));
}

std::optional<buffer> message_core::take_buffer() {
  if (auto found = own_.sends.take(message_bytes_)) return found;
  end_silence();
  progress();
  auto found = own_.sends.take(message_bytes_);
  lacks_buffer_ = !found;
  if (lacks_buffer_) start_timer_if_needed();
  return found;
}

bool message_core::receive(std::optional<received_message>& into) {
  if (!receives_.has_arrived()) progress();
  if (!receives_.has_arrived()) return false;
  const receive_line::arrival oldest = receives_.next();
  into.emplace(std::move(receives_.memory_of(oldest)), oldest.length, ++taken_);
  if (!has_ended()) tend();
  return true;
}

void message_core::end_silence() {
  tail_is_due_ = false;
  if (!queue_ || has_ended() || !sends_.has_silent_tail()) return;
  if (!sends_.has_place(line_kind::notice)) {
    tail_is_due_ = true;  // retried by tend() until a place is free
    return;
  }
  ++counters_.tail_writes;
  post_notice(notice::tail);
}

// In the error state, the notice is flushed, which retires the requests before it.
bool message_core::signal_last() {
  if (!sends_.ends_silent() || !sends_.has_place(line_kind::notice)) return true;
  const std::uint64_t before = sends_.next_id();
  post_notice(notice::tail);
  return sends_.next_id() != before;
}

bool message_core::try_drain() {
  if (delivered_ == sent_) return true;
  progress();
  end_silence();
  return delivered_ == sent_;
}

void message_core::post_notice(notice why) {
  // A peer that reads credits from immediate data does not read its word.
  const bool wakes = why == notice::grant && peer_credit_receives_ != 0;
  const bool grants = wakes || peer_credit_receives_ == 0;
  const bool signaled = why != notice::grant || sends_.must_signal(line_kind::notice);
  const std::uint64_t count = network_order(grants ? posted_ : granted_);
  const send_request request{.id = key() | (sends_.next_id() & number_mask), .signaled = signaled};
  auto batch = queue_->start_send<1>();
  const auto add = [&](auto&& data) {
    if (wakes) {
      batch.write_with_immediate(request, static_cast<std::uint32_t>(posted_), data, peer_word_);
    } else {
      batch.write(request, data, peer_word_);
    }
  };
  const auto bytes = std::as_bytes(std::span(&count, 1));
  if (inline_bytes_ >= word_bytes) {
    add(inline_data(bytes));
  } else {
    // No notice in flight reads this word: there are as many words as places for notices.
    const std::size_t offset = notices_ % notice_places * word_bytes;
    std::memcpy(own_.counts.bytes().data() + offset, bytes.data(), word_bytes);
    add(own_.counts.slice(offset, word_bytes));
  }
  if (const post_status status = batch.submit(); !status) [[unlikely]]
    return fail_posting(status.code());
  sends_.posted(line_kind::notice, signaled, {});
  counters_.signaled += signaled ? 1 : 0;
  ++notices_;
  if (wakes) before_grant_[grants_++ % peer_credit_receives_] = granted_;
  if (grants) granted_ = posted_;
}

// Returns true if a grant can be written. With immediate data, a message with a number greater than
// the count before an earlier grant acknowledges that the peer has reposted the receive of that
// grant.
bool message_core::may_grant() const noexcept {
  return sends_.has_place(line_kind::notice) &&
         (grants_ < peer_credit_receives_ || peer_credit_receives_ == 0 ||
          received_ > before_grant_[grants_ % peer_credit_receives_]);
}

void message_core::grant_credits() {
  const std::uint64_t ungranted = posted_ - granted_;
  if (!uses_credits_ || ungranted == 0) return;
  const std::uint64_t left = granted_ > received_ ? granted_ - received_ : 0;  // unused credits
  if ((ungranted < receives_.quarter() && ungranted < left) || !may_grant()) return;
  ++counters_.credit_writes;
  post_notice(notice::grant);
}

// If all messages have arrived, only a request can detect that the peer has failed. The probe is a
// write of the current count, at increasing intervals.
void message_core::probe_for_credit() {
  const std::uint32_t polls = ++polls_without_credit_;
  const bool is_due =
      polls % rarest_probe == 0 || (polls >= first_probe && std::has_single_bit(polls));
  if (is_due) post_probe();
}

void message_core::post_probe() {
  if (!queue_ || has_ended() || !sends_.has_place(line_kind::notice)) return;
  ++counters_.credit_probes;
  post_notice(notice::probe);
}

void message_core::tend() {
  if (queue_ && !has_ended()) {
    if (receives_.is_worth_posting()) replenish();
    if (!has_ended()) grant_credits();
    if (tail_is_due_ || has_waiting(message_event::delivery)) end_silence();
    // The return of a buffer generates no completion, so tries again in the next poll and by the
    // timer.
    if (receives_.is_worth_posting()) {
      table().attend(*this);
      start_timer_if_needed();
    }
  }
  wake_next();
}

// Returns true if the peer may be waiting for a receive for which no buffer is free.
bool message_core::is_starved() const noexcept {
  return receives_.missing() != 0 && receives_.posted_for_messages() == 0 && pool_is_empty_;
}

void message_core::start_timer_if_needed() noexcept {
  if (retry_interval_.count() != 0 || !(lacks_credit_ || lacks_buffer_ || is_starved())) return;
  retry_interval_ = first_retry;
  probe_interval_ = first_timed_probe;
  next_probe_ = {};
  table().start_timer(*this);
}

std::optional<table_member::time_point> message_core::expire(time_point now, std::size_t& events) {
  const bool lacked_credit = lacks_credit_;
  const bool lacked_buffer = lacks_buffer_;
  if (lacks_credit_ && has_credit()) lacks_credit_ = false;
  if (lacks_buffer_ && own_.sends.taken() < own_.sends.count()) lacks_buffer_ = false;
  if (lacked_credit != lacks_credit_ || lacked_buffer != lacks_buffer_) ++events;
  tend();
  if (!queue_ || has_ended() || !(lacks_credit_ || lacks_buffer_ || is_starved())) {
    retry_interval_ = {};
    return std::nullopt;
  }
  time_point next = time_point::max();
  if (lacks_credit_) {
    if (next_probe_ == time_point()) {
      next_probe_ = now + probe_interval_;
    } else if (next_probe_ <= now) {
      post_probe();
      probe_interval_ = std::min<std::chrono::nanoseconds>(2 * probe_interval_, rarest_timed_probe);
      next_probe_ = now + probe_interval_;
    }
    next = next_probe_;
  }
  if ((lacks_credit_ && !is_woken_by_credits_) || lacks_buffer_ || is_starved()) {
    next = std::min(next, now + retry_interval_);
    retry_interval_ = std::min<std::chrono::nanoseconds>(2 * retry_interval_, rarest_retry);
  }
  return next;
}

void message_core::await(message_event what, queued_waiter& who, bool at_front) noexcept {
  waiting_line& line = waiting_[static_cast<std::size_t>(what)];
  if (!at_front) return line.waiters.push_back(who);
  line.has_turn = false;
  line.waiters.push_front(who);
}

bool message_core::stop_waiting(message_event what, queued_waiter& who) noexcept {
  // The next recipient may not need a buffer.
  if (what == message_event::room) lacks_buffer_ = false;
  return waiting_[static_cast<std::size_t>(what)].waiters.remove(who);
}

void message_core::wake_all() noexcept {
  for (const auto what : {message_event::arrival, message_event::room, message_event::delivery})
    while (has_waiting(what)) wake_first(what);
  // They do not settle their turns: the channel has ended, or leaves the engine.
  for (waiting_line& each : waiting_) each.has_turn = false;
}

void message_core::wake_first(message_event what) noexcept {
  waiting_line& line = waiting_[static_cast<std::size_t>(what)];
  line.has_turn = true;
  table().append_completed(line.waiters.pop_front());
}

bool message_core::is_worth_sending() noexcept {
  if (!sends_.has_place(line_kind::message)) return false;
  if (uses_credits_ && !has_credit()) {
    // The recipient may not have tried to send yet.
    lacks_credit_ = true;
    start_timer_if_needed();
    return false;
  }
  if (lacks_buffer_ && own_.sends.taken() < own_.sends.count()) lacks_buffer_ = false;
  return !lacks_buffer_;
}

void message_core::wake_next() noexcept {
  if (has_ended() || !queue_) return wake_all();
  const auto is_next = [this](message_event what) {
    return has_waiting(what) && !waiting_[static_cast<std::size_t>(what)].has_turn;
  };
  if (is_next(message_event::arrival) && receives_.has_arrived())
    wake_first(message_event::arrival);
  if (is_next(message_event::room) && is_worth_sending()) wake_first(message_event::room);
  if (delivered_ == sent_)
    while (has_waiting(message_event::delivery)) wake_first(message_event::delivery);
}

void message_core::replenish() {
  if (const post_status posted = post_receives(*queue_); !posted) fail_posting(posted.code());
}

post_status message_core::post_receives(queue_pair<rc>& queue) {
  constexpr std::uint32_t most = 16;
  std::array<std::uint32_t, most> places;
  while (receives_.missing() != 0) {
    auto batch = queue.start_receive<most>();
    std::uint32_t count = 0;
    for (; count < most && receives_.missing() != 0; ++count) {
      auto memory = own_.receives.take(message_bytes_);
      if (!memory) break;
      places[count] = receives_.hold(std::move(*memory));
      batch.receive({.id = key() | receive_bit | places[count]},
                    receives_.at(places[count]).slice(0, message_bytes_));
    }
    const bool is_empty = count < most && receives_.missing() != 0;
    if (is_empty && !pool_is_empty_) ++counters_.empty_pools;
    pool_is_empty_ = is_empty;
    if (count == 0) return {};
    ++counters_.receive_doorbells;
    const post_status status = batch.submit();
    const std::uint32_t accepted = status ? count : status.accepted_before_failure();
    posted_ += accepted;
    for (std::uint32_t i = accepted; i < count; ++i) receives_.release(places[i]);
    if (!status || is_empty) return status;
  }
  return {};
}

void message_core::fail_posting(int code) noexcept {
  end_because({.part = failed_part::posting, .code = code});
}

void message_core::end_because(const message_failure& why) noexcept {
  fail(why);
  if (!queue_) return;
  if (auto moved = queue_->modify(queue_pair_attributes().set_state(queue_pair_state::error));
      !moved)
    log(log_level::warning, moved.error().message());
}

}  // namespace verbena::inline VERBENA_ABI::detail
