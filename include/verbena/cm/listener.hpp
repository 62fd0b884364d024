// SPDX-License-Identifier: MIT
// Waiting for connections:
//
//   auto door = cm::listener::open({.host = "", .port = 7471}).value();
//   auto request = door.accept(deadline::never()).value();
//   auto pd = request.context().value().allocate_pd().value();
//   ...
//   auto queue = request.create_queue_pair(pd, cq, cq).value();
//   auto link = std::move(request).accept(std::move(queue), {}, deadline::after(5s)).value();
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/cm/connection.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// How to listen. Threads: immutable value.
struct listener_options {
  int backlog = 128;           ///< requests that wait to be looked at; more are refused
  bool reuse_address = false;  ///< see identifier::allow_address_reuse()
  bool ipv6_only = false;      ///< see identifier::limit_to_address_family()
  /// See identifier::set_type_of_service().
  std::optional<std::uint8_t> type_of_service = {};
  /// `tcp`, or `ib` for connectors in that space.
  port_space space = port_space::tcp;
  /// Whose connection manager; not given: see event_channel::create().
  const verbena::provider* provider = nullptr;
};

/// A peer that asks for a connection. The device that it came by is known, so that memory and
/// receives can be prepared before the answer. Dropping it rejects the request. It has a channel of
/// its own: several are set up at once, also on several threads. Threads: one thread at a time.
class [[nodiscard]] connection_request : public detail::bound {
 public:
  /// Takes over the request of the other, which must not be used afterwards.
  connection_request(connection_request&&) noexcept = default;
  /// Rejects its own request and takes over the other's.
  connection_request& operator=(connection_request&& other) noexcept;
  ~connection_request();

  /// What the peer said, filled up with zeros by the transport.
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept { return said_; }
  /// What the peer asked for, seen from this side.
  [[nodiscard]] const connection_parameters& parameters() const noexcept { return asked_; }

  /// Grants the request with `prepared`, brought up with its options as connector::connect() says.
  /// Blocks until the peer is connected too, at the longest until `until`. `post_receives` is
  /// called before the peer is answered; without it, the peer's RNR retries cover the time until
  /// receives are posted, and iWARP has none.
  ///
  /// Errors: as connector::connect(). The request is then answered or rejected, and the queue pair
  /// destroyed.
  [[nodiscard]] result<connection> accept(prepared_queue_pair<rc>&& prepared,
                                          const connection_options& options, deadline until,
                                          const receive_poster& post_receives = {}) &&;
  /// Refuses the request with up to 148 bytes for the peer's program. Errors: `invalid_argument`
  /// for more of them; those of rdma_reject(3).
  [[nodiscard]] result<void> reject(std::span<const std::byte> private_data = {}) &&;

 private:
  friend class listener;
  connection_request(event_channel channel, identifier id, const connection_parameters& asked,
                     std::vector<std::byte> said) noexcept
      : bound(std::move(channel), std::move(id)), asked_(asked), said_(std::move(said)) {}
  void drop() noexcept;

  connection_parameters asked_;
  std::vector<std::byte> said_;
  bool open_ = true;  // not answered yet
};

/// A port where peers can ask for connections. Threads: one thread at a time.
class listener {
 public:
  /// Listens at `at`: an empty host means all IPv4 addresses of all devices, `::` all IPv6 ones and
  /// but on iWARP those of IPv4; port 0 any free port.
  /// Errors: `invalid_argument` for a port space of datagrams; those of identifier::bind() and of
  /// event_channel::create().
  [[nodiscard]] static result<listener> open(const bringup::address& at,
                                             const listener_options& options = {});

  /// The next peer that asks. Blocks until `until`; `deadline::after(0ns)` only looks.
  /// Errors: `timed_out`; those of event_channel::wait_event(); ENODEV when the device is gone.
  [[nodiscard]] result<connection_request> accept(deadline until);

  /// The address that it listens at.
  [[nodiscard]] std::optional<socket_address> local_address() const { return id_.local_address(); }
  /// The port that it listens at, also when any free one was asked for.
  [[nodiscard]] std::uint16_t port() const;
  /// Readable, for poll(2), when accept() has something to look at.
  [[nodiscard]] int fd() const { return channel_.fd(); }
  /// The identifier, for what this class does not offer.
  [[nodiscard]] identifier& id() noexcept { return id_; }

 private:
  listener(event_channel channel, identifier id) noexcept
      : channel_(std::move(channel)), id_(std::move(id)) {}

  event_channel channel_;
  identifier id_;
};

}  // namespace verbena::inline VERBENA_ABI::cm
