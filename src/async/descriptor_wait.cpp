// SPDX-License-Identifier: MIT
#include "verbena/async/detail/descriptor_wait.hpp"

#include <cerrno>

namespace verbena::inline VERBENA_ABI::async::detail {

bool descriptor_wait::start_wait(int descriptor, int wanted, deadline until,
                                 ended_function when_ended) noexcept {
  complete = when_ended;
  is_ready = false;
  fd = descriptor;
  events = static_cast<std::uint32_t>(wanted);  // the values of epoll(7) equal those of poll(2)
  code_ = fd < 0 ? 0 : on_.descriptors().add(on_.fd(), *this);
  if (code_ == EPERM) {
    code_ = 0;
    is_ready = true;  // a file that is always ready, such as a regular file
    return false;
  }
  if (code_ != 0) return false;
  is_waiting_ = true;
  if (until.is_never()) return true;
  timer_.of = this;
  timer_.expire = [](timer& self) noexcept {
    descriptor_wait& mine = *static_cast<limit_timer&>(self).of;
    if (mine.is_ready) return;
    if (mine.is_in_set) mine.on_.descriptors().remove(mine.on_.fd(), mine);
    mine.is_queued_ = true;
    mine.on_.table().append_completed(mine);
  };
  on_.timers().set(timer_, until.when());
  return true;
}

void descriptor_wait::settle_wait() noexcept {
  is_waiting_ = false;
  is_queued_ = false;
  on_.timers().reset(timer_);
}

void descriptor_wait::cancel() noexcept {
  is_cancelled_ = true;
  if (!is_waiting_ || is_ready || is_queued_) return;
  if (is_in_set) on_.descriptors().remove(on_.fd(), *this);
  on_.timers().reset(timer_);
  is_queued_ = true;
  on_.table().append_completed(*this);
}

void descriptor_wait::stop() noexcept {
  if (is_in_set) on_.descriptors().remove(on_.fd(), *this);
  if (is_ready || is_queued_) on_.table().remove_completed(*this);
  on_.timers().reset(timer_);
  is_ready = is_queued_ = false;
}

}  // namespace verbena::inline VERBENA_ABI::async::detail
