// SPDX-License-Identifier: MIT
// Runs the engine of channels in an Asio execution context.
#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/execution_context.hpp>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "verbena/asio/detail/handler_operation.hpp"
#include "verbena/asio/detail/loop.hpp"
#include "verbena/async/detail/descriptor_wait.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/base/error.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::asio {

class engine;

namespace detail {
[[nodiscard]] const std::shared_ptr<loop>& loop_of(const engine& of) noexcept;
}  // namespace detail

/// An async::engine whose loop runs in an Asio io_context.
///
///   asio::io_context io;
///   auto engine = verbena::asio::engine::create(context, io).value();
///   verbena::asio::message_channel channel(engine, std::move(connected));
///   channel.async_receive([](std::error_code code, verbena::receive_result message) { … });
///   io.run();
///
/// Channels of the engine are created on hub(). While operations are pending, io_context::run()
/// does not return, and handlers of the engine poll or wait for events; they do not block the
/// io_context. If no operation is pending, the engine does not poll, and message channels do not
/// grant credits to their peers. If nothing completes for engine_options::spin, the engine waits
/// for the next event; until then, its handlers poll each time they run.
///
/// If the io_context is destroyed, pending operations and their handlers are destroyed without
/// calling the handlers. Before a handler is destroyed, the connection of its posted operation
/// ends, and the device no longer accesses the memory. Engines and channels may be destroyed later.
///
/// Threads: one thread at a time, the thread of the executor. Either one thread runs the
/// io_context, or the executor is a strand. The functions of channels are called on this executor,
/// or while it does not run.
class engine {
 public:
  /// The type of get_executor().
  using executor_type = ::asio::any_io_executor;

  /// Creates an engine on an executor of an io_context, or on a strand.
  ///
  /// Errors: those of async::engine::create() and epoll_ctl(2). Allocates.
  [[nodiscard]] static result<engine> create(const context& of, const executor_type& on,
                                             const async::engine_options& options = {}) {
    VERBENA_TRY(auto created, async::engine::create(of, options));
    VERBENA_TRY(auto loop, detail::loop::create(std::move(created), on, options.spin));
    return engine(std::move(loop));
  }
  /// Creates an engine on the executor of `on`. Only one thread may run `on`.
  template <class ExecutionContext>
    requires std::is_convertible_v<ExecutionContext&, ::asio::execution_context&>
  [[nodiscard]] static result<engine> create(const context& of, ExecutionContext& on,
                                             const async::engine_options& options = {}) {
    return create(of, executor_type(on.get_executor()), options);
  }

  /// Returns the hub on which the channels of the engine are created.
  [[nodiscard]] const completion_hub& hub() const noexcept { return loop_->engine().hub(); }
  /// Performs an operation that consists of steps. Handler: `void(std::error_code, result<T>)`.
  ///
  ///   engine.async_complete(cm::connector::resolve_in_steps(address, until),
  ///                         [](std::error_code code, result<cm::connector> peer) { … });
  ///
  /// Any cancellation type destroys the steps, which abandons a connection attempt and releases its
  /// objects. The code is that of the error: ETIMEDOUT if its deadline passed, ECANCELED
  /// (`asio::error::operation_aborted`) after a cancellation. If a function of the program that a
  /// step calls throws, the handler is destroyed, and the exception propagates from
  /// io_context::run().
  template <class T, class Token>
  auto async_complete(steps<T>&& of, Token&& token) const {
    return detail::initiate<async::detail::steps_operation<T>>(
        *loop_, std::forward<Token>(token), std::ref(loop_->state()), std::move(of));
  }

  /// Returns the executor, or an empty executor after the context was destroyed.
  [[nodiscard]] executor_type get_executor() const noexcept { return loop_->executor(); }
  /// Returns the first failure of the completion queue or completion channel, or nullptr.
  [[nodiscard]] const error* failure() const noexcept { return loop_->engine().failure(); }

 private:
  friend const std::shared_ptr<detail::loop>& detail::loop_of(const engine& of) noexcept;
  explicit engine(std::shared_ptr<detail::loop> loop) noexcept : loop_(std::move(loop)) {}

  std::shared_ptr<detail::loop> loop_;  // shared with the channels
};

namespace detail {
inline const std::shared_ptr<loop>& loop_of(const engine& of) noexcept { return of.loop_; }
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::asio
