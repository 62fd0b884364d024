// SPDX-License-Identifier: MIT
// The operations of a message channel, and the state of the channel that they share. An operation
// is a part of an awaiter, or of another object of the caller.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "verbena/async/detail/disconnect_watch.hpp"
#include "verbena/async/detail/engine_state.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/channel/buffer_slice.hpp"
#include "verbena/channel/message_channel.hpp"
#include "verbena/channel/receive_result.hpp"
#include "verbena/channel/send_result.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

using verbena::detail::message_core;

/// A message channel on an engine. Exists until the channel is destroyed and the last operation has
/// ended.
/// Threads: one thread at a time, the thread of the engine.
class message_channel_state {
 public:
  message_channel_state(engine_state& on, verbena::message_channel&& of) noexcept;
  message_channel_state(const message_channel_state&) = delete;
  message_channel_state& operator=(const message_channel_state&) = delete;

  [[nodiscard]] engine_state& on() const noexcept { return on_; }
  /// Returns the channel, or nullopt if it was destroyed or released.
  [[nodiscard]] std::optional<verbena::message_channel>& of() noexcept { return of_; }
  /// Returns the core of the channel. Precondition: of() has a value.
  [[nodiscard]] message_core& core() const noexcept { return of_->core(); }
  /// Returns the number of suspended operations that wait for a `message_event`.
  [[nodiscard]] std::uint32_t& suspended(std::size_t event) noexcept { return suspended_[event]; }

  /// Destroys the channel. Waiting operations end.
  void close() noexcept;
  /// Moves the channel out. Waiting operations end as if the channel was destroyed.
  [[nodiscard]] verbena::message_channel take();
  void hold() noexcept { ++holders_; }
  static void release(message_channel_state* which) noexcept {
    if (--which->holders_ == 0) delete which;
  }

 private:
  ~message_channel_state() { on_.remove_user(); }

  engine_state& on_;
  std::optional<verbena::message_channel> of_;
  std::array<std::uint32_t, 3> suspended_{};
  std::uint32_t holders_ = 1;
  disconnect_watch watch_;
};

/// The common part of the operations. A derived class starts the operation at most once, and its
/// ended_function is called when the operation has ended. Threads: one thread at a time, the thread
/// of the engine.
class message_operation : protected queued_waiter {
 public:
  static constexpr bool always_ends = false;
  /// Called by engine::poll() when the operation may have ended. Calls settle(), and has no other
  /// effect if settle() returns false.
  using ended_function = void (*)(queued_waiter& self);

  message_operation& operator=(const message_operation&) = delete;

 protected:
  /// Tries to complete the operation. Returns false if the operation must wait. `is_last`: the
  /// deadline has passed, and the operation must end. Also called after the channel was destroyed.
  using attempt_function = bool (*)(message_operation& self, bool is_last) noexcept;

  message_operation(message_channel_state& of, std::size_t event, attempt_function attempt,
                    deadline until) noexcept
      : state_(&of), event_(event), attempt_(attempt), until_(until) {}
  /// Copies the arguments of an operation that was not started.
  message_operation(const message_operation& idle) noexcept
      : message_operation(*idle.state_, idle.event_, idle.attempt_, idle.until_) {}
  ~message_operation() {
    if (is_suspended_) [[unlikely]]
      give_up();
  }
  /// Starts the operation. Returns false if the operation ended immediately; `when_ended` is then
  /// not called.
  [[nodiscard]] bool start(ended_function when_ended) noexcept;
  /// Starts the operation without an attempt to complete it, so that the first attempt is that of
  /// settle(). Returns false if the operation ended immediately, because the channel was destroyed.
  [[nodiscard]] bool start_waiting(ended_function when_ended) noexcept;
  /// Tries to complete the operation. Returns false if it must wait again, because another call has
  /// used up the message or the room. Otherwise releases the channel state and the timer.
  [[nodiscard]] bool settle() noexcept;
  /// Ends the operation early, as if its deadline had passed. The channel is unaffected.
  void cancel() noexcept {
    if (is_suspended_) expire();
  }
  /// Ends the operation early, without a last attempt to complete it.
  void abandon() noexcept {
    attempt_ = [](message_operation& /*self*/, bool /*is_last*/) noexcept { return true; };
    cancel();
  }
  [[nodiscard]] message_channel_state& state() const noexcept { return *state_; }
  [[nodiscard]] engine_state& on() const noexcept { return state_->on(); }

 private:
  struct limit_timer : timer {
    message_operation* of = nullptr;
  };

  void suspend(ended_function when_ended) noexcept;
  void set_timer(time_point when) noexcept;
  /// Called when the deadline has passed.
  void pass_limit() noexcept;
  void expire() noexcept;
  /// Returns true if more than `own` operations wait that are served in the order of their calls.
  [[nodiscard]] bool is_behind_others(std::uint32_t own) const noexcept;
  void end_turn() noexcept;
  void give_up() noexcept;

  message_channel_state* state_;
  std::size_t event_;
  attempt_function attempt_;
  deadline until_;
  limit_timer timer_;
  bool is_suspended_ = false;
  bool has_expired_ = false;
  bool woken_by_timer_ = false;  // woken by the timer or cancel(), not by the channel
};

/// See async::message_channel::receive(). Threads: one thread at a time, the thread of the engine.
class message_receive : public message_operation {
 public:
  using value_type = receive_result;

  message_receive(message_channel_state& of, deadline until) noexcept;
  [[nodiscard]] receive_result take_result() noexcept {
    if (message_) return *std::move(message_);
    if (failure_) return *std::move(failure_);
    return {};
  }

 protected:
  /// Ends the operation early. A message that has arrived stays in the channel, because the caller
  /// of cancel() may discard the result.
  void cancel() noexcept { abandon(); }

 private:
  static bool attempt(message_operation& self, bool is_last) noexcept;

  std::optional<received_message> message_;
  std::optional<error> failure_;  // without both, the deadline has passed
};

/// See async::message_channel::send(). Threads: one thread at a time, the thread of the engine.
class message_send : public message_operation {
 public:
  using value_type = send_result;

  message_send(message_channel_state& of, std::span<const std::byte> bytes,
               deadline until) noexcept;
  message_send(message_channel_state& of, buffer& memory, const buffer_slice& part,
               deadline until) noexcept;
  [[nodiscard]] send_result take_result() const noexcept { return result_; }

 private:
  static bool attempt(message_operation& self, bool is_last) noexcept;

  std::span<const std::byte> bytes_;
  buffer* memory_ = nullptr;  // nullptr: copies bytes_
  buffer_slice part_;
  send_result result_ = send_result::refuse(send_refusal::queue_full, ETIMEDOUT);
};

/// See async::message_channel::drain(). Threads: one thread at a time, the thread of the engine.
class message_drain : public message_operation {
 public:
  using value_type = bool;

  message_drain(message_channel_state& of, deadline until) noexcept;
  [[nodiscard]] bool take_result() const noexcept { return is_drained_; }

 private:
  static bool attempt(message_operation& self, bool is_last) noexcept;

  bool is_drained_ = false;
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
