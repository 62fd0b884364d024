// SPDX-License-Identifier: MIT
// Misconfigurations: bytes from peers, and the exchange of endpoints by TCP.
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <thread>

#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/loopback_listener.hpp"
#include "tests/unit/verbs/misconfigurations/produce.hpp"
#include "verbena/verbs/endpoint.hpp"

namespace verbena::misconfigurations {
namespace {

// An endpoint with one byte of its wire format changed.
error damaged(std::size_t at, unsigned char byte) {
  auto bytes = endpoint{.queue_pair = queue_pair_number(17)}.encode();
  bytes.at(at) = static_cast<std::byte>(byte);
  return error_of(endpoint::decode(bytes));
}

std::uint16_t free_port() { return peers::listen().port(); }

error connecting(const bringup::address& to) {
  return error_of(bringup::stream::connect(to, peers::soon()));
}

}  // namespace

error endpoint_truncated() {
  const auto bytes = endpoint().encode();
  return error_of(endpoint::decode(std::span(bytes).first(15)));
}
error endpoint_of_newer_version() { return damaged(0, 9); }
error endpoint_with_bad_mtu() { return damaged(2, 77); }
error endpoint_with_bad_number() { return damaged(4, 0xff); }

error no_listener() { return connecting({.host = "127.0.0.1", .port = free_port()}); }
error address_in_use() {
  const auto first = peers::listen();
  return error_of(bringup::listener::open({.host = "127.0.0.1", .port = first.port()}));
}
error address_of_another_host() {
  return error_of(bringup::listener::open({.host = "192.0.2.1", .port = 0}));
}
error address_without_port() { return connecting({.host = "127.0.0.1", .port = 0}); }
error peer_with_another_protocol() {
  const test::loopback_listener server;
  std::optional<error> failed;
  std::thread client([&] { failed = connecting({.host = "127.0.0.1", .port = server.port}); });
  const unique_fd accepted(::accept4(server.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  peers::send_bytes(accepted, std::as_bytes(std::span("220 ftp.example.org ready\r\n")));
  client.join();
  return *std::move(failed);
}

}  // namespace verbena::misconfigurations
