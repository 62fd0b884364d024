// SPDX-License-Identifier: MIT
#include "verbena/async/channel.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

#include "verbena/async/detail/channel_operation.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/deadline.hpp"

namespace verbena::inline VERBENA_ABI::async {
namespace detail {
namespace {

constexpr std::chrono::seconds longest_flush(5);

}  // namespace

channel_state::channel_state(engine_state& on, verbena::channel&& of) noexcept
    : on_(on), of_(std::move(of)), core_(&of_->core()), ready_{core_, core_}, watch_(on) {
  VERBENA_ASSERT(&core_->table() == &on_.table(),
                 "the channel was not created on the hub of its async::engine: create it on "
                 "engine.hub()");
  const bool is_accepted = core_->accept_queued();
  VERBENA_ASSERT(is_accepted,
                 "an engine has at most 65536 channels: create another engine for more");
  on_.add_user();
  flush_.of = this;
  flush_.expire = [](timer& self) noexcept {
    channel_state& mine = *static_cast<flush_timer&>(self).of;
    if (mine.of_ && mine.core_->failure() != nullptr && mine.core_->in_flight() != 0)
      mine.core_->lose(0);
  };
  watch_.start(
      core_->connection(),
      [](void* self) {
        channel_state& mine = *static_cast<channel_state*>(self);
        if (!mine.core_->flush_if_disconnected()) return false;
        mine.limit_flush();
        return true;
      },
      this);
}

channel_state::~channel_state() {
  on_.timers().reset(flush_);
  on_.remove_user();
}

verbena::channel channel_state::take() {
  VERBENA_ASSERT(core().in_flight() == 0,
                 "release() of a channel with operations in flight: await them first");
  watch_.stop();
  return *std::move(of_);
}

void channel_state::wait_for_room(channel_operation& which) noexcept {
  waiting_[which.receives_].push_back(which);
  ready_[which.receives_] = nullptr;
  is_unusual_ = true;
}

void channel_state::stop_waiting(channel_operation& which) noexcept {
  waiting_[which.receives_].remove(which);
  if (!has_waiting(which.receives_)) ready_[which.receives_] = core_;
  update_unusual();
}

void channel_state::post_waiting() noexcept {
  for (waiter_list& each : waiting_) {
    while (!each.empty()) {
      auto& first = static_cast<channel_operation&>(each.front());
      if (!of_) {
        stop_waiting(first);
        first.end_refused(refusal::channel_destroyed, ENOTCONN);
        continue;
      }
      const std::uint32_t room = first.receives_ ? core_->free_receives() : core_->free_sends();
      if (room == 0 && core_->qp()) break;
      stop_waiting(first);
      first.stage_ = first.stage_of_posted();
      // If the post is refused, the result is set already.
      if (!first.post_(first)) on_.table().append_completed(first);
    }
  }
}

void channel_state::abort(failure_cause why) noexcept {
  if (!of_) return;
  core_->begin_abort(why);
  limit_flush();
}

// An earlier limit remains while operations are in flight.
void channel_state::limit_flush() noexcept {
  if (flush_.is_set || !core_->qp() || core_->in_flight() == 0) return;
  on_.timers().set(flush_, std::chrono::steady_clock::now() + longest_flush);
  update_unusual();
}

void channel_state::end_flush() noexcept {
  if (flush_.is_set && core_ != nullptr && core_->in_flight() != 0) return;
  on_.timers().reset(flush_);
  update_unusual();
}

void channel_state::update_unusual() noexcept {
  is_unusual_ = core_ == nullptr || has_waiting() || flush_.is_set;
}

void channel_state::flush() noexcept {
  const bool has_limit = core_->is_aborting() && flush_.is_set;
  core_->flush(has_limit ? deadline::at(flush_.when) : deadline::after(longest_flush));
}

void channel_state::close() noexcept {
  watch_.stop();  // before the descriptor is closed
  of_.reset();
  core_ = nullptr;
  ready_ = {};
  is_unusual_ = true;
  post_waiting();
}

bool channel_operation::start(ended_function when_ended, bool receives,
                              post_function post) noexcept {
  if (!state_->of()) return refuse(refusal::channel_destroyed, ENOTCONN);
  channel_core& core = state_->core();
  const std::uint32_t room = receives ? core.free_receives() : core.free_sends();
  const bool waits = core.qp() && (room == 0 || state_->has_waiting(receives));
  if (!waits) return post(*this) && begin(when_ended);
  post_ = post;
  receives_ = receives;
  begin(when_ended);
  stage_ = stage::waiting;
  state_->wait_for_room(*this);
  return true;
}

void channel_operation::settle_unusual() noexcept {
  if (stage_ == stage::idle) return;
  if (stage_ == stage::posted_with_limit) state_->on().timers().reset(timer_);
  if (state_->has_waiting()) state_->post_waiting();
  state_->end_flush();
  channel_state::release(state_);
}

bool channel_operation::undo_begin(int code) noexcept {
  if (stage_ == stage::posted_with_limit) state_->on().timers().reset(timer_);
  stage_ = stage::idle;
  state_->release_usual();
  result = operation_result::refuse_post(kind, code, posted());
  return false;
}

void channel_operation::set_timer() noexcept {
  timer_.is_set = false;
  timer_.of = this;
  timer_.expire = [](timer& self) noexcept {
    static_cast<limit_timer&>(self).of->end_early(ETIMEDOUT);
  };
  state_->on().timers().set(timer_, limit_.when());
}

void channel_operation::end_early(int code) noexcept {
  if (stage_ == stage::waiting) {
    state_->stop_waiting(*this);
    end_refused(code == ETIMEDOUT ? refusal::limit_passed : refusal::cancelled, code);
  } else if (stage_ != stage::idle && !ended) {
    state_->abort(code == ETIMEDOUT ? failure_cause::aborted : failure_cause::program);
  }
}

void channel_operation::end_refused(refusal why, int code) noexcept {
  result = operation_result::refuse(why, code, posted());
  stage_ = stage_of_posted();
  ended = true;
  state_->on().table().append_completed(*this);
}

void channel_operation::give_up() noexcept {
  if (!limit_.is_never()) state_->on().timers().reset(timer_);
  if (stage_ == stage::waiting) {
    state_->stop_waiting(*this);
  } else {
    // The device may still access the memory of the operation.
    if (!ended && state_->of()) state_->flush();
    state_->on().table().remove_completed(*this);
  }
  if (state_->has_waiting()) state_->post_waiting();
  channel_state::release(state_);
}

}  // namespace detail

channel::channel(engine& on, verbena::channel&& connected)
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): it counts its references itself
    : state_(new detail::channel_state(*on.state_, std::move(connected))) {}

channel::~channel() { close(); }

channel& channel::operator=(channel&& other) noexcept {
  if (this != &other) {
    close();
    state_ = std::exchange(other.state_, nullptr);
  }
  return *this;
}

void channel::close() noexcept {
  if (state_ == nullptr) return;
  state_->close();
  detail::channel_state::release(std::exchange(state_, nullptr));
}

void channel::abort() { state().abort(failure_cause::program); }

verbena::channel channel::release() && {
  verbena::channel of = state().take();
  close();
  return of;
}

}  // namespace verbena::inline VERBENA_ABI::async
