// SPDX-License-Identifier: MIT
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/local/measure.hpp"
#include "bench/wire/wire_modes.hpp"

namespace bench {
namespace {

constexpr std::size_t packet = 4096;
constexpr std::size_t packets_in_flight = 128;
constexpr double run_seconds = 1.0;

void send_all(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) fail("send");
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

// Polls. Returns 0 at the end of a TCP connection.
std::size_t receive_some(int socket, std::span<std::byte> room) {
  while (true) {
    const ssize_t received = ::recv(socket, room.data(), room.size(), MSG_DONTWAIT);
    if (received >= 0) return static_cast<std::size_t>(received);
    if (errno != EAGAIN && errno != EINTR) fail("recv");
  }
}

// `train` bytes per system call; each receive is answered with the sum of the bytes that came.
// The first message of eight bytes ends the run.
double stream_udp(const hosts& between, std::size_t train) {
  const auto socket = between.connect_over_udp();
  const int fd = socket.get();
  const int on = 1;
  const int segment = packet;
  // Only there: joined answers would be cut.
  if (between.is_child() && ::setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on) != 0)
    fail("UDP_GRO");
  if (train > packet && !between.is_child() &&
      ::setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0)
    fail("UDP_SEGMENT");
  std::vector<std::byte> buffer(std::size_t{1} << 16);
  const std::span room(buffer);
  std::uint64_t answered = 0;
  const auto bytes_of = [](std::uint64_t& value) {
    return std::as_writable_bytes(std::span(&value, 1));
  };
  between.pair().meet();
  if (between.is_child()) {
    while (true) {
      const std::size_t received = receive_some(fd, room);
      if (received == sizeof answered) break;
      answered += received;
      send_all(fd, bytes_of(answered));
    }
    between.pair().meet();
    return 0;
  }
  std::uint64_t sent = 0;
  const auto start = now();
  while (seconds_since(start) < run_seconds) {
    while (sent - answered + train > packets_in_flight * packet)
      receive_some(fd, bytes_of(answered));
    send_all(fd, room.first(train));
    sent += train;
  }
  while (answered < sent) receive_some(fd, bytes_of(answered));
  const double rate = static_cast<double>(sent) / seconds_since(start);
  send_all(fd, room.first(sizeof answered));
  between.pair().meet();
  return rate;
}

}  // namespace

double udp_latency(const hosts& between) {
  constexpr repetitions times{.chunks = 50, .per_chunk = 2000};
  const auto socket = between.connect_over_udp();
  std::array<std::byte, 8> bytes{};
  if (between.is_child()) {
    for (std::size_t i = 0; i < times.total(); ++i) {
      receive_some(socket.get(), bytes);
      send_all(socket.get(), bytes);
    }
    between.pair().meet();
    return 0;
  }
  const double round_trip = median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      send_all(socket.get(), bytes);
      receive_some(socket.get(), bytes);
    }
  });
  between.pair().meet();
  return round_trip / 2;
}

double udp_bandwidth(const hosts& between) {
  constexpr std::size_t most_packets = 15;  // of 64 KiB
  return stream_udp(between, most_packets * packet);
}

double udp_single_bandwidth(const hosts& between) { return stream_udp(between, packet); }

double tcp_bandwidth(const hosts& between) {
  const auto socket = between.connect_over_tcp();
  std::vector<std::byte> buffer(std::size_t{1} << 16);
  if (between.is_child()) {
    std::uint64_t sum = 0;
    while (const std::size_t received = receive_some(socket.get(), buffer)) sum += received;
    between.pair().send(std::as_bytes(std::span(&sum, 1)));
    return 0;
  }
  std::uint64_t sent = 0;
  const auto start = now();
  for (; seconds_since(start) < run_seconds; sent += buffer.size()) send_all(socket.get(), buffer);
  if (::shutdown(socket.get(), SHUT_WR) != 0) fail("shutdown");
  std::uint64_t received = 0;
  between.pair().receive(std::as_writable_bytes(std::span(&received, 1)));
  const double spent = seconds_since(start);
  if (received != sent) fail("what was sent over TCP did not arrive");
  return static_cast<double>(sent) / spent;
}

}  // namespace bench
