// SPDX-License-Identifier: MIT
// Operations that wait for file descriptors. An operation is part of an awaiter, or of another
// object of its caller.
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "verbena/async/detail/descriptor_set.hpp"
#include "verbena/async/detail/engine_state.hpp"
#include "verbena/base/config.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

/// Waits for an event of a descriptor, or until a deadline. Destroying it ends the wait.
/// Threads: one thread at a time, that of the engine.
class descriptor_wait : protected descriptor_entry {
 public:
  /// Called by engine::poll() after the event or the deadline.
  using ended_function = void (*)(queued_waiter& self) noexcept;

  descriptor_wait(const descriptor_wait&) = delete;
  descriptor_wait& operator=(const descriptor_wait&) = delete;

 protected:
  explicit descriptor_wait(engine_state& on) noexcept : on_(on) {}
  ~descriptor_wait() { stop(); }

  /// Begins to wait for `events` of poll(2); without a descriptor for -1. Returns false if the
  /// outcome is known: `then` is then not called.
  [[nodiscard]] bool start_wait(int descriptor, int wanted, deadline until,
                                ended_function then) noexcept;
  /// Called by `then`.
  void settle_wait() noexcept;
  /// Returns true after the event, false after the deadline. Errors: the errno of epoll_ctl(2).
  [[nodiscard]] verbena::result<bool> outcome() const noexcept {
    return code_ == 0 ? verbena::result<bool>(is_ready) : error::from_errno(code_, "epoll_ctl");
  }

 private:
  struct limit_timer : timer {
    descriptor_wait* of = nullptr;
  };

  void stop() noexcept;

  engine_state& on_;
  limit_timer timer_;
  int code_ = 0;
  bool is_queued_ = false;  // by the timer
};

/// See engine::readable() and engine::writable(). Threads: one thread at a time, that of the
/// engine.
class descriptor_operation : protected descriptor_wait {
 public:
  using value_type = verbena::result<bool>;
  static constexpr bool always_ends = false;

  descriptor_operation(engine_state& on, int descriptor, int wanted, deadline until) noexcept
      : descriptor_wait(on), descriptor_(descriptor), wanted_(wanted), until_(until) {}

 protected:
  [[nodiscard]] bool start(ended_function then) noexcept {
    return start_wait(descriptor_, wanted_, until_, then);
  }
  [[nodiscard]] bool settle() noexcept { return settle_wait(), true; }
  [[nodiscard]] verbena::result<bool> take_result() const noexcept { return outcome(); }

 private:
  int descriptor_;
  int wanted_;
  deadline until_;
};

/// See engine::complete(). Threads: one thread at a time, that of the engine.
template <class T>
class steps_operation : protected descriptor_wait {
 public:
  using value_type = verbena::result<T>;
  static constexpr bool always_ends = false;

  steps_operation(engine_state& on, steps<T>&& of) noexcept
      : descriptor_wait(on), steps_(std::move(of)) {}

 protected:
  /// Returns false if the operation ended at once: `then` is then not called.
  [[nodiscard]] bool start(ended_function then) noexcept {
    while (!has_ended()) {
      if (start_wait(steps_.fd(), steps_.events(), steps_.next_deadline(), then)) return true;
      if (auto failed = outcome(); !failed) {
        value_.emplace(std::move(failed).error());
        return false;
      }
    }
    return false;
  }
  /// Returns false if the operation waits again.
  [[nodiscard]] bool settle() noexcept {
    settle_wait();
    return !start(complete);
  }
  /// Throws exceptions of functions that the steps call.
  [[nodiscard]] verbena::result<T> take_result() {
#ifndef VERBENA_NO_EXCEPTIONS
    if (exception_) std::rethrow_exception(exception_);
#endif
    return *std::move(value_);
  }

 private:
  [[nodiscard]] bool has_ended() noexcept {
#ifdef VERBENA_NO_EXCEPTIONS
    if (auto done = steps_.progress()) value_.emplace(*std::move(done));
#else
    try {
      if (auto done = steps_.progress()) value_.emplace(*std::move(done));
    } catch (...) {
      exception_ = std::current_exception();
      return true;
    }
#endif
    return value_.has_value();
  }

  steps<T> steps_;
  std::optional<verbena::result<T>> value_;
  std::exception_ptr exception_;
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
