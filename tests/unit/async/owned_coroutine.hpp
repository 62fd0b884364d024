// SPDX-License-Identifier: MIT
// A coroutine whose frame the test owns.
#pragma once

#include <coroutine>
#include <exception>

namespace verbena::test {

/// A coroutine that can be destroyed while it waits.
struct owned_coroutine {
  struct promise_type {
    owned_coroutine get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

}  // namespace verbena::test
