// SPDX-License-Identifier: MIT
// Accepts and connects message channels with Asio completion tokens:
//
//   auto listener = verbena::asio::listen(engine, pd, {.host = "", .port = 7471}).value();
//   auto client = co_await listener.async_accept(asio::use_awaitable);
//
//   auto channel = co_await verbena::asio::async_connect(  // the peer
//       engine, pd, "server:7471", until, asio::use_awaitable);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "verbena/asio/detail/handler_operation.hpp"
#include "verbena/asio/detail/loop.hpp"
#include "verbena/asio/engine.hpp"
#include "verbena/asio/message_channel.hpp"
#include "verbena/async/message_listener.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/cm/listener.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::asio {

namespace detail {

/// Converts the result of an operation from async::message_channel to asio::message_channel.
/// Threads: one thread at a time, the thread of the engine.
template <class Operation>
class connecting_operation : public Operation {
 public:
  using value_type = verbena::result<message_channel>;

  template <class... Arguments>
  explicit connecting_operation(loop& on, Arguments&&... arguments)
      : Operation(std::forward<Arguments>(arguments)...), loop_(&on) {}

 protected:
  [[nodiscard]] value_type take_result() {
    auto made = Operation::take_result();
    if (!made) return std::move(made).error();
    return message_channel(loop_->shared_from_this(), (*std::move(made)).release());
  }

 private:
  loop* loop_;
};

/// Wakes a loop when it is destroyed or replaced, so that the handlers of ended operations are
/// called.
/// Threads: one thread at a time, the thread of the engine.
class loop_waker {
 public:
  explicit loop_waker(std::shared_ptr<loop> of) noexcept : of_(std::move(of)) {}
  loop_waker(loop_waker&& other) noexcept = default;
  loop_waker& operator=(loop_waker&& other) noexcept {
    const loop_waker replaced(std::exchange(of_, std::move(other.of_)));
    return *this;
  }
  loop_waker(const loop_waker&) = delete;
  loop_waker& operator=(const loop_waker&) = delete;
  ~loop_waker() {
    if (of_) of_->wake();
  }
  [[nodiscard]] loop& operator*() const noexcept { return *of_; }
  [[nodiscard]] loop* operator->() const noexcept { return of_.get(); }

 private:
  std::shared_ptr<loop> of_;
};

}  // namespace detail

/// A listening address whose clients become message channels; see async::message_listener.
///
/// The clients connect concurrently in handlers of the engine, while an operation of the engine is
/// pending, for example async_accept(). Clients that are slow, silent or send invalid data do not
/// delay others.
/// Threads: one thread at a time, the thread of the engine.
class [[nodiscard]] message_listener {
 public:
  /// The type of get_executor().
  using executor_type = engine::executor_type;

  /// Accepts clients of `from`, which connect over TCP. Allocates.
  message_listener(engine& on, const protection_domain& pd, bringup::listener&& from,
                   const async::listen_options& options = {})
      : message_listener(detail::loop_of(on), pd, std::move(from), options) {}
  /// Accepts requests of the connection manager. Precondition: `pd` and the engine belong to the
  /// context of the connection manager, for example identifier::context(). Allocates.
  message_listener(engine& on, const protection_domain& pd, cm::listener&& from,
                   const async::listen_options& options = {})
      : message_listener(detail::loop_of(on), pd, std::move(from), options) {}

  /// Takes the listener of another object, which must not be used afterwards.
  message_listener(message_listener&&) noexcept = default;
  /// Closes the current listener and takes the listener of another object.
  message_listener& operator=(message_listener&& other) noexcept {
    of_ = std::move(other.of_);  // before the engine of the current listener
    on_ = std::move(other.on_);
    return *this;
  }
  message_listener(const message_listener&) = delete;
  message_listener& operator=(const message_listener&) = delete;
  ~message_listener() = default;

  /// Waits for the next connected client. Handler:
  /// `void(std::error_code, result<asio::message_channel>)`.
  ///
  /// Operations are served in the order of their calls. Any cancellation type ends an operation
  /// that waits; the listener is unaffected, and the next operation receives the client. An
  /// operation takes its client when its handler is about to be called. The code is
  /// `asio::error::operation_aborted` if the operation was cancelled or the listener was closed or
  /// destroyed, otherwise the code of an error of bringup::listener::accept() or
  /// cm::listener::accept(). After such an error, async_accept() can be called again.
  template <class Token>
  auto async_accept(Token&& token) {
    return async_accept(deadline::never(), std::forward<Token>(token));
  }
  /// Waits for the next connected client. If `until` passes, the code is `asio::error::timed_out`.
  template <class Token>
  auto async_accept(deadline until, Token&& token) {
    using operation = detail::connecting_operation<async::detail::listener_accept>;
    return detail::initiate<operation>(*on_, std::forward<Token>(token), std::ref(*on_),
                                       std::ref(async::detail::state_of(of_)), until);
  }
  /// Stops listening. Closes clients that are not accepted. Pending operations end.
  void close() {
    of_.close();
    on_->wake();
  }

  /// Returns the port on which the listener listens.
  [[nodiscard]] std::uint16_t port() const noexcept { return of_.port(); }
  /// Returns the counters.
  [[nodiscard]] async::message_listener_statistics statistics() const noexcept {
    return of_.statistics();
  }
  /// Returns the executor of the engine.
  [[nodiscard]] executor_type get_executor() const noexcept { return on_->executor(); }

 private:
  friend result<message_listener> listen(engine& on, const protection_domain& pd,
                                         const bringup::address& at,
                                         const async::listen_options& options);
  template <class From>
  message_listener(const std::shared_ptr<detail::loop>& on, const protection_domain& pd,
                   From&& from, const async::listen_options& options)
      : message_listener(
            on, async::message_listener(on->engine(), pd, std::forward<From>(from), options)) {}
  message_listener(const std::shared_ptr<detail::loop>& on, async::message_listener&& of) noexcept
      : on_(on), of_(std::move(of)) {}

  detail::loop_waker on_;  // destroyed after the listener
  async::message_listener of_;
};

/// Listens at `at` over TCP, or on iWARP with the connection manager. Blocking and errors: see
/// async::listen().
[[nodiscard]] inline result<message_listener> listen(engine& on, const protection_domain& pd,
                                                     const bringup::address& at,
                                                     const async::listen_options& options = {}) {
  const auto& loop = detail::loop_of(on);
  VERBENA_TRY(auto made, async::listen(loop->engine(), pd, at, options));
  return message_listener(loop, std::move(made));
}

namespace detail {
template <class Token>
// lint: allow(parameters): those of async_connect()
auto connect(const engine& on, const protection_domain& pd, result<bringup::address> to,
             deadline until, const async::connect_options& options, Token&& token) {
  using operation = connecting_operation<async::detail::connect_operation>;
  loop& of = *loop_of(on);
  return initiate<operation>(of, std::forward<Token>(token), std::ref(of), std::ref(of.state()), pd,
                             std::move(to), until, options);
}
}  // namespace detail

/// Connects to a message listener or message_channel::listen_once(), over TCP or on iWARP with the
/// connection manager. Handler: `void(std::error_code, result<asio::message_channel>)`.
///
/// Any cancellation type abandons the attempt and releases its name resolution, socket and channel.
/// The code is then `asio::error::operation_aborted`. Other codes and errors: see
/// engine::async_complete() and async::connect().
template <class Token>
// lint: allow(parameters): those of async::connect(), and the token
auto async_connect(engine& on, const protection_domain& pd, const bringup::address& to,
                   deadline until, const async::connect_options& options, Token&& token) {
  return detail::connect(on, pd, to, until, options, std::forward<Token>(token));
}
/// Connects to an address with the default options.
template <class Token>
auto async_connect(engine& on, const protection_domain& pd, const bringup::address& to,
                   deadline until, Token&& token) {
  return detail::connect(on, pd, to, until, {}, std::forward<Token>(token));
}
/// Connects to text such as `server:7471`; the default port is 7471.
template <class Token>
// lint: allow(parameters): those of async::connect(), and the token
auto async_connect(engine& on, const protection_domain& pd, std::string_view to, deadline until,
                   const async::connect_options& options, Token&& token) {
  return detail::connect(on, pd, async::detail::parse_peer(to), until, options,
                         std::forward<Token>(token));
}
/// Connects to text such as `server:7471` with the default options.
template <class Token>
auto async_connect(engine& on, const protection_domain& pd, std::string_view to, deadline until,
                   Token&& token) {
  return detail::connect(on, pd, async::detail::parse_peer(to), until, {},
                         std::forward<Token>(token));
}

}  // namespace verbena::inline VERBENA_ABI::asio
