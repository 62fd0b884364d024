// SPDX-License-Identifier: MIT
#pragma once

#include <coroutine>
#include <utility>

#include "verbena/async/detail/engine_state.hpp"
#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::async {

/// An operation of a channel or of a message channel, which starts when it is awaited.
///
/// It copies its arguments, except the elements of lists of slices, the bytes of inline data and of
/// messages, and buffers: these must outlive it.
/// Threads: one thread at a time, that of the engine.
template <class Operation>
class [[nodiscard("an operation starts when it is awaited")]] operation : private Operation {
 private:
  // A reference would do, but g++ 12 copies what it refers to.
  struct awaiter {
    operation& of;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): one expression

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    [[nodiscard]] bool await_suspend(std::coroutine_handle<> caller) const noexcept {
      of.caller_ = caller;
      return of.start(resume);
    }
    [[nodiscard]] auto await_resume() const noexcept(noexcept(of.take_result())) {
      if constexpr (Operation::always_ends) of.settle();
      return of.take_result();
    }
  };

 public:
  /// Made by the functions of channels.
  template <class State, class... Arguments>
  explicit operation(State& of, Arguments&&... arguments) noexcept
      : Operation(of, std::forward<Arguments>(arguments)...) {}

  /// Starts the operation; the value of `co_await` is its result.
  [[nodiscard]] awaiter operator co_await() && noexcept { return {*this}; }

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
