// SPDX-License-Identifier: MIT
// Accepts and connects message channels:
//
//   auto listener = async::listen(engine, pd, {.host = "", .port = 7471}).value();
//   async::scope clients;
//   while (auto client = co_await listener.accept()) clients.spawn(serve(std::move(*client)));
//
//   auto channel = co_await async::connect(engine, pd, "server:7471", until);  // the peer
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "verbena/async/detail/descriptor_wait.hpp"
#include "verbena/async/detail/listener_accept.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/async/message_channel.hpp"
#include "verbena/async/operation.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/channel/message_channel_options.hpp"
#include "verbena/cm/listener.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::async {

/// Options of listen(). Threads: immutable value.
struct listen_options {
  message_channel_options channels = {};  ///< options of each channel
  /// The time limit for the negotiation after the greeting or request of a client. If it passes,
  /// the client is disconnected.
  std::chrono::nanoseconds negotiation_timeout = std::chrono::seconds(10);
  /// The maximum number of clients that are negotiating or wait for accept(). Further clients wait
  /// in the backlog.
  std::size_t max_pending = 1024;
};

/// Options of connect(). Threads: immutable value.
struct connect_options {
  message_channel_options channel = {};  ///< options of the channel
  /// See bringup::connect_options::retry_refused.
  std::chrono::nanoseconds retry_refused = std::chrono::nanoseconds(0);
};

/// Counters of a message_listener. Threads: immutable value.
struct message_listener_statistics {
  std::uint64_t accepted = 0;  ///< clients that accept() has returned
  std::uint64_t failed = 0;    ///< clients whose negotiation failed or timed out
};

class message_listener;

namespace detail {
void destroy(listener_state& state) noexcept;
[[nodiscard]] listener_state& state_of(const message_listener& of);
}  // namespace detail

/// A listening address whose clients become message channels. The clients connect concurrently on
/// the thread of the engine. Clients that are slow, silent or send invalid data do not delay
/// others; they are disconnected and logged (level info). On RoCE, connecting a queue pair may
/// block the thread in the kernel while the address of the peer is resolved.
///
/// Each channel reserves operations of the engine when its negotiation begins; see
/// engine_options::operations. If there are not enough, the client is rejected with this reason.
/// Threads: one thread at a time, the thread of the engine.
class [[nodiscard]] message_listener {
 public:
  /// Accepts clients of `from`, which connect over TCP with prepared_message_channel::connect() or
  /// async::connect(). Allocates.
  message_listener(engine& on, const protection_domain& pd, bringup::listener&& from,
                   const listen_options& options = {});
  /// Accepts requests of the connection manager. Precondition: `pd` and the engine belong to the
  /// context of the connection manager, for example identifier::context(). Allocates.
  message_listener(engine& on, const protection_domain& pd, cm::listener&& from,
                   const listen_options& options = {});
  /// Takes the listener of `other`, which must not be used afterwards.
  message_listener(message_listener&& other) noexcept = default;
  /// Closes the current listener and takes the listener of `other`, which must not be used
  /// afterwards.
  message_listener& operator=(message_listener&& other) noexcept = default;

  /// Waits for the next connected client. The value is a `result<async::message_channel>`. Several
  /// coroutines may wait; they are served in the order in which their operations were started. If
  /// an operation is stopped or destroyed before it ends, the next operation returns its client.
  ///
  /// Errors: `timed_out`; ECANCELED if the listener was closed or destroyed; those of
  /// bringup::listener::accept() and cm::listener::accept(), after which accept() can be called
  /// again.
  [[nodiscard]] auto accept(deadline until = deadline::never()) {
    return operation<detail::listener_accept>(state(), until);
  }
  /// Stops listening. Disconnects clients that are not accepted. Pending accept() operations end
  /// with ECANCELED.
  void close() noexcept;

  /// Returns the port on which the listener listens, or 0 after close().
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// Returns the counters.
  [[nodiscard]] message_listener_statistics statistics() const noexcept;

 private:
  friend detail::listener_state& detail::state_of(const message_listener& of);
  [[nodiscard]] detail::listener_state& state() const;

  verbena::detail::sole_owner<detail::listener_state> state_;
};

/// Listens at `at` over TCP, or on iWARP with the connection manager. Blocks while a host name is
/// resolved. Allocates. Errors: those of bringup::listener::open() and cm::listener::open().
[[nodiscard]] result<message_listener> listen(engine& on, const protection_domain& pd,
                                              const bringup::address& at,
                                              const listen_options& options = {});

namespace detail {
inline listener_state& state_of(const message_listener& of) { return of.state(); }

/// See async::connect(). Threads: one thread at a time, the thread of the engine.
class connect_operation : public steps_operation<message_channel> {
 public:
  // lint: allow(parameters): those of async::connect()
  connect_operation(engine_state& on, const protection_domain& pd,
                    verbena::result<bringup::address>&& to, deadline until,
                    const connect_options& options)
      : steps_operation(on), pd_(pd), to_(std::move(to)), options_(options), until_(until) {}

 protected:
  [[nodiscard]] bool start(ended_function then) noexcept;

 private:
  protection_domain pd_;
  verbena::result<bringup::address> to_;
  connect_options options_;
  deadline until_;
};
[[nodiscard]] inline result<bringup::address> parse_peer(std::string_view text) {
  constexpr std::uint16_t default_port = 7471;
  return bringup::parse_address(text, default_port);
}
}  // namespace detail

/// Connects to a message_listener or message_channel::listen_once(), over TCP or on iWARP with the
/// connection manager. The value of `co_await` is a `result<async::message_channel>`. Destroying
/// the coroutine while it waits abandons the attempt. As for message_listener, connecting a queue
/// pair may block the thread on RoCE.
///
/// Errors: those of bringup::stream::connect() or cm::connector::resolve(), of
/// message_channel::prepare() and of prepared_message_channel::connect().
[[nodiscard]] inline auto connect(engine& on, const protection_domain& pd,
                                  const bringup::address& to, deadline until,
                                  const connect_options& options = {}) {
  return operation<detail::connect_operation>(detail::state_of(on), pd, to, until, options);
}
/// Connects to an address in the form `server:7471`; the default port is 7471. Errors: also
/// `invalid_argument` if the text is not an address.
[[nodiscard]] inline auto connect(engine& on, const protection_domain& pd, std::string_view to,
                                  deadline until, const connect_options& options = {}) {
  return operation<detail::connect_operation>(detail::state_of(on), pd, detail::parse_peer(to),
                                              until, options);
}

}  // namespace verbena::inline VERBENA_ABI::async
