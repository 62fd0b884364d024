// SPDX-License-Identifier: MIT
// Waiting, and processing of completions.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "src/cm/request_ids.hpp"
#include "src/cm/session_core.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

result<bool> session_core::wait(held& lock, condition ready, deadline until) {
  for (;;) {
    VERBENA_TRY_VOID(drain());
    if (ready()) return true;
    VERBENA_TRY_VOID(look_at_connection());
    VERBENA_TRY_VOID(objects_.sends.request_notification(notify::any_completion));
    VERBENA_TRY_VOID(objects_.receives.request_notification(notify::any_completion));
    VERBENA_TRY_VOID(drain());
    if (ready()) return true;
    if (until.expired()) return false;
    if (!has_watcher_) {
      VERBENA_TRY_VOID(watch(lock, until));
    } else if (until.is_never()) {
      found_.wait(lock);
    } else {
      found_.wait_until(lock, until.when());
    }
  }
}

result<void> session_core::watch(held& lock, deadline until) {
  std::array<pollfd, 3> entries = {
      pollfd{.fd = objects_.channel.fd(), .events = POLLIN, .revents = 0},
      pollfd{.fd = link_->fd(), .events = POLLIN, .revents = 0},
      pollfd{.fd = objects_.wake.get(), .events = POLLIN, .revents = 0},
  };
  // `wake` stays readable after the end of the connection, so no thread sleeps then.
  has_watcher_ = true;
  lock.unlock();
  const int outcome = ::poll(entries.data(), entries.size(), until.poll_timeout_ms());
  const int code = errno;
  lock.lock();
  has_watcher_ = false;
  found_.notify_all();
  if (outcome < 0 && code != EINTR) return error::from_errno(code, "poll", name_);
  for (bool more = true; more;) {
    VERBENA_TRY(const auto event, objects_.channel.poll_event());
    more = event.has_value();
  }
  return {};
}

result<void> session_core::look_at_connection() {
  if (disconnected_ || !link_) return {};
  VERBENA_TRY(const bool gone, link_->is_disconnected());
  if (gone) end(error::from_errno(ECONNRESET, "wait", name_, "the peer closed the connection"));
  return {};
}

void session_core::end(error why) {
  disconnected_ = true;
  if (!over_) over_ = std::move(why);
  const std::uint64_t one = 1;
  // write(2) cannot fail here: the counter does not overflow.
  static_cast<void>(::write(objects_.wake.get(), &one, sizeof one));
  found_.notify_all();
}

result<void> session_core::drain() {
  for (const auto which : {session_queue::send, session_queue::receive}) {
    std::array<completion, 16> room;
    for (std::size_t count = room.size(); count == room.size();) {
      const auto polled = queue_of(which).poll(room);
      if (!polled) return polled.error();
      count = (*polled).size();
      for (const auto& done : *polled) take(done, which);
      if (count != 0) found_.notify_all();
    }
  }
  return {};
}

void session_core::take(const completion& done, session_queue which) {
  if (done.status() == completion_status::flushed) {
    flushed_ = true;
  } else if (!done.ok() && !over_) {
    over_ = failure_of(done, which);
  }
  const auto id = done.id();
  if ((id & library_mark) == 0) {
    inbox(which).put(done);
  } else if ((id & greeting_mark) == greeting_mark) {
    if (which == session_queue::receive) greeted_ = done.ok();  // the slot is not used again
  } else if (which == session_queue::send) {
    objects_.outgoing.release(slot_of(id));
  } else {
    take_message(done, slot_of(id));
  }
}

error session_core::failure_of(const completion& failed, session_queue which) const {
  const std::string request = (failed.id() & library_mark) != 0
                                  ? std::string("an advertisement message")
                                  : fmt::format("work request {}", failed.id());
  if (failed.status() == completion_status::flushed && over_)
    return error(*over_).with_diagnosis(fmt::format("{} was flushed", request));
  auto why = failed.result().error();
  if ((failed.id() & library_mark) != 0)
    why = std::move(why).with_diagnosis(fmt::format("the work request was {}", request));
  const auto words = queue_of(which).explain(failed);
  return words.empty() ? why : std::move(why).with_diagnosis(words);
}

result<void> session_core::learn_reason(held& lock, deadline until) {
  constexpr auto reason_timeout = std::chrono::seconds(1);
  if (over_) return {};
  const auto end = deadline::at(std::min(until.when(), deadline::after(reason_timeout).when()));
  VERBENA_TRY_DISCARD(wait(lock, [this] { return over_.has_value(); }, end));
  if (!over_)
    over_ =
        error::from_errno(ECONNABORTED, "wait", name_,
                          "the queue pair is in the error state, and its requests were flushed");
  return {};
}

result<void> session_core::wait(session_queue which, std::span<completion> out, deadline until) {
  held lock(mutex_);
  auto& box = inbox(which);
  VERBENA_TRY(const bool in_time,
              wait(lock, [&] { return box.answers(out.size()) || is_ending(); }, until));
  const auto failed = box.take_failure(out.size());
  if (!failed && box.take(out)) return {};
  if (in_time) {
    VERBENA_TRY_VOID(learn_reason(lock, until));
    return failed ? failure_of(*failed, which) : *over_;
  }
  if (which == session_queue::send)
    return error::timed_out("session::wait", name_, "too few send requests have completed");
  return error::timed_out("session::wait", name_, "too few receive requests have completed");
}

}  // namespace verbena::inline VERBENA_ABI::cm::detail
