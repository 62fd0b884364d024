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

/// An operation of a channel, a message channel, a listener or an engine, which starts when it is
/// awaited, or connected to a receiver and started. It can be started once.
///
/// It copies its arguments, except the elements of lists of slices, the bytes of inline data and of
/// messages, and buffers: these must outlive it. Its channel or listener must exist when it starts.
///
/// As a sender it calls `set_value` of its receiver with the result, also if it failed. It calls
/// `set_stopped` only if the stop token of the receiver requested a stop before the operation had
/// ended, and the operation did not succeed. It calls `set_error` with a `std::exception_ptr` only
/// for engine::complete() and async::connect(), if a function of the program throws that is called
/// in a step. A stop request has the effect of a limit that passes: for a posted operation of a
/// channel it ends the connection; steps end as if they were destroyed. Any
/// thread may request a stop. start() is called on the thread of the engine; it calls the receiver
/// itself if the operation was refused, or stopped before it started. Otherwise engine::poll()
/// calls the receiver, which may destroy the operation state.
/// Threads: one thread at a time, that of the engine.
template <class Operation>
class [[nodiscard("an operation starts when it is awaited")]] operation : private Operation {
 private:
  // A pointer-like aggregate: g++ 12 copies the operation if the awaiter is a reference to it.
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

  /// Starts the operation; the value of `co_await` is its result. Precondition: the operation was
  /// not started before.
  [[nodiscard]] awaiter operator co_await() && noexcept { return {*this}; }

  /// Marks the operation as a sender.
  using sender_concept = execution::sender_t;
  /// The completions of the sender.
  using completion_signatures = detail::completions_of<Operation>;
  /// Returns an environment with the scheduler of the engine.
  [[nodiscard]] auto get_env() const noexcept { return detail::engine_env(this->on()); }
  /// Returns an operation state, which contains the operation and `to`, and cannot be moved. If it
  /// is destroyed while the operation is in flight, its destructor does what that of a coroutine
  /// does that awaits the operation. Does not allocate.
  template <execution::receiver_of<completion_signatures> Receiver>
  [[nodiscard]] detail::operation_state<Operation, Receiver> connect(Receiver to) && noexcept {
    return {this->on(), static_cast<Operation&&>(*this), std::move(to)};
  }

 private:
  static void resume(detail::queued_waiter& self) noexcept {
    auto& mine = static_cast<operation&>(self);
    if constexpr (!Operation::always_ends)
      if (!mine.settle()) return;
    mine.caller_.resume();
  }

  std::coroutine_handle<> caller_;
};

}  // namespace verbena::inline VERBENA_ABI::async
