// SPDX-License-Identifier: MIT
// Negotiation, polling, failures and destruction of a message channel.
#include "src/channel/message_core.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "src/channel/connection_options.hpp"
#include "src/channel/disconnect.hpp"
#include "verbena/base/log.hpp"
#include "verbena/channel/detail/channel_core.hpp"  // the inline functions of operation_table

namespace verbena::inline VERBENA_ABI::detail {
namespace {

// After this number of polls without completions, a signaled write is posted after an unsignaled
// tail.
constexpr std::uint32_t patient_polls = 256;

bool is_flushed(const message_failure& why) {
  return why.done && why.done->status() == completion_status::flushed;
}

}  // namespace

void destroy(message_core& core) noexcept {
  std::unique_ptr<message_core> owner(&core);
  if (owner->close()) return;
  log(log_level::error,
      "the queue pair of a message channel cannot be destroyed; its memory is leaked");
  owner.release()->keep_forever();
}

message_core::message_core(parts of)
    : own_(std::move(of)),
      sends_(own_.options.queues.max_send_wr, notice_places),
      receives_(own_.options.queues.max_recv_wr, own_.terms.credit_receives),
      message_bytes_(own_.terms.message_bytes) {}

// The adapter may still access the memory of the core. The cores stay reachable, so that leak
// checkers do not report them.
void message_core::keep_forever() noexcept {
  static std::atomic<message_core*> newest = nullptr;
  next_kept_ = newest.load();
  while (!newest.compare_exchange_weak(next_kept_, this)) continue;
}

message_core::~message_core() {
  // Polls all completions of the destroyed queue pair, before another channel receives its key.
  while (table().progress() > 0) {
  }
  table().dismiss(*this);
}

result<void> message_core::agree(const message_terms& theirs) {
  const message_terms& ours = own_.terms;
  const auto refuses = [](const message_terms& one, const message_terms& other) {
    return one.credits == credits::required && other.credits == credits::off;
  };
  if (refuses(ours, theirs) || refuses(theirs, ours))
    return error::not_supported(
        "connecting a message channel", own_.domain.name(),
        refuses(ours, theirs)
            ? "this side requires credits and the peer has them off: change one side"
            : "the peer requires credits and this side has them off: change one side");
  message_bytes_ = std::min(ours.message_bytes, theirs.message_bytes);
  uses_credits_ = ours.credits != credits::off && theirs.credits != credits::off;
  is_woken_by_credits_ = uses_credits_ && ours.credit_receives != 0;
  if (uses_credits_) peer_credit_receives_ = std::min(theirs.credit_receives, credit_receives);
  peer_receives_ = theirs.receives;
  credit_ = theirs.receives;
  peer_word_ = theirs.word;
  return {};
}

result<void> message_core::fill(queue_pair<rc>& queue) {
  released_.mark(queue);
  if (const post_status posted = post_receives(queue); !posted)
    return error::from_errno(posted.code(), "ibv_post_recv", queue.name(),
                             "the device refused the first receives of a message channel");
  if (receives_.missing() != 0)
    return error::from_errno(ENOMEM, "connecting a message channel", own_.domain.name(),
                             "the pool has too few free buffers for max_recv_wr receives: use a "
                             "larger pool, or buffers that other channels do not hold");
  posted_ -= own_.terms.credit_receives;
  granted_ = posted_;
  return {};
}

result<void> message_core::start(queue_pair<rc> connected) {
  inline_bytes_ = std::min(connected.capabilities().max_inline_data, own_.options.inline_bytes);
  queue_.emplace(std::move(connected));
  const auto lost = released_.take_back(*queue_);
  if (!lost) return {};
  error why = describe();
  lose(*lost);
  return why;
}

int message_core::progress() {
  if (!queue_ || is_stuck_) return 0;
  const int found = table().progress();
  if (found < 0) [[unlikely]] {
    lose(table().last_failure());
    return 0;
  }
  if (has_ended()) [[unlikely]]
    return found;
  if (found != 0) {
    idle_polls_ = 0;
  } else if (++idle_polls_ % patient_polls == 0) {
    end_silence();
  }
  tend();
  if (lacks_credit_) probe_for_credit();
  return found;
}

void message_core::completed(const completion& done) noexcept {
  if ((done.id() & receive_bit) != 0) {
    receive_ended(done);
  } else {
    send_ended(done);
  }
}

void message_core::send_ended(const completion& done) noexcept {
  const std::uint64_t id = sends_.id_of(done.id() & number_mask, number_mask);
  if (!sends_.has(id)) return;
  if (done.ok()) {
    retire_before(id + 1, true);
    return;
  }
  // If a request fails with another status than flush error, all earlier requests have succeeded. A
  // flushed request does not imply this.
  retire_before(id, done.status() != completion_status::flushed);
  const bool is_message = sends_.is_message(id);
  fail({.part = is_message ? failed_part::message : failed_part::credit_write,
        .message = is_message ? ended_ + 1 : 0,
        .done = done});
  retire_before(id + 1, false);
}

void message_core::retire_before(std::uint64_t end, bool were_delivered) noexcept {
  ended_ += sends_.retire_before(end);
  has_gap_ = has_gap_ || !were_delivered;
  if (!has_gap_) delivered_ = ended_;
}

void message_core::receive_ended(const completion& done) noexcept {
  const std::uint64_t place = done.id() & number_mask;
  if (!receives_.is_posted(place)) return;
  if (done.ok()) {
    if (is_woken_by_credits_ && done.opcode() == completion_opcode::receive_write_with_immediate)
      return credit_arrived(static_cast<std::uint32_t>(place), done.immediate().value_or(0));
    if (done.opcode() == completion_opcode::receive && done.byte_length() <= message_bytes_)
        [[likely]] {
      receives_.arrive(static_cast<std::uint32_t>(place), done.byte_length());
      ++received_;
      return;
    }
    receives_.release(static_cast<std::uint32_t>(place));
    return end_because({.part = failed_part::protocol, .done = done});
  }
  receives_.release(static_cast<std::uint32_t>(place));
  fail({.part = failed_part::receive, .done = done});
}

void message_core::fail(const message_failure& why) noexcept {
  // The failed request may be polled after the requests that were flushed because of the failure.
  if (!failure_ || (is_flushed(*failure_) && !is_flushed(why))) failure_ = why;
  table().attend(*this);
}

void message_core::lose(int code) noexcept {
  fail({.part = failed_part::polling, .code = code});
  if (released_.lose(code)) return;
  is_stuck_ = !close();
  if (!is_stuck_) {  // otherwise the device may still access the memory
    retire_before(sends_.next_id(), false);
    receives_.release_all();
  }
  wake_next();
}

bool message_core::close() noexcept {
  if (!queue_) return released_.end();
  auto closed = std::move(*queue_).close();
  queue_.reset();
  if (closed) return true;
  log(log_level::error, closed.error().message());
  queue_.emplace(std::move(closed).object());
  return false;
}

void message_core::flush() {
  if (!queue_ || is_stuck_) return;
  // Before the error state, in which some devices accept no request.
  if (!has_ended()) signal_last();
  fail({.part = failed_part::flush});
  if (!move_to_error()) return;
  const auto is_quiet = [this] { return sends_.count() == 0 && receives_.posted() == 0; };
  const auto until = deadline::after(flush_timeout);
  while (!is_quiet() && queue_ && !is_stuck_ && !until.expired()) {
    if (!signal_last()) break;
    if (progress() == 0) relax();
  }
  if (is_quiet()) return;
  log(log_level::warning,
      until.expired() ? "a queue pair in the error state did not flush within 5 s; it is destroyed"
                      : "a queue pair in the error state refuses requests; it is destroyed");
  lose(0);
}

bool message_core::move_to_error() {
  auto moved = queue_->modify(queue_pair_attributes().set_state(queue_pair_state::error));
  if (moved) {
    wake_next();
    return true;
  }
  log(log_level::warning, moved.error().message());
  lose(moved.error().code());
  return false;
}

bool message_core::flush_if_disconnected() {
  if (!queue_) return true;
  if (!connection_ || !has_disconnected(*connection_)) return false;
  fail({.part = failed_part::connection});
  static_cast<void>(move_to_error());
  return true;
}

void message_core::look() {
  if (!connection_ || !next_look_.expired()) return;
  next_look_ = deadline::after(time_between_looks);
  static_cast<void>(flush_if_disconnected());
}

error message_core::describe_violation(const completion& done) const {
  std::string what = "the peer sent a message of " + std::to_string(done.byte_length()) +
                     " bytes, and the maximum is " + std::to_string(message_bytes_);
  if (done.opcode() != completion_opcode::receive)
    what = "a write with immediate data of the peer consumed a receive, which only a message may";
  return error::protocol("message_channel::receive", queue_ ? queue_->name() : own_.domain.name(),
                         what + ": the peer must be a message_channel");
}

error message_core::describe() const {
  VERBENA_ASSERT(failure_.has_value(),
                 "describe() of a message channel without failure: check failure() first");
  const std::string range = sent_ == delivered_
                                ? "all messages were delivered"
                                : "messages " + std::to_string(delivered_ + 1) + " to " +
                                      std::to_string(sent_) + " may or may not have been delivered";
  const auto add = [&](error why) { return std::move(why).with_diagnosis(range); };
  if (failure_->part == failed_part::protocol) return add(describe_violation(*failure_->done));
  if (failure_->done) {
    const completion& done = *failure_->done;
    return add(queue_ ? queue_->describe(done) : done.result().error());
  }
  switch (failure_->part) {
    case failed_part::polling:
      return add(error::from_errno(
          failure_->code, "ibv_poll_cq", own_.domain.name(),
          "polling failed, and the queue pair was destroyed to release its memory"));
    case failed_part::posting:
      return add(error::from_errno(failure_->code, "posting to a message channel",
                                   own_.domain.name(),
                                   "the device refused a request of the channel itself"));
    case failed_part::connection:
      return add(error::from_errno(ECONNRESET, "message_channel",
                                   queue_ ? queue_->name() : own_.domain.name(),
                                   "the peer has closed the connection, or has ended"));
    default:
      return add(error::from_errno(ESHUTDOWN, "message_channel::flush", own_.domain.name(),
                                   "the program ended the channel with flush()"));
  }
}

}  // namespace verbena::inline VERBENA_ABI::detail
