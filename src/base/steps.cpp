// SPDX-License-Identifier: MIT
#include "verbena/base/steps.hpp"

#include <poll.h>

#include <cerrno>

#include "verbena/base/fd.hpp"

namespace verbena::inline VERBENA_ABI::detail {

const step_event& steps_promise_base::awaited() const noexcept {
  const steps_promise_base* leaf = this;
  while (leaf->inner_ != nullptr) leaf = leaf->inner_;
  return leaf->awaited_;
}

bool steps_promise_base::progress() {
  const step_event what = awaited();
  if (what.fd < 0) return what.until.expired() && advance(false);
  pollfd entry{what.fd, what.events, 0};
  const int count = ::poll(&entry, 1, 0);
  if (count > 0) return advance(true);
  if (count < 0 && errno != EINTR) return advance(error::from_errno(errno, "poll"));
  return what.until.expired() && advance(false);
}

bool steps_promise_base::wait_and_progress() {
  const step_event what = awaited();
  return advance(wait_for_fd(what.fd, what.events, what.until));
}

bool steps_promise_base::advance(result<bool> outcome) {
  if (inner_ == nullptr) {
    outcome_ = std::move(outcome);
  } else {
    if (!inner_->advance(std::move(outcome))) return false;
    inner_ = nullptr;
  }
  self_.resume();
  return self_.done();
}

}  // namespace verbena::inline VERBENA_ABI::detail
