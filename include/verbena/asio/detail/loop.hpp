// SPDX-License-Identifier: MIT
// The loop of an engine on an Asio execution context. A step polls the engine and calls handlers.
// While operations are pending, either a step is posted to the executor, or the loop waits for the
// descriptor and the next deadline of the engine. Both keep io_context::run() from returning.
#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/error.hpp>
#include <asio/error_code.hpp>
#include <asio/execution/context.hpp>
#include <asio/execution_context.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/query.hpp>
#include <asio/steady_timer.hpp>
#include <asio/version.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <typeinfo>
#include <utility>
#include <vector>

#include "verbena/asio/detail/operation_memory.hpp"
#include "verbena/asio/detail/pending_operation.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"

#if ASIO_VERSION < 102200
#error "verbena::asio needs Asio 1.22 or newer"
#endif

namespace verbena::inline VERBENA_ABI::asio::detail {

class loop;

/// Destroys the pending operations of an execution context when the context is destroyed.
/// Thread-safe.
class engine_service final : public ::asio::execution_context::service {
 public:
  inline static ::asio::execution_context::id id;

  explicit engine_service(::asio::execution_context& of) : service(of) {}
  engine_service(const engine_service&) = delete;
  engine_service& operator=(const engine_service&) = delete;
  ~engine_service() override = default;

  void add(const std::shared_ptr<loop>& which) {
    const std::scoped_lock locked(mutex_);
    std::erase_if(loops_, [](const std::weak_ptr<loop>& each) { return each.expired(); });
    loops_.push_back(which);
  }

 private:
  inline void shutdown() noexcept override;

  std::mutex mutex_;
  std::vector<std::weak_ptr<loop>> loops_;
};

/// Threads: one thread at a time, the thread of the executor.
class loop : public std::enable_shared_from_this<loop> {
 public:
  using executor_type = ::asio::any_io_executor;
  using native_executor_type = ::asio::io_context::executor_type;

  static result<std::shared_ptr<loop>> create(async::engine on, const executor_type& executor,
                                              std::chrono::nanoseconds spin) {
    auto made = std::make_shared<loop>(std::move(on), executor, spin);
    ::asio::error_code failed;
    // NOLINTNEXTLINE(bugprone-unused-return-value): the code is also in `failed`
    made->descriptor_->assign(made->engine_.fd(), failed);
    if (failed)
      return error::from_errno(failed.value(), "asio::posix::stream_descriptor::assign", {},
                               "the execution context cannot wait for the engine");
    auto& context = ::asio::query(executor, ::asio::execution::context);
    // Created after the services of the descriptor and the timer, so it is shut down before them.
    ::asio::use_service<engine_service>(context).add(made);
    return made;
  }
  loop(async::engine on, const executor_type& executor, std::chrono::nanoseconds spin)
      : engine_(std::move(on)),
        executor_(executor),
        spin_(spin),
        descriptor_(std::in_place, executor_),
        timer_(std::in_place, executor_) {
    // target() does not check the type.
    if (executor_.target_type() == typeid(native_executor_type))
      native_ = *executor_.target<native_executor_type>();
  }
  loop(const loop&) = delete;
  loop& operator=(const loop&) = delete;
  ~loop() { detach(); }

  [[nodiscard]] async::engine& engine() noexcept { return engine_; }
  [[nodiscard]] async::detail::engine_state& state() const noexcept {
    return async::detail::state_of(engine_);
  }
  [[nodiscard]] const executor_type& executor() const noexcept { return executor_; }
  /// Returns the executor if it belongs to an io_context, otherwise nullopt.
  [[nodiscard]] const std::optional<native_executor_type>& native() const noexcept {
    return native_;
  }
  [[nodiscard]] operation_memory& memory() noexcept { return memory_; }
  [[nodiscard]] bool is_shut_down() const noexcept { return is_shut_down_; }
  /// Returns the code 0. A copy is cheaper than constructing a code.
  [[nodiscard]] const std::error_code& success() const noexcept { return success_; }

  /// Adds an operation that is about to begin.
  void add(pending_operation& which) noexcept { pending_.append(which); }
  /// Makes the next step finish an operation that has ended.
  void end(pending_operation& which) noexcept {
    operation_list::remove(which);
    ended_.append(which);
  }
  /// Returns whether finish() would call the handler later, not immediately.
  [[nodiscard]] bool is_behind() const noexcept { return thrown_ || !ended_.empty(); }
  /// Finishes an operation that has ended during engine::poll(). If a handler has thrown in this
  /// poll, or if operations have ended before, the operation is finished after them.
  template <class Operation>
  void finish(Operation& which) noexcept {
    if (is_behind()) [[unlikely]]
      return end(which);
    operation_list::remove(which);
    try {
      which.hand_over();
    } catch (...) {
      thrown_ = std::current_exception();
    }
  }
  /// Removes an operation that is being destroyed.
  static void drop(pending_operation& which) noexcept { operation_list::remove(which); }
  /// Posts a step if necessary, because operations have begun or ended outside the loop.
  void wake() {
    if (is_stepping_ || !has_operations()) [[likely]]
      return;
    idle_since_ = time_point::max();
    post_step();
  }
  /// Destroys all operations without calling their handlers. Afterwards, the context may be
  /// destroyed.
  void shut_down() noexcept {
    is_shut_down_ = true;
    // First aborts all operations, so that the devices flush all channels concurrently.
    pending_.for_each([](pending_operation& each) { each.begin_to_end(); });
    // Destroying a handler may destroy a channel, which ends other operations.
    while (has_operations()) (pending_.empty() ? ended_ : pending_).first().destroy();
    detach();
    executor_ = {};
    native_.reset();
  }

 private:
  using clock = std::chrono::steady_clock;
  using time_point = clock::time_point;
  using allocator_type = engine_allocator<void>;

  /// The common part of the loop's own handlers.
  struct own_handler {
    using allocator_type = loop::allocator_type;
    std::shared_ptr<loop> of;
    [[nodiscard]] allocator_type get_allocator() const noexcept { return of->allocator(); }
  };
  struct step_handler : own_handler {
    void operator()() const {
      of_loop().is_posted_ = false;
      of_loop().step();
    }
    [[nodiscard]] loop& of_loop() const noexcept { return *this->of; }
  };
  struct event_handler : own_handler {
    void operator()(const ::asio::error_code& /*failed*/) const {
      this->of->is_waiting_ = false;
      this->of->step_if_none_is_posted();
    }
  };
  struct time_handler : own_handler {
    deadline at;
    void operator()(const ::asio::error_code& failed) const {
      if (failed) return;  // the timer was set again
      // If the timer was set again when this handler was due already, it still runs.
      if (this->of->timer_at_.when() == at.when()) this->of->timer_at_ = deadline::never();
      this->of->step_if_none_is_posted();
    }
  };

  [[nodiscard]] bool has_operations() const noexcept {
    return !pending_.empty() || !ended_.empty();
  }
  // The memory cache is not thread-safe, and another thread of the context may free a handler.
  // Therefore it is used only with the executor of an io_context, which one thread runs.
  [[nodiscard]] allocator_type allocator() noexcept {
    return allocator_type(native_ ? &memory_ : nullptr);
  }
  [[gnu::noinline]] void post_step() {
    if (is_posted_ || is_shut_down_) return;
    is_posted_ = true;
    step_handler handler{{this->shared_from_this()}};
    if (native_) return static_cast<void>(::asio::post(*native_, std::move(handler)));
    ::asio::post(executor_, std::move(handler));
  }
  void step_if_none_is_posted() {
    if (!is_posted_ && !is_shut_down_ && has_operations()) step();
  }

  /// Polls and calls handlers until nothing completes, at most 16 times, so that other handlers of
  /// the context can run.
  void step() {
    constexpr int most_rounds = 16;
    if (is_shut_down_ || is_stepping_) return;
    stepping now(*this);
    bool has_moved = false;
    bool is_moving = true;
    for (int round = 0; is_moving && round < most_rounds; ++round) {
      is_moving = engine_.poll() != 0 || !ended_.empty();
      if (thrown_) [[unlikely]]
        std::rethrow_exception(std::exchange(thrown_, nullptr));
      finish_ended();
      has_moved = has_moved || is_moving;
    }
    now.end();
    if (!has_operations()) return rest();
    if (has_moved || is_spinning()) {
      if (has_moved) idle_since_ = time_point::max();
      return post_step();
    }
    if (!engine_.arm()) return post_step();
    wait();
  }
  /// Calls the handlers of the operations that have ended before the call, not of those that end
  /// during the call.
  void finish_ended() {
    const list_links* const last = ended_.last();
    while (!ended_.empty()) {
      pending_operation& first = ended_.first();
      operation_list::remove(first);
      const bool is_last = &first == last;
      first.finish();
      if (is_last) return;
    }
  }
  [[nodiscard]] bool is_spinning() noexcept {
    if (spin_.count() == 0) return false;
    const auto now = clock::now();
    idle_since_ = std::min(idle_since_, now);
    return now - idle_since_ < spin_;
  }
  void wait() {
    if (!is_waiting_) {
      is_waiting_ = true;
      descriptor_->async_wait(::asio::posix::stream_descriptor::wait_read,
                              event_handler{{this->shared_from_this()}});
    }
    const deadline next = engine_.next_deadline();
    if (next.when() == timer_at_.when()) return;
    timer_at_ = next;
    timer_->expires_at(next.when());
    if (!next.is_never()) timer_->async_wait(time_handler{{this->shared_from_this()}, next});
  }
  /// Stops waiting, so that io_context::run() returns if there are no operations.
  void rest() {
    ::asio::error_code ignored;
    // NOLINTNEXTLINE(bugprone-unused-return-value)
    if (is_waiting_) descriptor_->cancel(ignored);
    if (timer_at_.is_never()) return;
    timer_at_ = deadline::never();
    timer_->cancel();
  }
  void detach() noexcept {
    // Not closed: the engine owns the descriptor.
    if (descriptor_ && descriptor_->is_open()) descriptor_->release();
    descriptor_.reset();
    timer_.reset();
  }

  /// Marks a step as running. If a handler throws, a later step finishes the other operations.
  class stepping {
   public:
    explicit stepping(loop& of) noexcept : of_(of) { of_.is_stepping_ = true; }
    stepping(const stepping&) = delete;
    stepping& operator=(const stepping&) = delete;
    ~stepping() {
      if (!of_.is_stepping_) return;
      end();
      if (of_.has_operations())
        of_.wake();
      else
        of_.rest();
    }
    void end() const noexcept { of_.is_stepping_ = false; }

   private:
    loop& of_;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): on the stack
  };

  async::engine engine_;
  executor_type executor_;
  std::optional<native_executor_type> native_;  // set if it belongs to an io_context
  operation_memory memory_;
  const std::chrono::nanoseconds spin_;
  const std::error_code success_;
  operation_list pending_;
  operation_list ended_;       // ended outside a poll; handlers not called yet
  std::exception_ptr thrown_;  // thrown by a handler during a poll
  std::optional<::asio::posix::stream_descriptor> descriptor_;
  std::optional<::asio::steady_timer> timer_;
  deadline timer_at_ = deadline::never();
  time_point idle_since_ = time_point::max();
  bool is_posted_ = false;    // a step is posted
  bool is_stepping_ = false;  // a step is running
  bool is_waiting_ = false;   // for the descriptor
  bool is_shut_down_ = false;
};

void engine_service::shutdown() noexcept {
  // Destroying a handler may destroy engines, so each loop is locked before use.
  std::vector<std::weak_ptr<loop>> all;
  {
    const std::scoped_lock locked(mutex_);
    all.swap(loops_);
  }
  for (const auto& each : all)
    if (const auto which = each.lock()) which->shut_down();
}

}  // namespace verbena::inline VERBENA_ABI::asio::detail
