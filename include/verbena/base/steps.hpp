// SPDX-License-Identifier: MIT
// Operations that consist of several non-blocking steps.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/config.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

template <class T>
class steps;

namespace detail {

/// The event that ends a step, or the deadline.
struct step_event {
  int fd = -1;       ///< -1: the step waits for the deadline only
  short events = 0;  ///< events of poll(2); errors and hang-ups also end the step
  deadline until = deadline::never();
};

/// The part of the promise that does not depend on the value. Threads: one thread at a time.
class steps_promise_base {
 public:
  [[nodiscard]] std::suspend_never initial_suspend() const noexcept { return {}; }
  [[nodiscard]] std::suspend_always final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept {
#ifdef VERBENA_NO_EXCEPTIONS
    std::terminate();
#else
    exception_ = std::current_exception();
#endif
  }

  /// Returns the event of the innermost steps. Precondition: the coroutine is suspended.
  [[nodiscard]] const step_event& awaited() const noexcept;
  /// Continues if the event has occurred or the deadline has passed. Returns whether the coroutine
  /// has ended.
  [[nodiscard]] bool progress();
  /// Blocks until the event or the deadline, then continues. Returns whether the coroutine has
  /// ended.
  [[nodiscard]] bool wait_and_progress();

  void suspend_for(const step_event& what) noexcept { awaited_ = what; }
  void suspend_for(steps_promise_base& inner) noexcept { inner_ = &inner; }
  [[nodiscard]] result<bool> take_outcome() noexcept { return std::move(outcome_); }

 protected:
  steps_promise_base() noexcept = default;
  ~steps_promise_base() = default;
  void set_self(std::coroutine_handle<> self) noexcept { self_ = self; }
  void rethrow() const {
#ifndef VERBENA_NO_EXCEPTIONS
    if (exception_) std::rethrow_exception(exception_);
#endif
  }

 private:
  bool advance(result<bool> outcome);

  std::coroutine_handle<> self_;
  steps_promise_base* inner_ = nullptr;  // the steps that the coroutine awaits
  step_event awaited_;
  result<bool> outcome_ = false;
  std::exception_ptr exception_;
};

/// The promise of steps. Threads: one thread at a time.
template <class T>
class steps_promise final : public steps_promise_base {
 public:
  [[nodiscard]] steps<T> get_return_object() noexcept;
  void return_value(result<T> value) { value_.emplace(std::move(value)); }
  [[nodiscard]] result<T> take() {
    rethrow();
    return *std::move(value_);
  }

 private:
  std::optional<result<T>> value_;
};

/// The awaiter of `co_await` in steps. Waits until the event occurs (true) or the deadline passes
/// (false).
/// Errors: the errno of poll(2). Threads: one thread at a time.
class step_awaiter {
 public:
  explicit step_awaiter(const step_event& what) noexcept : what_(what) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> caller) noexcept {
    of_ = &caller.promise();
    of_->suspend_for(what_);
  }
  [[nodiscard]] result<bool> await_resume() const noexcept { return of_->take_outcome(); }

 private:
  step_event what_;
  steps_promise_base* of_ = nullptr;
};

[[nodiscard]] inline step_awaiter ready(int fd, int events, deadline until) noexcept {
  return step_awaiter({.fd = fd, .events = static_cast<short>(events), .until = until});
}
[[nodiscard]] inline step_awaiter expiry(deadline until) noexcept {
  return step_awaiter({.until = until});
}

}  // namespace detail

/// An operation in progress, which advances in non-blocking steps and returns a `result<T>`.
///
///   auto connecting = bringup::stream::connect_in_steps(address, until);
///   …                                        // wait until fd() is ready or next_deadline() passes
///   if (auto made = connecting.progress()) …  // the operation has ended
///
/// In an event loop, fd() is level-triggered. The descriptor, the events and the deadline can
/// change with each call of progress(). In a coroutine: `co_await engine.complete(…)`, see
/// async::engine. wait() is the blocking form.
///
/// Destroying the object ends the operation, like an expired deadline, and destroys the objects
/// that the operation owns. After the operation has ended, the object must not be used. Threads:
/// one thread at a time.
template <class T>
class [[nodiscard("an operation ends when its steps are destroyed")]] steps {
 public:
  /// The promise, for the compiler.
  using promise_type = detail::steps_promise<T>;
  /// The handle of the coroutine.
  using handle = std::coroutine_handle<promise_type>;

  /// Owns the coroutine of a promise.
  explicit steps(handle of) noexcept : handle_(of) {}
  /// Takes the operation of `other`, which must not be used afterwards.
  steps(steps&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  /// Ends its own operation and takes that of `other`.
  steps& operator=(steps&& other) noexcept {
    const steps replaced(std::exchange(handle_, std::exchange(other.handle_, nullptr)));
    return *this;
  }
  steps(const steps&) = delete;
  steps& operator=(const steps&) = delete;
  ~steps() {
    if (handle_) handle_.destroy();
  }

  /// Returns the descriptor that the operation waits for; the operation owns it. Returns -1 if the
  /// operation waits only for next_deadline() or has ended.
  [[nodiscard]] int fd() const noexcept { return awaited().fd; }
  /// Returns the events of poll(2) that the operation waits for: POLLIN, POLLOUT or both. 0 means
  /// that it waits only for an error or a hang-up.
  [[nodiscard]] short events() const noexcept { return awaited().events; }
  /// Returns the time at which to call progress() even if fd() is not ready.
  [[nodiscard]] deadline next_deadline() const noexcept { return awaited().until; }

  /// Performs the next step if it is possible now. Returns the result if the operation has ended,
  /// otherwise `nullopt`. Does not block, except in the cases that the function that started the
  /// operation documents. Throws exceptions of functions that the program has passed.
  [[nodiscard]] std::optional<result<T>> progress() {
    if (!is_suspended() || promise().progress()) return take();
    return std::nullopt;
  }
  /// Blocks until the operation has ended, and returns its result.
  [[nodiscard]] result<T> wait() && {
    while (is_suspended()) static_cast<void>(promise().wait_and_progress());
    return take();
  }

  /// Awaits the operation in other steps.
  [[nodiscard]] auto operator co_await() && noexcept { return awaiter{*this}; }

 private:
  struct awaiter {
    steps&
        of;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): lives in one expression

    [[nodiscard]] bool await_ready() const noexcept { return !of.is_suspended(); }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> caller) const noexcept {
      caller.promise().suspend_for(of.promise());
    }
    [[nodiscard]] result<T> await_resume() const { return of.take(); }
  };

  [[nodiscard]] promise_type& promise() const {
    VERBENA_ASSERT(handle_ != nullptr, "steps were used after their end, or after a move");
    return handle_.promise();
  }
  [[nodiscard]] bool is_suspended() const {
    static_cast<void>(promise());
    return !handle_.done();
  }
  [[nodiscard]] detail::step_event awaited() const noexcept {
    // An operation that has ended has its result ready.
    return is_suspended()
               ? promise().awaited()
               : detail::step_event{.until = deadline::at(deadline::clock::time_point::min())};
  }
  [[nodiscard]] result<T> take() {
    const steps ended(std::exchange(handle_, nullptr));  // destroys the objects of the operation
    return ended.promise().take();
  }

  handle handle_;
};

namespace detail {

template <class T>
steps<T> steps_promise<T>::get_return_object() noexcept {
  const auto self = std::coroutine_handle<steps_promise>::from_promise(*this);
  set_self(self);
  return steps<T>(self);
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
