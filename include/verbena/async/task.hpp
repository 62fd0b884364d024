// SPDX-License-Identifier: MIT
// A coroutine type that returns a value. Operations of this module can also be awaited in other
// coroutine types.
#pragma once

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::async {

template <class T>
class task;

namespace detail {

#if defined(__GNUC__) && !defined(__clang__) && (__GNUC__ * 100 + __GNUC_MINOR__ < 1203)
/// Stops the program at a coroutine that g++ before 12.3 compiles incorrectly: a coroutine that has
/// no local variable in its outermost block and awaits in the condition of an `if` or of a loop.
/// The handle of such a coroutine is not the address of its frame, and the coroutine accesses other
/// memory than its frame (GCC bug 106188). Threads: immutable.
class checked_frame {
 public:
  [[nodiscard]] static void* operator new(std::size_t size) {
    made = ::operator new(size);
    return made;
  }
  static void operator delete(void* frame, std::size_t size) noexcept {
    ::operator delete(frame, size);
  }
  /// Checks the frame that this thread allocated last. `at` is the location of the coroutine.
  static void check(std::coroutine_handle<> self, const std::source_location& at) {
    if (self.address() != made) [[unlikely]]
      verbena::detail::stop_on_violation(
          "g++ before 12.3 compiles this coroutine incorrectly, because it awaits in a condition "
          "and has no local variable (GCC bug 106188): begin it with the declaration of a "
          "variable, for example of the result that it awaits",
          at.file_name(), static_cast<int>(at.line()));
  }

 private:
  static inline thread_local void* made = nullptr;
};
#else
/// Checks nothing: this compiler does not have the bug. Threads: immutable.
class checked_frame {
 public:
  static void check(std::coroutine_handle<> /*self*/, const std::source_location& /*at*/) noexcept {
  }
};
#endif

/// The base of the promises of all tasks. A task that ends inside start() does not resume its
/// caller; start() returns false, and the caller continues. Therefore, the stack does not grow in a
/// loop that awaits tasks. A task that ends elsewhere resumes its caller, even if another thread is
/// still inside start(). Threads: one thread at a time.
class task_promise_base : public checked_frame {
 public:
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }

  struct final_awaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      task_promise_base& promise = ended.promise();
      promise.ended_ = true;
      if (starting == &promise)
        starting = nullptr;
      else
        promise.caller_.resume();  // may destroy this frame
    }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] final_awaiter final_suspend() const noexcept { return {}; }

  void unhandled_exception() noexcept {
#ifdef VERBENA_NO_EXCEPTIONS
    std::terminate();
#else
    exception_ = std::current_exception();
#endif
  }

  [[nodiscard]] bool has_ended() const noexcept { return ended_; }
  /// Starts the coroutine `self` of the promise. Returns false if the coroutine has ended.
  /// Otherwise returns true: `caller` is resumed when the coroutine ends, or has already been
  /// resumed by another thread.
  [[nodiscard]] bool start(std::coroutine_handle<> self, std::coroutine_handle<> caller) {
    caller_ = caller;
    const task_promise_base* const outer = std::exchange(starting, this);
    self.resume();
    // From here on, *this may be destroyed.
    return std::exchange(starting, outer) != nullptr;
  }
  void rethrow() const {
#ifndef VERBENA_NO_EXCEPTIONS
    if (exception_) std::rethrow_exception(exception_);
#endif
  }

 private:
  // The task that this thread is starting; nullptr after the task has ended.
  static inline constinit thread_local const task_promise_base* starting = nullptr;

  std::coroutine_handle<> caller_;
  std::exception_ptr exception_;
  bool ended_ = false;
};

/// The promise of a task. Threads: one thread at a time.
template <class T>
class task_promise final : public task_promise_base {
 public:
  [[nodiscard]] task<T> get_return_object(
      const std::source_location& at = std::source_location::current());
  template <class Value = T>
    requires std::convertible_to<Value, T>
  void return_value(Value&& value) {
    value_.emplace(std::forward<Value>(value));
  }
  [[nodiscard]] T take() {
    rethrow();
    return *std::move(value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class task_promise<void> final : public task_promise_base {
 public:
  [[nodiscard]] task<void> get_return_object(
      const std::source_location& at = std::source_location::current());
  void return_void() const noexcept {}
  void take() const { rethrow(); }
};

}  // namespace detail

/// A coroutine that starts when it is awaited and returns a T.
///
///   async::task<int> twice(int x) { co_return 2 * x; }
///   int four = co_await twice(2);
///
/// If the coroutine throws, `co_await` throws the exception. The frame is allocated when the
/// coroutine is called, and destroyed with the task. Parameters are copied or moved into the frame.
///
/// *Contract.* Objects to which reference parameters refer must outlive the task, and so must the
/// function object of a lambda. A temporary argument lives until the end of the full expression
/// that calls the coroutine, which is long enough for `co_await f(temporary)` and
/// `engine.run(f(temporary))`, but not for a task that is stored or spawned:
///
///   async::task<> greet(const std::string& name);
///   clients.spawn(greet("client " + number));  // wrong: the string is destroyed first
///   clients.spawn(greet, "client " + number);  // right: the string is moved into a frame
///
/// A coroutine whose parameters are values has no such limit.
///
/// A task that has started must end before it is destroyed; otherwise the program stops.
/// engine::run() and scope::join() ensure this.
/// Threads: one thread at a time; the coroutine runs on the thread that resumes it.
template <class T = void>
class [[nodiscard("a task runs when it is awaited, spawned or passed to engine::run()")]] task {
 public:
  /// The promise type of the coroutine.
  using promise_type = detail::task_promise<T>;
  /// The handle of the coroutine.
  using handle = std::coroutine_handle<promise_type>;

  /// Owns the coroutine of a promise.
  explicit task(handle of) noexcept : handle_(of) {}
  /// Takes the coroutine of `other`, which must not be awaited afterwards.
  task(task&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)),
        started_(std::exchange(other.started_, false)) {}
  /// Destroys the current coroutine and takes the coroutine of `other`.
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      destroy();
      handle_ = std::exchange(other.handle_, nullptr);
      started_ = std::exchange(other.started_, false);
    }
    return *this;
  }
  task(const task&) = delete;
  task& operator=(const task&) = delete;
  ~task() { destroy(); }

  /// Starts the coroutine. The value of `co_await` is the value that the coroutine returns.
  [[nodiscard]] auto operator co_await() && {
    VERBENA_ASSERT(handle_ != nullptr && !started_,
                   "a task was awaited twice, or after it was moved from");
    return awaiter{*this};
  }

 private:
  struct awaiter {
    task& of;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): lives in one expression

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    [[nodiscard]] bool await_suspend(std::coroutine_handle<> caller) const {
      of.started_ = true;
      return of.handle_.promise().start(of.handle_, caller);
    }
    T await_resume() const { return of.handle_.promise().take(); }
  };

  void destroy() noexcept {
    if (handle_ == nullptr) return;
    VERBENA_ASSERT(!started_ || handle_.promise().has_ended(),
                   "a task was destroyed before it ended: await it, or spawn it in a scope");
    handle_.destroy();
  }

  handle handle_;
  bool started_ = false;
};

namespace detail {

template <class T>
task<T> task_promise<T>::get_return_object(const std::source_location& at) {
  const auto self = std::coroutine_handle<task_promise>::from_promise(*this);
  check(self, at);
  return task<T>(self);
}
inline task<void> task_promise<void>::get_return_object(const std::source_location& at) {
  const auto self = std::coroutine_handle<task_promise>::from_promise(*this);
  check(self, at);
  return task<void>(self);
}

/// A coroutine that starts immediately and destroys its frame when it ends.
struct started_coroutine {
  struct promise_type : checked_frame {
    [[nodiscard]] started_coroutine get_return_object(
        const std::source_location& at = std::source_location::current()) {
      check(std::coroutine_handle<promise_type>::from_promise(*this), at);
      return {};
    }
    [[nodiscard]] std::suspend_never initial_suspend() const noexcept { return {}; }
    [[nodiscard]] std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
  };
};

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::async
