// SPDX-License-Identifier: MIT
// The arguments and the clients of the echo servers 18_coroutines, 19_asio, 22_senders and
// 23_epoll_loop. The clients run on one thread.
#pragma once

#include <verbena/async.hpp>
#include <verbena/verbena.hpp>

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace examples {

constexpr std::uint64_t messages_per_client = 10;
/// The options of the channels on both sides.
constexpr verbena::message_channel_options small_messages{
    .message_bytes = 256, .queues = {.max_send_wr = 4, .max_recv_wr = 4}};
/// The places that a channel reserves in its engine: one for each operation in flight, and those of
/// the channel itself.
constexpr std::uint32_t places_per_channel = 4 + 4 + verbena::message_channel::own_operations;

inline verbena::deadline time_limit() { return verbena::deadline::after(std::chrono::seconds(60)); }

/// The arguments `[--clients N] [--host ADDRESS]`.
struct echo_settings {
  std::uint32_t clients = 0;
  /// The address of this host at which the server listens. iWARP needs one of its device.
  std::string host = "127.0.0.1";
};
inline echo_settings settings_of(int argc, char** argv, std::uint32_t clients = 500) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  echo_settings made{.clients = clients};
  bool valid = words.size() % 2 == 1;
  for (std::size_t at = 1; valid && at < words.size(); at += 2) {
    const std::string_view name = words[at];
    const std::string_view text = words[at + 1];
    if (name == "--host") {
      made.host = text;
    } else {
      const auto parsed = std::from_chars(text.data(), text.data() + text.size(), made.clients);
      valid = name == "--clients" && parsed.ec == std::errc() &&
              parsed.ptr == text.data() + text.size() && made.clients > 0;
    }
  }
  if (valid) return made;
  std::fprintf(stderr, "usage: %s [--clients N] [--host ADDRESS]\n", words[0]);
  std::exit(2);
}

/// Clients of an echo server on this host, all of which are connected at the same time.
class echo_clients {
 public:
  echo_clients(const verbena::context& context, const verbena::protection_domain& pd,
               verbena::bringup::address server, std::uint32_t count)
      : engine_(verbena::async::engine::create(context, {.operations = count * places_per_channel})
                    .value()),
        pd_(pd),
        server_(std::move(server)),
        left_(count) {}

  /// Connects all clients, and has them send numbers. Returns the number of correct answers.
  std::uint64_t run() { return engine_.run(all()); }

 private:
  template <class T>
  using task = verbena::async::task<T>;

  task<std::uint64_t> all() {
    // So many connect at the same time: each needs a socket until it is connected.
    std::array<int, 64> connecting{};
    co_await verbena::async::when_all(connecting, [&](int, std::size_t) { return connect(); });
    const auto answers = co_await verbena::async::when_all(
        channels_, [&](auto& channel, std::size_t) { return ask(channel); });
    std::uint64_t sum = 0;
    for (const std::uint64_t each : answers) sum += each;
    co_return sum;
  }
  task<bool> connect() {
    while (left_ > 0) {
      --left_;
      auto made = co_await verbena::async::connect(engine_, pd_, server_, time_limit(),
                                                   {.channel = small_messages});
      if (!made) {
        verbena::print_error(made.error());
        co_return false;
      }
      channels_.push_back(*std::move(made));
    }
    co_return true;
  }
  // [client]
  // Sends numbers and receives them, then an empty message. Returns the number of correct answers.
  static task<std::uint64_t> ask(verbena::async::message_channel& channel) {
    std::uint64_t correct = 0;
    for (std::uint64_t number = 0; number < messages_per_client; ++number) {
      if (!co_await channel.send(std::as_bytes(std::span(&number, 1)), time_limit())) break;
      const auto answer = co_await channel.receive(time_limit());
      if (!answer) break;
      correct += std::memcmp(answer->bytes().data(), &number, sizeof number) == 0 ? 1 : 0;
    }
    const bool is_sent = bool(co_await channel.send(std::span<const std::byte>(), time_limit()));
    const bool is_delivered = is_sent && co_await channel.drain(time_limit());
    co_return is_delivered ? correct : 0;
  }
  // [/client]

  verbena::async::engine engine_;
  verbena::protection_domain pd_;
  verbena::bringup::address server_;
  std::uint32_t left_;
  std::vector<verbena::async::message_channel> channels_;
};

/// Runs `serve` on this thread and clients on another thread. Prints the results, and returns the
/// exit status.
template <class Serve>
int serve_clients(const verbena::context& context, const verbena::protection_domain& pd,
                  const verbena::bringup::address& server, std::uint32_t count, Serve serve) {
  std::uint64_t correct = 0;
  std::thread other([&] { correct = echo_clients(context, pd, server, count).run(); });
  const std::uint64_t echoed = serve();
  other.join();
  std::printf("%u clients on one thread: %llu messages returned, %llu correct answers\n", count,
              static_cast<unsigned long long>(echoed), static_cast<unsigned long long>(correct));
  const std::uint64_t all = count * messages_per_client;
  return echoed == all && correct == all ? 0 : 1;
}

}  // namespace examples
