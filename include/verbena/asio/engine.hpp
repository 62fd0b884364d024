// SPDX-License-Identifier: MIT
// Channels in an execution context of Asio.
#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/execution_context.hpp>

#include <memory>
#include <type_traits>
#include <utility>

#include "verbena/asio/detail/loop.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/base/error.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::asio {

/// An async::engine whose loop runs in an io_context of Asio.
///
///   asio::io_context io;
///   auto engine = verbena::asio::engine::create(context, io).value();
///   verbena::asio::message_channel channel(engine, std::move(connected));
///   channel.async_receive([](std::error_code code, verbena::receive_result message) { … });
///   io.run();
///
/// Channels of the engine are created on hub(). While operations are pending, io_context::run()
/// does not return, and handlers of the engine poll or wait for its events; the io_context is not
/// blocked. If no operation is pending, the engine does nothing, and message channels grant no
/// credits to their peers. If nothing completes for engine_options::spin, the engine waits for the
/// next event; until then its handlers poll each time they run.
///
/// If the io_context is destroyed, the pending operations and their handlers are destroyed, and no
/// handler is called. The device no longer accesses the memory of an operation when its handler is
/// destroyed: connections with posted operations end. Engines and channels may be destroyed later.
///
/// Threads: one thread at a time, that of the executor: its io_context is run by one thread, or it
/// is a strand. The functions of channels are called on this executor, or while it does not run.
class engine {
 public:
  /// The type of get_executor().
  using executor_type = ::asio::any_io_executor;

  /// Creates an engine on an executor of an io_context, or on a strand.
  ///
  /// Errors: those of async::engine::create(), and the errno of epoll_ctl(2). Allocates.
  [[nodiscard]] static result<engine> create(const context& of, const executor_type& on,
                                             const async::engine_options& options = {}) {
    VERBENA_TRY(auto created, async::engine::create(of, options));
    VERBENA_TRY(auto loop, detail::loop::create(std::move(created), on, options.spin));
    return engine(std::move(loop));
  }
  /// Creates an engine on the executor of `on`, which one thread runs.
  template <class ExecutionContext>
    requires std::is_convertible_v<ExecutionContext&, ::asio::execution_context&>
  [[nodiscard]] static result<engine> create(const context& of, ExecutionContext& on,
                                             const async::engine_options& options = {}) {
    return create(of, executor_type(on.get_executor()), options);
  }

  /// Returns the hub on which the channels of the engine are created.
  [[nodiscard]] const completion_hub& hub() const noexcept { return loop_->engine().hub(); }
  /// Returns the executor; an empty one after its context was destroyed.
  [[nodiscard]] executor_type get_executor() const noexcept { return loop_->executor(); }
  /// Returns the first failure of the completion queue or channel; nullptr without one.
  [[nodiscard]] const error* failure() const noexcept { return loop_->engine().failure(); }

 private:
  friend class channel;
  friend class message_channel;
  explicit engine(std::shared_ptr<detail::loop> loop) noexcept : loop_(std::move(loop)) {}

  std::shared_ptr<detail::loop> loop_;  // shared with the channels
};

}  // namespace verbena::inline VERBENA_ABI::asio
