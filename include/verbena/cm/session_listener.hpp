// SPDX-License-Identifier: MIT
// The passive side of a session:
//
//   auto listener = cm::session_listener::open({.host = "", .port = 7471}).value();
//   auto request = listener.next_request({}, deadline::never()).value();
//   auto inbox = request.create_buffer(4096).value();
//   request.receive({.id = 1}, inbox.slice()).value();
//   auto session = std::move(request).accept({}, deadline::after(5s)).value();
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

/// A session request of a peer. Before it accepts, the program can read the private data, create
/// buffers and post receives for the peer's first messages. Destroying it rejects the request.
/// Threads: one thread at a time; several requests on several threads.
class [[nodiscard]] session_request : public session_base {
 public:
  /// Returns the private data of the request, padded with zeros by the transport.
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept {
    return request_.private_data();
  }
  /// Returns the parameters of the request, in this side's view.
  [[nodiscard]] const connection_parameters& parameters() const noexcept {
    return request_.parameters();
  }
  /// Returns the peer's address.
  [[nodiscard]] std::optional<socket_address> peer_address() const;

  /// Accepts the request, with at most 196 bytes of private data. Blocks until the connection is
  /// established, at most until `until`. On iWARP it also waits for the first message of the peer's
  /// session, after which this side may send.
  /// Errors: those of connection_request::accept().
  [[nodiscard]] result<session> accept(std::span<const std::byte> private_data, deadline until) &&;
  /// Rejects the request, with at most 148 bytes of private data. Errors: those of
  /// connection_request::reject().
  [[nodiscard]] result<void> reject(std::span<const std::byte> private_data = {}) &&;

 private:
  friend class session_listener;
  session_request(detail::session_core_owner core, connection_request request) noexcept;

  connection_request request_;
};

/// A listening address for sessions. Threads: one thread at a time.
class session_listener {
 public:
  /// Listens at `at`; listener_options::backlog limits the pending requests.
  /// Errors: those of listener::open().
  [[nodiscard]] static result<session_listener> open(const bringup::address& at,
                                                     const listener_options& options = {});

  /// Waits for the next request, and creates its queues with `options`. Blocks until `until`.
  /// Errors: those of listener::accept(); `invalid_argument` for a protection domain of another
  /// device than that of the request; those of creating the queues. The request is then rejected.
  [[nodiscard]] result<session_request> next_request(const session_options& options,
                                                     deadline until);

  /// Returns the port of the listener, even if open() was called with port 0.
  [[nodiscard]] std::uint16_t port() const { return listener_.port(); }
  /// Returns a descriptor for poll(2), readable if next_request() has events to process.
  [[nodiscard]] int fd() const { return listener_.fd(); }

 private:
  explicit session_listener(listener door) noexcept : listener_(std::move(door)) {}

  listener listener_;
};

}  // namespace verbena::inline VERBENA_ABI::cm
