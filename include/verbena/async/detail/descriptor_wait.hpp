// SPDX-License-Identifier: MIT
// Operations that wait for file descriptors. An operation is a part of an awaiter, or of another
// object of the caller.
#pragma once

#include <cerrno>
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

/// Waits for an event of a descriptor or until a deadline. The destructor ends the wait.
/// Threads: one thread at a time, the thread of the engine.
class descriptor_wait : protected descriptor_entry {
 public:
  /// Called by engine::poll() after the event or the deadline.
  using ended_function = void (*)(queued_waiter& self);

  descriptor_wait& operator=(const descriptor_wait&) = delete;

 protected:
  explicit descriptor_wait(engine_state& on) noexcept : on_(on) {}
  /// Copies a wait that was not started.
  descriptor_wait(const descriptor_wait& idle) noexcept : descriptor_wait(idle.on_) {}
  ~descriptor_wait() { stop(); }

  /// Starts to wait for the poll(2) events `wanted`. If `descriptor` is -1, waits only for the
  /// deadline. Returns false if the outcome is known already; `then` is then not called.
  [[nodiscard]] bool start_wait(int descriptor, int wanted, deadline until,
                                ended_function then) noexcept;
  /// Ends the wait after poll() has called `then`. Must be called by `then`.
  void settle_wait() noexcept;
  /// Ends the wait early. If the wait has begun, poll() calls `then`.
  void cancel() noexcept;
  /// Ends the wait without calling `then`.
  void stop() noexcept;
  /// Sets the outcome of a wait that cannot start.
  void refuse(int code) noexcept { code_ = code; }
  [[nodiscard]] bool is_cancelled() const noexcept { return is_cancelled_; }
  [[nodiscard]] static error cancelled() {
    return error::from_errno(ECANCELED, "async::engine", {}, "the operation was cancelled");
  }
  /// Returns true after the event and false after the deadline. Errors: ECANCELED after cancel();
  /// those of epoll_ctl(2).
  [[nodiscard]] verbena::result<bool> outcome() const noexcept {
    if (code_ != 0) return error::from_errno(code_, "epoll_ctl");
    if (is_cancelled_ && !is_ready) return cancelled();
    return is_ready;
  }
  [[nodiscard]] engine_state& on() const noexcept { return on_; }

 private:
  struct limit_timer : timer {
    descriptor_wait* of = nullptr;
  };

  engine_state& on_;
  limit_timer timer_;
  int code_ = 0;
  bool is_waiting_ = false;
  bool is_queued_ = false;  // in the list of completed operations, by the timer or cancel()
  bool is_cancelled_ = false;
};

/// See engine::readable() and engine::writable(). Threads: one thread at a time, the thread of the
/// engine.
class descriptor_operation : protected descriptor_wait {
 public:
  using value_type = verbena::result<bool>;
  static constexpr bool always_ends = false;

  descriptor_operation(engine_state& on, int descriptor, int wanted, deadline until) noexcept
      : descriptor_wait(on), descriptor_(descriptor), wanted_(wanted), until_(until) {}

 protected:
  [[nodiscard]] bool start(ended_function then) noexcept {
    if (descriptor_ < 0) return refuse(EBADF), false;
    return start_wait(descriptor_, wanted_, until_, then);
  }
  [[nodiscard]] bool settle() noexcept { return settle_wait(), true; }
  [[nodiscard]] verbena::result<bool> take_result() const noexcept { return outcome(); }

 private:
  int descriptor_;
  int wanted_;
  deadline until_;
};

/// See engine::complete(). Threads: one thread at a time, the thread of the engine.
template <class T>
class steps_operation : protected descriptor_wait {
 public:
  using value_type = verbena::result<T>;
  static constexpr bool always_ends = false;
  /// The operation has take_exception().
  static constexpr bool can_throw = true;

  steps_operation(engine_state& on, steps<T>&& of) noexcept
      : descriptor_wait(on), steps_(std::move(of)) {}
  /// Takes the steps of an operation that was not started.
  steps_operation(steps_operation&& idle) noexcept
      : descriptor_wait(idle), steps_(std::move(idle.steps_)) {}
  steps_operation& operator=(steps_operation&&) = delete;

 protected:
  /// Constructs an operation without steps. begin() must be called before start().
  explicit steps_operation(engine_state& on) noexcept
      : descriptor_wait(on), steps_(typename steps<T>::handle()) {}
  /// Ends the wait before the steps close the descriptor.
  ~steps_operation() { stop(); }
  void begin(steps<T>&& of) noexcept { steps_ = std::move(of); }
  /// Returns false if the operation ended immediately; `then` is then not called.
  [[nodiscard]] bool start(ended_function then) noexcept {
    while (!has_ended()) {
      if (start_wait(steps_.fd(), steps_.events(), steps_.next_deadline(), then)) return true;
      if (auto failed = outcome(); !failed.has_value()) {
        value_.emplace(std::move(failed).error());
        return false;
      }
    }
    return false;
  }
  /// Returns false if the operation waits again.
  [[nodiscard]] bool settle() noexcept {
    settle_wait();
    if (is_cancelled()) return give_up(), true;
    return !start(complete);
  }
  /// Returns the exception of a function that the steps called, or nullptr.
  [[nodiscard]] std::exception_ptr take_exception() noexcept {
    return std::exchange(exception_, nullptr);
  }
  /// Returns the result. Throws the exception of a function that the steps called.
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
    // A function that the steps called may have cancelled the operation.
    if (!value_ && is_cancelled()) give_up();
    return value_.has_value();
  }
  /// Destroys the steps. The result is ECANCELED.
  void give_up() noexcept {
    steps_ = steps<T>(typename steps<T>::handle());
    value_.emplace(cancelled());
  }

  steps<T> steps_;
  std::optional<verbena::result<T>> value_;
  std::exception_ptr exception_;
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
