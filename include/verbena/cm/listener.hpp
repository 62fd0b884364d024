// SPDX-License-Identifier: MIT
// The passive side of a connection:
//
//   auto listener = cm::listener::open({.host = "", .port = 7471}).value();
//   auto request = listener.accept(deadline::never()).value();
//   auto pd = request.context().value().allocate_pd().value();
//   ...
//   auto queue = request.create_qp(pd, cq, cq).value();
//   auto link = std::move(request).accept(std::move(queue), {}, deadline::after(5s)).value();
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/cm/connection.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// Options of listener::open(). Threads: immutable value.
struct listener_options {
  int backlog = 128;           ///< pending requests; more are rejected
  bool reuse_address = false;  ///< see identifier::allow_address_reuse()
  bool ipv6_only = false;      ///< see identifier::limit_to_address_family()
  /// See identifier::set_type_of_service().
  std::optional<std::uint8_t> type_of_service = {};
  /// `tcp`, or `ib` for connectors in that space.
  port_space space = port_space::tcp;
  /// The provider of the connection manager. `nullptr`: see event_channel::create().
  const verbena::provider* provider = nullptr;
};

/// A connection request of a peer. The device is known, so the program can prepare memory and
/// receives before it accepts. Destroying it rejects the request. Each request has its own event
/// channel, so several can be accepted at the same time on several threads. Threads: one thread at
/// a time.
class [[nodiscard]] connection_request : public pending_connection {
 public:
  /// Moves the request; the other object must not be used afterwards.
  connection_request(connection_request&&) noexcept;
  /// Rejects this request and moves the other one.
  connection_request& operator=(connection_request&& other) noexcept;
  ~connection_request();

  /// Returns the private data of the request, padded with zeros by the transport.
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept { return said_; }
  /// Returns the parameters of the request, in this side's view.
  [[nodiscard]] const connection_parameters& parameters() const noexcept { return requested_; }

  /// Accepts the request with `prepared`, whose options apply as in connector::connect(). Blocks
  /// until the connection is established, at most until `until`. `post_receives` is called before
  /// the reply. Without it, the peer's RNR retries cover the time until receives are posted; iWARP
  /// has no RNR retries.
  ///
  /// Errors: those of connector::connect(). The request is then rejected, and the queue pair
  /// destroyed.
  [[nodiscard]] result<connection> accept(prepared_queue_pair<rc>&& prepared,
                                          const connection_options& options, deadline until,
                                          receive_poster post_receives = {}) &&;
  /// Accepts in steps that do not block. The private data is copied, and the steps own the request.
  /// If they are destroyed before the end, the connection and the queue pair are destroyed.
  [[nodiscard]] steps<connection> accept_in_steps(prepared_queue_pair<rc> prepared,
                                                  const connection_options& options, deadline until,
                                                  kept_receive_poster post_receives = {}) &&;
  /// Rejects the request with up to 148 bytes of private data. Errors: `invalid_argument` for more
  /// bytes; those of rdma_reject(3).
  [[nodiscard]] result<void> reject(std::span<const std::byte> private_data = {}) &&;

 private:
  friend class listener;
  connection_request(event_channel channel, identifier id, const connection_parameters& requested,
                     std::vector<std::byte> said) noexcept;
  [[nodiscard]] static steps<connection> accept(connection_request self,
                                                prepared_queue_pair<rc> prepared,
                                                connection_options options, deadline until,
                                                kept_receive_poster post_receives);
  void drop() noexcept;

  connection_parameters requested_;
  std::vector<std::byte> said_;
  bool open_ = true;  // neither accepted nor rejected
};

/// A listening address of the connection manager. Threads: one thread at a time.
class listener {
 public:
  /// Listens at `at`. An empty host means all IPv4 addresses of all devices; `::` means all IPv6
  /// addresses and, except on iWARP, all IPv4 addresses. Port 0 means any free port. Blocks while a
  /// host name is resolved, without a time limit of its own; an IP address is not resolved.
  /// Errors: `invalid_argument` for a port space of datagrams; those of identifier::bind() and of
  /// event_channel::create().
  [[nodiscard]] static result<listener> open(const bringup::address& at,
                                             const listener_options& options = {});

  /// Waits for the next request. Blocks until `until`; `deadline::after(0ns)` does not block.
  /// Errors: `timed_out`; those of event_channel::wait_event(); ENODEV if the device was removed.
  [[nodiscard]] result<connection_request> accept(deadline until);
  /// Waits for the next request in steps that do not block. The listener must outlive the steps.
  [[nodiscard]] steps<connection_request> accept_in_steps(deadline until);

  /// Returns the address of the listener.
  [[nodiscard]] std::optional<socket_address> local_address() const;
  /// Returns the port of the listener, even if open() was called with port 0.
  [[nodiscard]] std::uint16_t port() const;
  /// Returns a descriptor for poll(2), readable if accept() has events to process.
  [[nodiscard]] int fd() const { return channel_.fd(); }
  /// Returns the identifier, for calls that this class does not offer.
  [[nodiscard]] identifier& id() noexcept { return id_; }

 private:
  listener(event_channel channel, identifier id);
  // Returns the request of an event, or nullopt if it has none.
  [[nodiscard]] result<std::optional<connection_request>> request_of(event& taken) const;
  [[nodiscard]] error timed_out() const;

  event_channel channel_;
  identifier id_;
  shared_text name_;  // for errors
};

}  // namespace verbena::inline VERBENA_ABI::cm
