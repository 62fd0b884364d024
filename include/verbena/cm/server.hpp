// SPDX-License-Identifier: MIT
// Waiting for sessions:
//
//   auto server = cm::server::open({.host = "", .port = 7471}).value();
//   auto client = server.next_client({}, deadline::never()).value();
//   auto inbox = client.create_buffer(4096).value();
//   client.receive({.id = 1}, inbox.slice()).value();
//   auto session = std::move(client).accept({}, deadline::after(5s)).value();
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/cm/listener.hpp"
#include "verbena/cm/session.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// A peer that asks for a session. Before it is answered, what it said can be looked at, buffers
/// can be made and receives posted, so that its first message finds them. Dropping it rejects the
/// request. Threads: one thread at a time; different clients on different threads.
class [[nodiscard]] client : public detail::session_side {
 public:
  /// What the peer said, filled up with zeros by the transport.
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept {
    return request_.private_data();
  }
  /// What the peer asked for, seen from this side.
  [[nodiscard]] const connection_parameters& parameters() const noexcept {
    return request_.parameters();
  }
  /// The address of the peer.
  [[nodiscard]] std::optional<socket_address> peer_address() const {
    return request_.peer_address();
  }

  /// Grants the request, with at most 196 bytes for the peer's program. Blocks until the peer is
  /// connected too, at the longest until `until`; on iWARP until the session at the other end has
  /// said its first message, so that this one may speak first.
  /// Errors: those of connection_request::accept().
  [[nodiscard]] result<session> accept(std::span<const std::byte> private_data, deadline until) &&;
  /// Refuses the request, with at most 148 bytes for the peer's program. Errors: those of
  /// connection_request::reject().
  [[nodiscard]] result<void> reject(std::span<const std::byte> private_data = {}) &&;

 private:
  friend class server;
  client(std::unique_ptr<detail::session_core> core, connection_request request) noexcept;

  connection_request request_;
};

/// A port where peers can ask for sessions. Threads: one thread at a time.
class server {
 public:
  /// Listens at `at`; listener_options::backlog is how many may wait to be looked at.
  /// Errors: those of listener::open().
  [[nodiscard]] static result<server> open(const bringup::address& at,
                                           const listener_options& options = {});

  /// The next peer that asks, with queues as `options` say. Blocks until `until`.
  /// Errors: those of listener::accept(); `invalid_argument` for a protection domain of another
  /// device than the peer came by; those of making the queues. The peer is then rejected.
  [[nodiscard]] result<client> next_client(const session_options& options, deadline until);

  /// The port that it listens at, also when any free one was asked for.
  [[nodiscard]] std::uint16_t port() const { return listener_.port(); }
  /// Readable, for poll(2), when next_client() has something to look at.
  [[nodiscard]] int fd() const { return listener_.fd(); }

 private:
  explicit server(listener door) noexcept : listener_(std::move(door)) {}

  listener listener_;
};

}  // namespace verbena::inline VERBENA_ABI::cm
