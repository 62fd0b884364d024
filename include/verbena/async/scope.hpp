// SPDX-License-Identifier: MIT
// Concurrent tasks that end before their scope is destroyed.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbena/async/task.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/config.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::async {

namespace detail {

template <class T>
inline constexpr bool is_task = false;
template <class T>
inline constexpr bool is_task<task<T>> = true;

/// A function object that returns a task for these arguments, which are moved from.
template <class Start, class... Arguments>
concept starts_task = requires(Start& start, Arguments&... arguments) {
  // NOLINTNEXTLINE(performance-move-const-arg): an argument may be trivially copyable
  requires is_task<decltype(start(std::move(arguments)...))>;
};

/// Contains a reference: a std::reference_wrapper.
template <class T>
concept reference_holder =
    requires(T& of) { requires std::is_same_v<decltype(of.get()), typename T::type&>; };

/// Whether a reference parameter refers to an argument itself, not to a temporary that is converted
/// from it.
template <class Parameter, class Argument>
inline constexpr bool refers_to = std::is_convertible_v<std::remove_reference_t<Argument>*,
                                                        const std::remove_reference_t<Parameter>*>;
template <class Parameter, reference_holder Argument>
inline constexpr bool refers_to<Parameter, Argument> =
    std::is_convertible_v<typename Argument::type*, const std::remove_reference_t<Parameter>*>;

template <class... Parameters>
struct parameter_list {
  template <class... Arguments>
  [[nodiscard]] static consteval bool keeps() {
    if constexpr (sizeof...(Parameters) != sizeof...(Arguments))
      return true;  // default arguments
    else
      return ((!std::is_reference_v<Parameters> || refers_to<Parameters, Arguments>) && ...);
  }
};
/// The parameters of a function or function object.
template <class Start>
struct parameters_of {
  template <class... Arguments>
  [[nodiscard]] static consteval bool keeps() {
    return true;  // unknown, because it is overloaded or generic
  }
};
template <class Start>
  requires requires { &Start::operator(); }
struct parameters_of<Start> : parameters_of<decltype(&Start::operator())> {};
template <class Task, class... Parameters>
struct parameters_of<Task (*)(Parameters...)> : parameter_list<Parameters...> {};
template <class Task, class... Parameters>
struct parameters_of<Task (*)(Parameters...) noexcept> : parameter_list<Parameters...> {};
template <class Task, class Start, class... Parameters>
struct parameters_of<Task (Start::*)(Parameters...)> : parameter_list<Parameters...> {};
template <class Task, class Start, class... Parameters>
struct parameters_of<Task (Start::*)(Parameters...) noexcept> : parameter_list<Parameters...> {};
template <class Task, class Start, class... Parameters>
struct parameters_of<Task (Start::*)(Parameters...) const> : parameter_list<Parameters...> {};
template <class Task, class Start, class... Parameters>
struct parameters_of<Task (Start::*)(Parameters...) const noexcept>
    : parameter_list<Parameters...> {};

}  // namespace detail

// g++ 12 warns about the frames of call() and when_all() if `Start` is a lambda of a source file.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif

/// Tasks that run concurrently on one thread.
///
///   async::scope clients;
///   while (auto client = co_await accept()) clients.spawn(serve(std::move(*client)));
///   co_await clients.join();
///
/// All tasks must have ended when the scope is destroyed; otherwise the program stops. join() waits
/// for the tasks. with_scope() also waits for them if an exception is thrown before join(). An
/// exception of a task that join() did not throw is logged by the destructor.
/// Threads: one thread at a time, the thread of the engine.
class scope {
 public:
  scope() noexcept = default;
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;
  ~scope() {
    VERBENA_ASSERT(running_ == 0,
                   "a scope was destroyed while its tasks were running: co_await join() first");
#ifndef VERBENA_NO_EXCEPTIONS
    if (exception_)
      log(log_level::error,
          "async::scope: a task threw an exception that was lost, because join() was not awaited");
#endif
  }

  /// Starts a task. Returns when the task waits for the first time or ends.
  ///
  /// Allocates one coroutine frame. The value of the task is discarded. An exception of the task is
  /// thrown by join().
  ///
  /// *Contract.* Objects to which reference parameters of the task refer must outlive the task.
  /// Temporaries of the call do not: for these, pass the function and its arguments separately.
  template <class T>
  void spawn(task<T> started) {
    run(std::move(started));
  }
  /// Starts the task that `start` returns for `arguments`. `start` and the arguments are copied or
  /// moved into a coroutine frame, where they live until the task has ended.
  ///
  ///   task<> serve(client_type&& client, const std::string& name);
  ///   clients.spawn(serve, std::move(client), prefix + "client");
  ///
  /// `start` is called with the copies as rvalues. Pass std::ref() of an object that outlives the
  /// task to pass a reference to the object itself. If a reference parameter would refer to a
  /// temporary that is converted from the argument, the call is refused at compile time, except if
  /// `start` is overloaded or generic. The targets of pointers, spans and string views are not
  /// copied. Allocates the frames of three coroutines. The value of the task is discarded.
  template <class Start, class... Arguments>
    requires detail::starts_task<std::decay_t<Start>, std::decay_t<Arguments>...>
  void spawn(Start&& start, Arguments&&... arguments) {
    static_assert(
        detail::parameters_of<std::decay_t<Start>>::template keeps<std::decay_t<Arguments>...>(),
        "a reference parameter of the task would refer to a temporary that is destroyed "
        "before the task ends: pass an argument of the type of the parameter");
    run(call<std::decay_t<Start>, std::decay_t<Arguments>...>(
        std::forward<Start>(start), std::forward<Arguments>(arguments)...));
  }
  /// Returns the number of tasks that have not ended.
  [[nodiscard]] std::size_t running() const noexcept { return running_; }

  /// Makes `co_await scope.join()` continue when all tasks have ended. Throws the first exception
  /// that a task has thrown. Only one coroutine at a time may wait.
  [[nodiscard]] auto join() noexcept { return join_awaiter{*this}; }

 private:
  struct join_awaiter {
    scope& of;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): one expression

    [[nodiscard]] bool await_ready() const noexcept { return of.running_ == 0; }
    void await_suspend(std::coroutine_handle<> caller) const {
      VERBENA_ASSERT(!of.joining_, "two coroutines wait for the tasks of one scope");
      of.joining_ = caller;
    }
    void await_resume() const {
#ifndef VERBENA_NO_EXCEPTIONS
      if (auto first = std::exchange(of.exception_, nullptr)) std::rethrow_exception(first);
#endif
    }
  };

  template <class T>
  detail::started_coroutine run(task<T> started) {
    ++running_;  // not in spawn(): allocating the frame can fail

    // The task and its parameters are destroyed before join() continues.
#ifdef VERBENA_NO_EXCEPTIONS
    {
      task<T> mine = std::move(started);
      co_await std::move(mine);
    }
#else
    try {
      task<T> mine = std::move(started);
      co_await std::move(mine);
    } catch (...) {
      if (!exception_) exception_ = std::current_exception();
    }
#endif
    // The coroutine that waits may destroy the scope.
    if (--running_ == 0 && joining_) std::exchange(joining_, nullptr).resume();
  }

  // Its frame holds the function and the arguments.
  template <class Start, class... Arguments>
  static task<void> call(Start start, Arguments... arguments) {
    auto started = start(std::move(arguments)...);
    co_await std::move(started);
  }

  std::size_t running_ = 0;
  std::coroutine_handle<> joining_;
  std::exception_ptr exception_;
};

/// Awaits `body(scope)` and then the tasks of the scope, even if `body` throws.
///
///   co_await async::with_scope([&](async::scope& clients) -> async::task<> {
///     while (auto client = co_await accept()) clients.spawn(serve(std::move(*client)));
///   });
///
/// `body` returns a task. Throws the exception of `body`, otherwise the first exception of a
/// spawned task. Objects to which spawned tasks refer must outlive with_scope(): local variables of
/// `body` do not. Allocates one coroutine frame, and that of `body`.
template <class Body>
  requires detail::is_task<std::invoke_result_t<Body&, scope&>>
task<void> with_scope(Body body) {
  scope running;
#ifdef VERBENA_NO_EXCEPTIONS
  auto started = body(running);
  co_await std::move(started);
  co_await running.join();
#else
  std::exception_ptr first;
  try {
    auto started = body(running);
    co_await std::move(started);
  } catch (...) {
    first = std::current_exception();
  }
  try {
    co_await running.join();
  } catch (...) {
    if (!first) first = std::current_exception();
  }
  if (first) std::rethrow_exception(first);
#endif
}

namespace detail {

template <class Awaitable>
struct awaited {
  using type = decltype(std::declval<Awaitable>().await_resume());
};
template <class Awaitable>
  requires requires(Awaitable of) { std::move(of).operator co_await(); }
struct awaited<Awaitable> {
  using type = decltype(std::declval<Awaitable>().operator co_await().await_resume());
};

}  // namespace detail

/// The type of `co_await std::declval<Awaitable>()`.
template <class Awaitable>
using awaited_value = typename detail::awaited<Awaitable>::type;

/// Awaits `start(element, index)` for all elements of `range` concurrently. Returns the values in
/// the order of the elements.
///
///   auto done = co_await async::when_all(pages, [&](sink& page, std::size_t i) {
///     return channel.read(page, table.element(i));
///   });
///
/// `start` returns an operation or a task that has a value. If one of them throws, the task waits
/// for the others and then throws the first exception. `range` and all objects that `start` refers
/// to must outlive the task. Allocates two coroutine frames per element, and the vector of results.
template <class Range, class Start>
auto when_all(Range& range, Start start) -> task<std::vector<
    awaited_value<std::invoke_result_t<Start&, decltype(*std::begin(range)), std::size_t>>>> {
  using value =
      awaited_value<std::invoke_result_t<Start&, decltype(*std::begin(range)), std::size_t>>;
  std::vector<std::optional<value>> values(
      static_cast<std::size_t>(std::distance(std::begin(range), std::end(range))));
  const auto run = [&](auto& element, std::size_t index) -> task<void> {
    values[index].emplace(co_await start(element, index));
  };
  scope running;
  std::size_t index = 0;
#ifdef VERBENA_NO_EXCEPTIONS
  for (auto& element : range) running.spawn(run(element, index++));
  co_await running.join();
#else
  std::exception_ptr exception;  // thrown by an allocation or by the range
  try {
    for (auto& element : range) running.spawn(run(element, index++));
  } catch (...) {
    exception = std::current_exception();
  }
  co_await running.join();
  if (exception) std::rethrow_exception(exception);
#endif
  std::vector<value> out;
  out.reserve(values.size());
  for (auto& each : values) out.push_back(*std::move(each));
  co_return out;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace verbena::inline VERBENA_ABI::async
