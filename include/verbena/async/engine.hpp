// SPDX-License-Identifier: MIT
// The event loop of asynchronous operations on one thread.
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
  /// The maximum number of operations in flight on all channels: the sum of `max_send_wr +
  /// max_recv_wr` of the channels, plus `message_channel::own_operations` per message channel.
  std::uint32_t operations = 4096;
  /// The time for which run() polls without completions before it sleeps. Waking a thread takes
  /// several microseconds. 0: sleeps immediately.
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);
  /// The completion vector of the events, less than context::completion_vectors().
  std::uint32_t completion_vector = 0;
};

/// A completion hub with an event loop, timers and calls from other threads.
///
/// Channels of the engine are created on hub(). A program without an event loop calls run():
///
///   auto engine = async::engine::create(context).value();
///   engine.run(serve(engine));
///
/// A program with its own event loop waits for fd() and next_deadline():
///
///   engine.poll();                       // resumes the coroutines of completed operations
///   if (engine.arm()) wait_for(engine.fd(), engine.next_deadline());
///
/// Coroutines are resumed only by poll() and run(), on the thread that calls them. No other
/// function of the engine calls back. Only run() blocks.
/// Threads: one thread at a time, for the engine, its channels and their operations together.
/// enter() and wake() may be called by any thread. Programs with several threads usually have one
/// engine per thread.
class engine {
 public:
  /// Creates an engine, with a completion hub that has a completion channel.
  ///
  /// Errors: those of completion_hub::create(), epoll_create1(2), eventfd(2) and epoll_ctl(2).
  /// Allocates.
  [[nodiscard]] static result<engine> create(const context& of, const engine_options& options = {});
  /// Takes the engine of another object, which must not be used afterwards.
  engine(engine&&) noexcept = default;
  /// Destroys the current engine and takes the engine of another object.
  engine& operator=(engine&&) noexcept = default;
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  /// Precondition: the channels and listeners of the engine are destroyed.
  ~engine() = default;

  /// Returns the hub on which the channels of the engine are created.
  [[nodiscard]] const completion_hub& hub() const noexcept { return state_->hub(); }

  /// Delivers completions, expires timers, and resumes the coroutines, or calls the receivers, of
  /// operations that have ended. Returns the number of ended operations and expired timers. If the
  /// number is not 0, the condition that the caller waits for may hold.
  ///
  /// If polling fails, the engine has failed: see failure().
  std::size_t poll() { return state_->poll(); }
  /// Requests an event for the next completion. Returns true if the caller may wait until fd() is
  /// readable or next_deadline() passes. Returns false if the caller must call poll() first. Makes
  /// system calls.
  ///
  /// If the completion channel fails, returns false: the engine has failed, see failure().
  [[nodiscard]] bool arm() { return state_->arm(); }
  /// Returns the descriptor for poll(2) and epoll(7), which the engine owns. After arm() has
  /// returned true, the descriptor becomes readable with the next completion, wake() or event of a
  /// descriptor. The descriptor is level-triggered.
  [[nodiscard]] int fd() const noexcept { return state_->fd(); }
  /// Returns the time at which poll() must be called even if fd() is not readable.
  [[nodiscard]] deadline next_deadline() const noexcept { return state_->next_deadline(); }
  /// Returns the failure of the completion queue or channel; nullptr if there is none.
  ///
  /// The failure is permanent. All operations of the hub end as `lost`, those that are posted later
  /// included, and their queue pairs are destroyed. Listeners close, and accept() returns the
  /// failure. Timers, descriptors, enter() and wake() work as before: arm() returns true if no
  /// call is due, and fd() is readable only for these. Create another engine to continue.
  [[nodiscard]] const error* failure() const noexcept { return state_->failure(); }

  /// Runs the loop until `root` ends, and returns its value or throws its exception. Polls; sleeps
  /// when nothing has completed for engine_options::spin. Blocks.
  template <class T>
  T run(task<T> root) {
    std::atomic<bool> ended = false;
    auto awaited = std::move(root).operator co_await();
    start(awaited, *state_, ended);
    state_->run_until(ended);
    return awaited.await_resume();
  }

  /// Runs the loop until `work` completes. Returns its values as a tuple, or nullopt if `work` was
  /// stopped. Throws the error of `work`. `work` may complete on any thread. Precondition: `work`
  /// has exactly one `set_value` signature. Blocks.
  template <execution::sender_in<detail::engine_env> Sender>
  auto run(Sender&& work) {
    detail::run_outcome<Sender> outcome(*state_);
    auto running = execution::connect(std::forward<Sender>(work), outcome.receiver());
    execution::start(running);
    state_->run_until(outcome.has_ended());
    return std::move(outcome).take();
  }
  /// Returns a scheduler whose `schedule()` completes on the thread of the engine. Any thread may
  /// start its operation states. They must be destroyed after the completion, or on the thread of
  /// the engine.
  [[nodiscard]] detail::engine_scheduler get_scheduler() const noexcept {
    return detail::engine_scheduler(*state_);
  }

  /// Makes `co_await engine.enter()` continue on the thread of the engine. May be called on any
  /// thread. Does not lock; makes one system call if the engine sleeps.
  [[nodiscard]] auto enter() const noexcept { return detail::enter_awaiter(*state_); }
  /// Makes the loop of the engine run once more. May be called on any thread. Makes one system call
  /// if the engine sleeps.
  void wake() const noexcept { state_->wake(); }
  /// Makes `co_await engine.wait_until(when)` continue after `when` has passed.
  [[nodiscard]] auto wait_until(deadline when) const noexcept {
    return detail::wait_awaiter(*state_, when);
  }
  /// Waits until `fd` is readable, or has an error or hang-up. The value of `co_await` is a
  /// `result<bool>`: true, or false if `until` passes first. `fd` must remain open until then.
  /// Several coroutines may wait for the same descriptor. Errors: those of epoll_ctl(2).
  [[nodiscard]] auto readable(int fd, deadline until = deadline::never()) const noexcept {
    return operation<detail::descriptor_operation>(*state_, fd, POLLIN, until);
  }
  /// Waits until `fd` is writable; see readable().
  [[nodiscard]] auto writable(int fd, deadline until = deadline::never()) const noexcept {
    return operation<detail::descriptor_operation>(*state_, fd, POLLOUT, until);
  }
  /// Performs an operation that consists of steps. The value of `co_await` is the result of the
  /// steps. Destroying the coroutine while it waits destroys the steps. Errors: those of the steps
  /// and of epoll_ctl(2).
  template <class T>
  [[nodiscard]] auto complete(steps<T>&& of) const noexcept {
    return operation<detail::steps_operation<T>>(*state_, std::move(of));
  }
  /// Makes `co_await engine.yield()` continue after the coroutines that are ready now.
  [[nodiscard]] auto yield() const noexcept { return detail::yield_awaiter(*state_); }

 private:
  friend class channel;
  friend class message_channel;
  friend class scope;
  friend detail::engine_state& detail::state_of(const engine& of) noexcept;
  explicit engine(std::unique_ptr<detail::engine_state> state) noexcept
      : state_(std::move(state)) {}

  template <class Awaiter>
  static detail::started_coroutine start(Awaiter& awaited, detail::engine_state& on,
                                         std::atomic<bool>& ended) {
    // Returns no value: run() takes the value from the awaiter.
    struct waiting {
      Awaiter& of;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): one expression
      [[nodiscard]] bool await_ready() const noexcept { return of.await_ready(); }
      [[nodiscard]] bool await_suspend(std::coroutine_handle<> caller) const {
        return of.await_suspend(caller);
      }
      void await_resume() const noexcept {}
    };
    co_await waiting{awaited};
    on.end_run(ended);  // the task may have ended on another thread
  }

  std::unique_ptr<detail::engine_state> state_;
};

namespace detail {
inline engine_state& state_of(const engine& of) noexcept { return *of.state_; }
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::async
