// SPDX-License-Identifier: MIT
// The operation that accepts a message channel. It is part of an awaiter, or of another object of
// its caller.
#pragma once

#include <optional>

#include "verbena/async/detail/engine_state.hpp"
#include "verbena/async/message_channel.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

class listener_state;

/// See async::message_listener::accept(). Threads: one thread at a time, that of the engine.
class listener_accept : protected queued_waiter {
 public:
  using value_type = verbena::result<message_channel>;
  static constexpr bool always_ends = false;
  /// Called by engine::poll() when the operation has ended.
  using ended_function = void (*)(queued_waiter& self) noexcept;

  listener_accept(listener_state& of, deadline until) noexcept : of_(&of), until_(until) {}
  /// Copies the arguments of an operation that was not started.
  listener_accept(const listener_accept& idle) noexcept : listener_accept(*idle.of_, idle.until_) {}
  listener_accept& operator=(const listener_accept&) = delete;

 protected:
  ~listener_accept();
  /// Returns false if a channel was ready: `then` is then not called.
  [[nodiscard]] bool start(ended_function then) noexcept;
  [[nodiscard]] bool settle() noexcept;
  /// Ends the operation early. The listener is unaffected.
  void cancel() noexcept;
  /// Precondition: it was not started.
  [[nodiscard]] engine_state& on() const noexcept;
  [[nodiscard]] verbena::result<message_channel> take_result() { return *std::move(value_); }

 private:
  friend class listener_state;
  struct limit_timer : timer {
    listener_accept* of = nullptr;
  };

  /// Ends the operation, which waits: poll() calls its owner.
  void end(error why) noexcept;

  listener_state* of_;  // nullptr: the value is there
  deadline until_;
  limit_timer timer_;
  std::optional<verbena::result<message_channel>> value_;
  listener_accept* following_ = nullptr;  // the next one that waits
  engine_state* on_ = nullptr;            // nullptr: not started, or settled
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
