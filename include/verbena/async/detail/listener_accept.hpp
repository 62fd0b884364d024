// SPDX-License-Identifier: MIT
// The operation that accepts a message channel. It is a part of an awaiter, or of another object of
// the caller.
#pragma once

#include <optional>

#include "verbena/async/detail/engine_state.hpp"
#include "verbena/async/message_channel.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

class listener_state;

/// See async::message_listener::accept(). Threads: one thread at a time, the thread of the engine.
class listener_accept : protected queued_waiter {
 public:
  using value_type = verbena::result<message_channel>;
  static constexpr bool always_ends = false;
  /// Called by engine::poll() when the operation has ended.
  using ended_function = void (*)(queued_waiter& self);

  listener_accept(listener_state& of, deadline until) noexcept : of_(&of), until_(until) {}
  /// Copies the arguments of an operation that was not started.
  listener_accept(const listener_accept& idle) noexcept : listener_accept(*idle.of_, idle.until_) {}
  listener_accept& operator=(const listener_accept&) = delete;

 protected:
  ~listener_accept();
  /// Starts the operation. Returns false if the result is known immediately; `then` is then not
  /// called.
  [[nodiscard]] bool start(ended_function then) noexcept;
  /// Starts the operation, and returns true: a later poll calls `then`, also if the result is known
  /// immediately.
  [[nodiscard]] bool start_waiting(ended_function then) noexcept;
  [[nodiscard]] bool settle() noexcept;
  /// Ends the operation early. The listener is unaffected, and keeps a client that the operation
  /// has already, because the caller of cancel() may discard the result.
  void cancel() noexcept;
  /// Precondition: the operation was not started.
  [[nodiscard]] engine_state& on() const noexcept;
  [[nodiscard]] verbena::result<message_channel> take_result() { return *std::move(value_); }

 private:
  friend class listener_state;
  struct limit_timer : timer {
    listener_accept* of = nullptr;
  };

  void await(ended_function then) noexcept;
  void set_timer() noexcept;
  /// Ends a waiting operation. The next poll calls its ended_function.
  void end(error why) noexcept;

  // The listener while the operation waits, and while it has a client that the listener can take
  // back. Otherwise nullptr; value_ is set then.
  listener_state* of_;
  deadline until_;
  limit_timer timer_;
  std::optional<verbena::result<message_channel>> value_;
  listener_accept* following_ = nullptr;  // the next operation that waits, or that has a client
  engine_state* on_ = nullptr;            // nullptr: not started, or settled
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
