// SPDX-License-Identifier: MIT
#pragma once

#include <coroutine>
#include <utility>

#include "verbena/async/detail/engine_scheduler.hpp"
#include "verbena/async/detail/engine_state.hpp"
#include "verbena/async/detail/operation_state.hpp"
#include "verbena/async/execution.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::async {

/// An operation of a channel, a message channel, a listener or an engine. It is awaitable and a
/// sender: it starts when it is awaited, or when an operation state that contains it is started. An
/// operation can be started at most once.
///
/// An operation copies its arguments, except the elements of lists of slices, the bytes of inline
/// data and of messages, and buffers, which must outlive the operation. The channel or listener
/// must exist when the operation starts.
///
/// As a sender, an operation completes with `set_value` and the result, also if the operation
/// failed. It completes with `set_stopped` only if a stop was requested before the operation ended,
/// and the operation did not succeed. It completes with `set_error` and a `std::exception_ptr` only
/// for engine::complete() and async::connect(), if a function of the program that a step calls
/// throws. A stop request has the same effect as a limit that passes: a posted operation of a
/// channel ends with its connection, and steps are destroyed. A receive of a message channel takes
/// no message after a stop request; the message stays in the channel. Any thread may request a
/// stop. start() must be called on the thread of the engine. If the operation ends immediately, for
/// example because it is refused, or if a stop was requested before, start() calls the receiver.
/// Otherwise engine::poll() calls the receiver, which may destroy the operation state.
/// Threads: one thread at a time, the thread of the engine.
template <class Operation>
class [[nodiscard("an operation starts when it is awaited")]] operation : private Operation {
 private:
  // A struct with a reference: g++ 12 copies the operation if the awaiter is a reference to the
  // operation.
  struct awaiter {
    operation& of;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): one expression

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    [[nodiscard]] bool await_suspend(std::coroutine_handle<> caller) const noexcept {
      VERBENA_ASSERT(!of.caller_, "an operation was awaited twice: create another one");
      of.caller_ = caller;
      return of.start(resume);
    }
    [[nodiscard]] auto await_resume() const noexcept(noexcept(of.take_result())) {
      if constexpr (Operation::always_ends) of.settle();
      return of.take_result();
    }
  };

 public:
  /// Constructed by the functions of channels, listeners and engines.
  template <class State, class... Arguments>
  explicit operation(State& of, Arguments&&... arguments) noexcept
      : Operation(of, std::forward<Arguments>(arguments)...) {}

  /// Starts the operation. The value of `co_await` is the result. Precondition: the operation was
  /// not started before.
  [[nodiscard]] awaiter operator co_await() && noexcept { return {*this}; }

  /// Marks the operation as a sender.
  using sender_concept = execution::sender_t;
  /// The completions of the sender.
  using completion_signatures = detail::completions_of<Operation>;
  /// Returns an environment with the scheduler of the engine.
  [[nodiscard]] auto get_env() const noexcept { return detail::engine_env(this->on()); }
  /// Returns an operation state, which contains the operation and `to`, and cannot be moved.
  /// Destroying the operation state while the operation is in flight has the same effect as
  /// destroying a coroutine that awaits the operation. Does not allocate.
  template <execution::receiver_of<completion_signatures> Receiver>
  [[nodiscard]] detail::operation_state<Operation, Receiver> connect(Receiver to) && noexcept {
    return {this->on(), static_cast<Operation&&>(*this), std::move(to)};
  }

 private:
  // Not noexcept: see queued_waiter::complete.
  static void resume(detail::queued_waiter& self) {
    auto& mine = static_cast<operation&>(self);
    if constexpr (!Operation::always_ends)
      if (!mine.settle()) return;
    mine.caller_.resume();
  }

  std::coroutine_handle<> caller_;
};

}  // namespace verbena::inline VERBENA_ABI::async
