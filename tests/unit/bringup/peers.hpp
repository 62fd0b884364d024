// SPDX-License-Identifier: MIT
// Peers for the tests: a listener on loopback, raw sockets, and pairs of connected streams.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "verbena/base/bytes.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"

namespace peers {

using namespace std::chrono_literals;
using verbena::deadline;
namespace bringup = verbena::bringup;

/// The time limit of each wait. Only failing tests reach it.
inline deadline soon() { return deadline::after(30s); }

inline bringup::listener listen(bringup::listener_options options = {}) {
  return bringup::listener::open({.host = "127.0.0.1", .port = 0}, options).value();
}

/// Returns a blocking socket that is connected to `port` of this host.
inline verbena::unique_fd raw_connection(std::uint16_t port) {
  verbena::unique_fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = verbena::network_order(port);
  to.sin_addr.s_addr = verbena::network_order(std::uint32_t{INADDR_LOOPBACK});
  const void* address = &to;
  if (::connect(socket.get(), static_cast<const sockaddr*>(address), sizeof to) != 0) std::abort();
  return socket;
}

inline void send_bytes(const verbena::unique_fd& socket, std::span<const std::byte> bytes) {
  const auto sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(bytes.size())) std::abort();
}

/// Reads until the peer closes the connection.
inline std::vector<std::byte> read_until_closed(const verbena::unique_fd& socket) {
  std::vector<std::byte> heard;
  std::array<std::byte, 256> piece;
  while (true) {
    const auto got = ::recv(socket.get(), piece.data(), piece.size(), 0);
    if (got <= 0) return heard;
    heard.insert(heard.end(), piece.begin(), piece.begin() + got);
  }
}

/// Returns both sides of one connection, the passive side first.
inline std::pair<bringup::stream, bringup::stream> connected(bringup::stream_options options = {}) {
  auto listening = listen({.streams = options});
  auto client =
      verbena::result<bringup::stream>(verbena::error(verbena::error_kind::os, 0, "not connected"));
  std::thread connecting([&] {
    client = bringup::stream::connect(listening.local_address(), soon(), {.stream = options});
  });
  auto server = listening.accept(soon());
  connecting.join();
  return {std::move(server).value(), std::move(client).value()};
}

/// Returns an accepted stream whose peer is a raw socket that has sent a valid greeting.
inline std::pair<bringup::stream, verbena::unique_fd> accepted_raw() {
  auto listening = listen();
  auto raw = raw_connection(listening.port());
  send_bytes(raw, bringup::encode_greeting(bringup::supported_versions));
  return {listening.accept(soon()).value(), std::move(raw)};
}

inline std::vector<std::byte> bytes_from(std::string_view text) {
  const auto view = verbena::bytes_of(text);
  return {view.begin(), view.end()};
}

/// Returns the sockets of clients that never connect: one says nothing, one sends garbage, one only
/// its greeting, and one an invalid frame.
inline std::vector<verbena::unique_fd> hostile_clients(std::uint16_t port) {
  std::vector<verbena::unique_fd> made(4);
  for (auto& each : made) each = raw_connection(port);
  const auto greeting = bringup::encode_greeting(bringup::supported_versions);
  send_bytes(made[1], bytes_from("GET / HTTP/1.0\r\n\r\n"));
  send_bytes(made[2], greeting);
  send_bytes(made[3], greeting);
  send_bytes(made[3], bytes_from("\xff\xff\xff\xff\xff\xff\xff\xff"));
  return made;
}

}  // namespace peers
