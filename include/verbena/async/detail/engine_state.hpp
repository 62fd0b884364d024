// SPDX-License-Identifier: MIT
// The state of an engine, shared by its channels and operations.
#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "verbena/async/detail/descriptor_set.hpp"
#include "verbena/async/detail/timer_queue.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/error.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/channel/detail/operation_table.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

/// A queued call that the thread of the engine makes in poll().
struct entry {
  void (*resume)(entry& self) noexcept = nullptr;
  entry* next = nullptr;
};

/// Called once, when the completion queue or completion channel of the engine has failed.
struct failure_observer {
  void (*engine_failed)(failure_observer& self) noexcept = nullptr;
  failure_observer* next_observer = nullptr;
};

/// Threads: one thread at a time, except enter(), wake() and end_run(), which any thread may call.
class engine_state {
 public:
  engine_state(completion_hub on, operation_table& table, unique_fd epoll, unique_fd wakes,
               std::chrono::nanoseconds spin) noexcept;
  engine_state(const engine_state&) = delete;
  engine_state& operator=(const engine_state&) = delete;
  ~engine_state();

  std::size_t poll();
  [[nodiscard]] bool arm();
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  [[nodiscard]] deadline next_deadline() const noexcept;
  void run_until(const std::atomic<bool>& ended);
  /// Sets `ended` and wakes run_until(). Called by any thread.
  void end_run(std::atomic<bool>& ended) noexcept;
  [[nodiscard]] const error* failure() const noexcept { return failure_ ? &*failure_ : nullptr; }

  /// Makes poll() call `resume` of an entry. Called by any thread.
  void enter(entry& which) noexcept;
  /// Removes an entry whose `resume` was not called yet. Thread of the engine.
  void leave(const entry& which) noexcept;
  /// Makes the loop run once more. Called by any thread.
  void wake() noexcept;

  /// Registers a channel or listener, which must call remove_user() before the engine is destroyed.
  void add_user() noexcept { ++users_; }
  void remove_user() noexcept { --users_; }
  /// Has the observer called if the engine fails later.
  void observe(failure_observer& which) noexcept;
  /// Removes an observer that was not called yet, if it is one.
  void stop_observing(const failure_observer& which) noexcept;

  [[nodiscard]] operation_table& table() const noexcept { return table_; }
  [[nodiscard]] timer_queue& timers() noexcept { return timers_; }
  [[nodiscard]] descriptor_set& descriptors() noexcept { return descriptors_; }
  [[nodiscard]] const completion_hub& hub() const noexcept { return hub_; }

 private:
  static constexpr std::uint32_t sleeping = 1;  // arm() was called: signal() writes to wakes_
  static constexpr std::uint32_t woken = 2;     // signal() was called
  // The last poll took a signal: the caller must check its condition again.
  static constexpr std::uint32_t taken = 4;

  [[nodiscard]] std::size_t poll_completions();
  [[nodiscard]] std::size_t poll_all();
  void signal() noexcept;
  void take_entered() noexcept;
  [[nodiscard]] std::size_t resume_entered() noexcept;
  [[nodiscard]] std::size_t take_signals() noexcept;
  [[nodiscard]] std::size_t expire_timers() noexcept;
  void poll_descriptors() noexcept;
  [[nodiscard]] std::size_t lose_all() noexcept;
  void fail(error why) noexcept;
  void wait_for_event() noexcept;

  completion_hub hub_;
  operation_table& table_;
  unique_fd epoll_;  // watches the completion channel, wakes_ and descriptors_
  unique_fd wakes_;  // an eventfd
  const std::chrono::nanoseconds spin_;
  timer_queue timers_;
  descriptor_set descriptors_;
  std::size_t users_ = 0;                  // channels and listeners
  std::uint32_t polls_without_clock_ = 0;  // since the timers were checked
  std::uint32_t polls_ = 0;                // since the descriptors were polled
  std::optional<error> failure_;           // permanent: operations that are posted later are lost
  failure_observer* observers_ = nullptr;
  std::atomic<entry*> entered_{nullptr};   // newest first
  entry* taken_ = nullptr;                 // taken from entered_, oldest first
  std::atomic<std::uint32_t> signals_{0};  // bits, since the last poll
  bool may_have_slept_ = false;            // arm() returned true after the last poll
  bool woken_before_arming_ = false;       // a signal since the last poll writes nothing to wakes_
  std::uint64_t unread_wakes_ = 0;  // writes to wakes_, some of which may still be in progress
  // The number of calls of enter(), wake() and end_run() in progress. During such a call, the
  // resumed coroutine can end the loop, and the program may destroy the engine. The destructor
  // waits until the number is 0.
  std::atomic<std::uint32_t> callers_{0};
#ifdef VERBENA_CHECKED
  std::atomic<const void*> polling_{nullptr};  // identifies the thread that polls
#endif
};

/// See engine::enter(). Threads: thread-safe. After await_suspend(), destroyed only on the thread
/// of the engine.
class enter_awaiter : private entry {
 public:
  explicit enter_awaiter(engine_state& to) noexcept : to_(to) {}
  enter_awaiter(const enter_awaiter&) = delete;
  enter_awaiter& operator=(const enter_awaiter&) = delete;
  ~enter_awaiter() {
    if (is_waiting_) to_.leave(*this);
  }
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) noexcept {
    caller_ = caller;
    resume = [](entry& self) noexcept {
      auto& mine = static_cast<enter_awaiter&>(self);
      mine.is_waiting_ = false;
      mine.caller_.resume();
    };
    is_waiting_ = true;
    to_.enter(*this);
  }
  void await_resume() const noexcept {}

 private:
  engine_state& to_;
  std::coroutine_handle<> caller_;
  bool is_waiting_ = false;
};

/// See engine::yield().
/// Threads: one thread at a time, the thread of the engine.
class yield_awaiter : private queued_waiter {
 public:
  explicit yield_awaiter(engine_state& of) noexcept : of_(of) {}
  yield_awaiter(const yield_awaiter&) = delete;
  yield_awaiter& operator=(const yield_awaiter&) = delete;
  ~yield_awaiter() {
    if (is_waiting_) of_.table().remove_completed(*this);
  }
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) noexcept {
    caller_ = caller;
    complete = [](queued_waiter& self) noexcept {
      auto& mine = static_cast<yield_awaiter&>(self);
      mine.is_waiting_ = false;
      mine.caller_.resume();
    };
    is_waiting_ = true;
    of_.table().append_completed(*this);
  }
  void await_resume() const noexcept {}

 private:
  engine_state& of_;
  std::coroutine_handle<> caller_;
  bool is_waiting_ = false;
};

/// See engine::wait_until().
/// Threads: one thread at a time, the thread of the engine.
class wait_awaiter : private timer {
 public:
  wait_awaiter(engine_state& of, deadline until) noexcept : of_(of), until_(until) {}
  ~wait_awaiter() { of_.timers().reset(*this); }
  wait_awaiter(const wait_awaiter&) = delete;
  wait_awaiter& operator=(const wait_awaiter&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return until_.expired(); }
  void await_suspend(std::coroutine_handle<> caller) noexcept {
    caller_ = caller;
    expire = [](timer& self) noexcept { static_cast<wait_awaiter&>(self).caller_.resume(); };
    of_.timers().set(*this, until_.when());
  }
  void await_resume() const noexcept {}

 private:
  engine_state& of_;
  const deadline until_;
  std::coroutine_handle<> caller_;
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
