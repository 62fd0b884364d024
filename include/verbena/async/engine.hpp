// SPDX-License-Identifier: MIT
// The loop of asynchronous operations on one thread.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "verbena/async/detail/descriptor_wait.hpp"
#include "verbena/async/detail/engine_scheduler.hpp"
#include "verbena/async/detail/engine_state.hpp"
#include "verbena/async/detail/run_receiver.hpp"
#include "verbena/async/execution.hpp"
#include "verbena/async/operation.hpp"
#include "verbena/async/task.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::async {

class engine;

namespace detail {
[[nodiscard]] engine_state& state_of(const engine& of) noexcept;
}  // namespace detail

/// Options of engine::create(). Threads: immutable value.
struct engine_options {
  /// The operations in flight on all channels together: the sum of their
  /// `max_send_wr + max_recv_wr`, and `message_channel::own_operations` for each message channel.
  std::uint32_t operations = 4096;
  /// How long run() polls without completions before it sleeps. Waking a thread costs some
  /// microseconds; 0 sleeps at once.
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);
  /// The completion vector of the events; less than context::completion_vectors().
  std::uint32_t completion_vector = 0;
};

/// A completion hub with a loop, timers and entry from other threads.
///
/// Channels of the engine are created on hub(). run() is the loop of a program that has no other:
///
///   auto engine = async::engine::create(context).value();
///   engine.run(serve(engine));
///
/// A program with its own loop waits for fd() and next_deadline():
///
///   engine.poll();                       // resumes the owners of completed operations
///   if (engine.arm()) wait_for(engine.fd(), engine.next_deadline());
///
/// Coroutines are resumed by poll() and run() only, on the thread that calls them; no function of
/// the engine calls back otherwise. None of its functions but run() blocks.
/// Threads: one thread at a time, for the engine, its channels and their operations together.
/// enter() and wake() may be called by any thread. The usual form is one engine per thread.
class engine {
 public:
  /// Creates an engine, with a completion hub that has a completion channel.
  ///
  /// Errors: those of completion_hub::create(); the errno of epoll_create1(2), eventfd(2) or
  /// epoll_ctl(2). Allocates.
  [[nodiscard]] static result<engine> create(const context& of, const engine_options& options = {});
  /// Takes the engine of another object, which must not be used afterwards.
  engine(engine&&) noexcept = default;
  /// Destroys its own engine and takes that of another object.
  engine& operator=(engine&&) noexcept = default;
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  /// Precondition: the channels and listeners of the engine are destroyed.
  ~engine() = default;

  /// Returns the hub on which the channels of the engine are created.
  [[nodiscard]] const completion_hub& hub() const noexcept { return state_->hub(); }

  /// Delivers completions, expires timers, and resumes the owners of completed operations. Returns
  /// the number of resumed operations and expired timers. If it is not 0, check whether your
  /// condition holds.
  ///
  /// If polling fails, all operations of the hub end as `lost`, and failure() returns the error.
  std::size_t poll() { return state_->poll(); }
  /// Requests an event for the next completion. Returns true if nothing is left to do, so that the
  /// caller may wait until fd() is readable or next_deadline() passes; false: call poll() first.
  ///
  /// Errors of the completion channel: returns false, and failure() returns the error.
  [[nodiscard]] bool arm() { return state_->arm(); }
  /// Returns the descriptor for poll(2) and epoll(7), which the engine owns. After arm() has
  /// returned true, it becomes readable with the next completion or wake(). It is level-triggered.
  [[nodiscard]] int fd() const noexcept { return state_->fd(); }
  /// Returns when poll() must be called even if fd() is not readable.
  [[nodiscard]] deadline next_deadline() const noexcept { return state_->next_deadline(); }
  /// Returns the first failure of the completion queue or channel; nullptr without one.
  [[nodiscard]] const error* failure() const noexcept { return state_->failure(); }

  /// Runs the loop until `root` ends, and returns its value or throws its exception. Polls, and
  /// sleeps when nothing has completed for engine_options::spin. Blocks.
  template <class T>
  T run(task<T> root) {
    std::atomic<bool> ended = false;
    auto awaited = std::move(root).operator co_await();
    start(awaited, ended);
    state_->run_until(ended);
    return awaited.await_resume();
  }

  /// Runs the loop until `work` completes, and returns its values; nullopt if it was stopped.
  /// Throws its error. `work` may complete on any thread. Precondition: `work` has exactly one
  /// `set_value` signature. Blocks.
  template <execution::sender_in<detail::engine_env> Sender>
  auto run(Sender&& work) {
    detail::run_outcome<Sender> outcome(*state_);
    auto running = execution::connect(std::forward<Sender>(work), outcome.receiver());
    execution::start(running);
    state_->run_until(outcome.has_ended());
    return std::move(outcome).take();
  }
  /// Returns a scheduler: `schedule()` completes on the thread of the engine. Its operation states
  /// are started by any thread, and destroyed after the completion or on the thread of the engine.
  [[nodiscard]] detail::engine_scheduler get_scheduler() const noexcept {
    return detail::engine_scheduler(*state_);
  }

  /// Makes `co_await engine.enter()` continue on the thread of the engine. Called by a coroutine on
  /// any thread. Locks nothing; one system call if the engine sleeps.
  [[nodiscard]] auto enter() const noexcept { return detail::enter_awaiter(*state_); }
  /// Makes the loop of the engine run once more. Called by any thread.
  void wake() const noexcept { state_->wake(); }
  /// Makes `co_await engine.wait_until(when)` continue when `when` has passed.
  [[nodiscard]] auto wait_until(deadline when) const noexcept {
    return detail::wait_awaiter(*state_, when);
  }
  /// Waits until `fd` is readable, has an error or a hang-up. The value of `co_await` is true, or
  /// false if `until` passes first. `fd` must stay open until then. Several coroutines may wait for
  /// one descriptor. Errors: the errno of epoll_ctl(2).
  [[nodiscard]] auto readable(int fd, deadline until = deadline::never()) const noexcept {
    return operation<detail::descriptor_operation>(*state_, fd, POLLIN, until);
  }
  /// Waits until `fd` is writable; see readable().
  [[nodiscard]] auto writable(int fd, deadline until = deadline::never()) const noexcept {
    return operation<detail::descriptor_operation>(*state_, fd, POLLOUT, until);
  }
  /// Performs an operation that consists of steps. The value of `co_await` is its result.
  /// Destroying the coroutine while it waits ends the operation. Errors: those of the operation,
  /// and the errno of epoll_ctl(2).
  template <class T>
  [[nodiscard]] auto complete(steps<T>&& of) const noexcept {
    return operation<detail::steps_operation<T>>(*state_, std::move(of));
  }
  /// Makes `co_await engine.yield()` continue after the others that are ready.
  [[nodiscard]] auto yield() const noexcept { return detail::yield_awaiter(*state_); }

 private:
  friend class channel;
  friend class message_channel;
  friend class scope;
  friend detail::engine_state& detail::state_of(const engine& of) noexcept;
  explicit engine(std::unique_ptr<detail::engine_state> state) noexcept
      : state_(std::move(state)) {}

  template <class Awaiter>
  static detail::started_coroutine start(Awaiter& awaited, std::atomic<bool>& ended) {
    // Resumed without a value: run() takes it from the awaiter.
    struct waiting {
      Awaiter& of;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): one expression
      [[nodiscard]] bool await_ready() const noexcept { return of.await_ready(); }
      [[nodiscard]] bool await_suspend(std::coroutine_handle<> caller) const {
        return of.await_suspend(caller);
      }
      void await_resume() const noexcept {}
    };
    co_await waiting{awaited};
    ended.store(true, std::memory_order_release);
  }

  std::unique_ptr<detail::engine_state> state_;
};

namespace detail {
inline engine_state& state_of(const engine& of) noexcept { return *of.state_; }
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::async
