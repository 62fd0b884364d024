// SPDX-License-Identifier: MIT
// The thread of the passive sides of connections over rails, with the peers that it serves.
#pragma once

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "src/net/rail_message.hpp"
#include "src/net/responder_thread.hpp"
#include "src/net/served_rails.hpp"
#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/net/rails.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/bringup/frame.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/multi_rail_channel.hpp"
#include "verbena/net/rail_responder.hpp"

namespace verbena::test {

class served_peers {
 public:
  /// `own` must outlive the object.
  explicit served_peers(const two_rails& own)
      : own_(own),
        thread_({.rails = own.ports,
                 .wake = unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
                 .events = nullptr,
                 .ends_with_peers = false}) {
    thread_.start().value();
  }

  /// Connects another peer.
  [[nodiscard]] result<net::multi_rail_channel> connect(const two_rails& from, deadline until) {
    auto both = peers::connected();
    std::thread passive([&] { serve(std::move(both.second)); });
    auto made = net::multi_rail_channel::connect(std::move(both.first), from.ports, until, quick());
    passive.join();
    return made;
  }
  /// Adds a peer that has sent the first bytes of a message. Returns its socket.
  [[nodiscard]] unique_fd add_slow_peer() {
    auto [accepted, socket] = peers::accepted_raw();
    const auto hello = net::detail::hello_of(net::detail::rail_role::active, 2);
    peers::send_bytes(socket, bringup::encode_frame(bringup::frame_type::blob, hello));
    peers::send_bytes(socket, std::span(fence()).first(first_bytes));
    serve(std::move(accepted));
    return std::move(socket);
  }
  /// Sends the rest of the message.
  static void complete(const unique_fd& slow_peer) {
    // Fails if the connection has ended.
    const auto rest = std::span(fence()).subspan(first_bytes);
    static_cast<void>(::send(slow_peer.get(), rest.data(), rest.size(), MSG_NOSIGNAL));
  }

 private:
  static constexpr std::size_t first_bytes = 9;

  static const std::vector<std::byte>& fence() {
    static const auto frame =
        bringup::encode_frame(bringup::frame_type::blob, encode(net::detail::rail_message{}));
    return frame;
  }
  void serve(bringup::stream control) {
    const auto count = static_cast<std::uint32_t>(own_.ports.size());
    net::detail::exchange_hellos("served_peers", control, net::detail::rail_role::passive, count,
                                 test_deadline())
        .value();
    thread_.add(std::make_unique<net::detail::served_rails>(
        net::detail::rail_control(std::move(control), count), own_.ports,
        net::rail_responder_options()));
  }

  const two_rails& own_;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): not moved
  net::detail::responder_thread thread_;
};

}  // namespace verbena::test
