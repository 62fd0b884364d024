// SPDX-License-Identifier: MIT
#include "verbena/async/message_channel.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

#include "src/channel/message_core.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::async {
namespace detail {
namespace {

using verbena::detail::message_event;

constexpr std::size_t index_of(message_event what) { return static_cast<std::size_t>(what); }

}  // namespace

message_channel_state::message_channel_state(engine_state& on,
                                             verbena::message_channel&& of) noexcept
    : on_(on), of_(std::move(of)), watch_(on) {
  VERBENA_ASSERT(&core().table() == &on_.table(),
                 "the message channel was not prepared on the hub of its async::engine: prepare it "
                 "on engine.hub()");
  on_.add_user();
  watch_.start(
      core().connection(),
      [](void* self) {
        return static_cast<message_channel_state*>(self)->core().flush_if_disconnected();
      },
      this);
}

void message_channel_state::close() noexcept {
  if (!of_) return;
  watch_.stop();  // before the descriptor is closed
  core().wake_all();
  of_.reset();
}

verbena::message_channel message_channel_state::take() {
  VERBENA_ASSERT(of_.has_value(), "release() of a message channel that was taken before");
  watch_.stop();
  core().wake_all();
  verbena::message_channel out = *std::move(of_);
  of_.reset();
  return out;
}

bool message_operation::start(ended_function when_ended) noexcept {
  const bool is_first = !state_->of() || !is_behind_others(0);
  if (is_first && attempt_(*this, !until_.is_never() && until_.expired())) return false;
  suspend(when_ended);
  return true;
}

bool message_operation::start_waiting(ended_function when_ended) noexcept {
  if (!state_->of()) return start(when_ended);
  suspend(when_ended);
  state_->core().wake_next();
  return true;
}

bool message_operation::is_behind_others(std::uint32_t own) const noexcept {
  return event_ != index_of(message_event::delivery) && state_->suspended(event_) != own;
}

// If the deadline has passed, the operation waits nevertheless until its timer expires: messages
// that have arrived may be left for it when the operations before it have their messages.
void message_operation::suspend(ended_function when_ended) noexcept {
  complete = when_ended;
  is_suspended_ = true;
  ++state_->suspended(event_);
  state_->hold();
  state_->core().await(message_event(event_), *this);
  if (!until_.is_never()) set_timer(until_.when());
}

void message_operation::set_timer(time_point when) noexcept {
  timer_.of = this;
  timer_.expire = [](timer& self) noexcept { static_cast<limit_timer&>(self).of->pass_limit(); };
  state_->on().timers().set(timer_, when);
}

void message_operation::pass_limit() noexcept {
  // Messages have arrived, and the operations that wait take them one after the other. When they
  // have continued, either a message is left for this operation, or all have been taken.
  constexpr std::chrono::microseconds interval(10);
  const bool is_receive = event_ == index_of(message_event::arrival);
  if (is_receive && state_->of() && state_->core().has_message())
    return set_timer(std::chrono::steady_clock::now() + interval);
  expire();
}

bool message_operation::settle() noexcept {
  message_channel_state& of = *state_;
  // If only the deadline has woken the operation, it does not overtake others that wait.
  const bool may_attempt = !woken_by_timer_ || !of.of() || !is_behind_others(1);
  if (may_attempt && !attempt_(*this, has_expired_)) {
    of.core().await(message_event(event_), *this, true);
    return false;
  }
  is_suspended_ = false;
  --of.suspended(event_);
  of.on().timers().reset(timer_);
  if (of.of()) end_turn();
  message_channel_state::release(&of);
  return true;
}

void message_operation::expire() noexcept {
  has_expired_ = true;
  // If the operation was woken before, settle() makes the last attempt.
  if (!state_->of() || !state_->core().stop_waiting(message_event(event_), *this)) return;
  state_->on().table().append_completed(*this);
  woken_by_timer_ = true;
}

void message_operation::end_turn() noexcept {
  message_core& core = state_->core();
  if (woken_by_timer_) return core.wake_next();
  core.settle(message_event(event_));
}

void message_operation::give_up() noexcept {
  state_->on().timers().reset(timer_);
  --state_->suspended(event_);
  if (state_->of() && state_->core().stop_waiting(message_event(event_), *this)) {
    state_->core().wake_next();
  } else {
    state_->on().table().remove_completed(*this);
    if (state_->of()) end_turn();
  }
  message_channel_state::release(state_);
}

message_receive::message_receive(message_channel_state& of, deadline until) noexcept
    : message_operation(of, index_of(message_event::arrival), attempt, until) {}

bool message_receive::attempt(message_operation& self, bool is_last) noexcept {
  auto& mine = static_cast<message_receive&>(self);
  if (!mine.state().of()) {
    mine.failure_ = error::from_errno(ENOTCONN, "async::message_channel::receive", {},
                                      "the channel was destroyed");
    return true;
  }
  message_core& core = mine.state().core();
  if (core.receive(mine.message_)) return true;
  if (!core.has_ended()) return is_last;
  mine.failure_ = core.describe();
  return true;
}

message_send::message_send(message_channel_state& of, std::span<const std::byte> bytes,
                           deadline until) noexcept
    : message_operation(of, index_of(message_event::room), attempt, until), bytes_(bytes) {}

message_send::message_send(message_channel_state& of, buffer& memory, const buffer_slice& part,
                           deadline until) noexcept
    : message_operation(of, index_of(message_event::room), attempt, until),
      memory_(&memory),
      part_(part) {}

bool message_send::attempt(message_operation& self, bool is_last) noexcept {
  auto& mine = static_cast<message_send&>(self);
  if (!mine.state().of()) {
    mine.result_ = send_result::refuse(send_refusal::ended, ENOTCONN);
    return true;
  }
  message_core& core = mine.state().core();
  const bool is_first = mine.result_.code() == ETIMEDOUT;  // the initial value
  mine.result_ =
      mine.memory_ == nullptr ? core.send(mine.bytes_) : core.send(*mine.memory_, mine.part_);
  if (!mine.result_.is_retryable()) return true;
  if (is_first && mine.result_.refusal() == send_refusal::no_credit) ++core.counters().credit_waits;
  if (is_last) mine.result_ = send_result::refuse(mine.result_.refusal(), ETIMEDOUT);
  return is_last;
}

message_drain::message_drain(message_channel_state& of, deadline until) noexcept
    : message_operation(of, index_of(message_event::delivery), attempt, until) {}

bool message_drain::attempt(message_operation& self, bool is_last) noexcept {
  auto& mine = static_cast<message_drain&>(self);
  if (!mine.state().of()) return true;
  mine.is_drained_ = mine.state().core().try_drain();
  return mine.is_drained_ || is_last || mine.state().core().has_ended();
}

}  // namespace detail

message_channel::message_channel(detail::engine_state& on, verbena::message_channel&& connected)
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): it counts its references itself
    : state_(new detail::message_channel_state(on, std::move(connected))) {}

message_channel::~message_channel() { close(); }

message_channel& message_channel::operator=(message_channel&& other) noexcept {
  if (this != &other) {
    close();
    state_ = std::exchange(other.state_, nullptr);
  }
  return *this;
}

void message_channel::close() noexcept {
  if (state_ == nullptr) return;
  state_->close();
  detail::message_channel_state::release(std::exchange(state_, nullptr));
}

verbena::message_channel message_channel::release() && {
  verbena::message_channel of = state().take();
  close();
  return of;
}

detail::message_channel_state& message_channel::state() const {
  VERBENA_ASSERT(state_ != nullptr, "a moved-from async::message_channel was used");
  return *state_;
}

}  // namespace verbena::inline VERBENA_ABI::async
