// SPDX-License-Identifier: MIT
// A connection over two ports of soft0, to a peer in this process. A fault of a port concerns both
// sides: the peer's ports are those of this process.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/net/ranks.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/multi_rail_channel.hpp"
#include "verbena/net/rail_memory.hpp"
#include "verbena/net/rail_responder.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/inject_event.hpp"

namespace verbena::test {

// Before soft0 is opened. Other tests of this program use port 1.
[[maybe_unused]] inline const int two_ports = ::setenv("VERBENA_SOFTDEV_PORTS", "2", 1);

inline constexpr access_flags rail_access =
    access::local_write | access::remote_read | access::remote_write;
inline constexpr std::size_t rail_block = 1024UL * 1024;

enum class contexts : std::uint8_t { one_for_each_port, one };

/// The ports of soft0.
struct two_rails {
  std::vector<net::rail_port> ports;

  explicit two_rails(contexts how = contexts::one_for_each_port,
                     const provider& from = *soft_provider().value()) {
    auto device = testing_support::open_soft(from).value();
    for (const std::uint8_t port : {1, 2}) {
      if (port != 1 && how == contexts::one_for_each_port)
        device = testing_support::open_soft(from).value();
      ports.push_back(
          {.domain = device.allocate_pd().value(), .route = {.port = port_number(port)}});
    }
  }
};

/// Takes the ports up again when a test ends.
class port_faults {
 public:
  explicit port_faults(context on) : on_(std::move(on)) {}
  port_faults(const port_faults&) = delete;
  port_faults& operator=(const port_faults&) = delete;
  ~port_faults() {
    up(1);
    up(2);
    inject("clear-faults");
  }
  void down(int port) { inject("port " + std::to_string(port) + " down"); }
  void up(int port) { inject("port " + std::to_string(port) + " up"); }
  void inject(const std::string& command) { EXPECT_TRUE(inject_event(on_, command)) << command; }

 private:
  context on_;
};

/// Returns options for tests of failures.
inline net::rail_options quick() {
  return {.hold_down = 20ms,
          .reliability = {.timeout = ack_timeout::at_least(1ms), .retry_count = 1}};
}

/// A connection and its peer.
class connected_rails {
 public:
  explicit connected_rails(const net::rail_options& options = quick(),
                           contexts how = contexts::one_for_each_port)
      : here(how) {
    auto [ours, theirs] = peers::connected();
    connect(options, std::move(ours), std::move(theirs));
  }
  connected_rails(const net::rail_options& options, bringup::stream ours, bringup::stream theirs) {
    connect(options, std::move(ours), std::move(theirs));
  }
  /// The ports are those of `ours` and of `theirs`, for example of providers that fail.
  connected_rails(const net::rail_options& options, two_rails ours, two_rails theirs)
      : here(std::move(ours)), there(std::move(theirs)) {
    auto [near, far] = peers::connected();
    connect(options, std::move(near), std::move(far));
  }

  /// Fills the memory with words that depend on `seed`.
  void fill(net::rail_memory& memory, std::uint64_t seed) {
    const auto words = words_of(memory);
    for (std::size_t each = 0; each < words.size(); ++each) words[each] = seed + each;
  }
  /// Returns the number of words that fill() did not write.
  [[nodiscard]] std::size_t wrong_words(net::rail_memory& memory, std::uint64_t seed) {
    std::size_t wrong = 0;
    const auto words = words_of(memory);
    for (std::size_t each = 0; each < words.size(); ++each) wrong += words[each] != seed + each;
    return wrong;
  }
  /// Calls progress() until a rail has a state.
  [[nodiscard]] bool becomes(std::uint32_t rail, net::rail_state state) {
    const auto until = test_deadline();
    while (channel->status(rail).state != state && !until.expired()) channel->progress();
    return channel->status(rail).state == state;
  }
  [[nodiscard]] net::rail_counters counters(std::uint32_t rail) const {
    return channel->status(rail).counters;
  }

  two_rails here;
  two_rails there;
  net::rail_memory local = net::rail_memory::allocate(here.ports, rail_block, rail_access).value();
  net::rail_memory remote =
      net::rail_memory::allocate(there.ports, rail_block, rail_access).value();
  port_faults faults{here.ports[0].domain.context()};
  std::optional<net::rail_responder> peer;
  std::optional<net::multi_rail_channel> channel;

 private:
  [[nodiscard]] static std::span<std::uint64_t> words_of(net::rail_memory& memory) {
    return {reinterpret_cast<std::uint64_t*>(memory.bytes().data()),
            memory.length() / sizeof(std::uint64_t)};
  }
  void connect(const net::rail_options& options, bringup::stream ours, bringup::stream theirs) {
    std::thread passive([&] {
      peer.emplace(
          net::rail_responder::accept(std::move(theirs), there.ports, test_deadline()).value());
    });
    channel.emplace(
        net::multi_rail_channel::connect(std::move(ours), here.ports, test_deadline(), options)
            .value());
    passive.join();
  }
};

/// Passes the messages of a connection on. Holds answers to fences back between hold() and
/// release().
class delayed_stream {
 public:
  delayed_stream() {
    std::tie(active, near_active_) = keep(peers::connected());
    std::tie(near_responder_, responder) = keep(peers::connected());
    thread_ = std::thread([this] { run(); });
  }
  delayed_stream(const delayed_stream&) = delete;
  delayed_stream& operator=(const delayed_stream&) = delete;
  ~delayed_stream() {
    stopping_ = true;
    thread_.join();
  }
  void hold() { held_ = true; }
  void release() { held_ = false; }
  /// Sends a message to the active side, as if it came from the responder.
  void say(std::vector<std::byte> message) {
    const std::lock_guard lock(mutex_);
    said_.push_back(std::move(message));
  }

  std::optional<bringup::stream> active;
  std::optional<bringup::stream> responder;

 private:
  using pair = std::pair<std::optional<bringup::stream>, std::optional<bringup::stream>>;
  static pair keep(std::pair<bringup::stream, bringup::stream> of) {
    return {std::move(of.first), std::move(of.second)};
  }
  static bool is_readable(const bringup::stream& of) {
    return wait_for_fd(of.fd(), POLLIN, deadline::after(1ms)).value();
  }
  void run() {
    std::vector<std::vector<std::byte>> kept;
    while (!stopping_) {
      if (is_readable(*near_active_)) {
        const auto message = near_active_->receive(test_deadline());
        if (!message) return;
        near_responder_->send(*message, test_deadline()).value();
      }
      if (is_readable(*near_responder_)) {
        auto message = near_responder_->receive(test_deadline());
        if (!message) return;
        kept.push_back(*std::move(message));
      }
      {
        const std::lock_guard lock(mutex_);
        for (auto& each : said_) near_active_->send(each, test_deadline()).value();
        said_.clear();
      }
      constexpr std::byte fenced{6};
      while (!kept.empty() && !(held_ && kept.front()[0] == fenced)) {
        near_active_->send(kept.front(), test_deadline()).value();
        kept.erase(kept.begin());
      }
    }
  }

  std::optional<bringup::stream> near_active_;
  std::optional<bringup::stream> near_responder_;
  std::mutex mutex_;
  std::vector<std::vector<std::byte>> said_;
  std::atomic<bool> held_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace verbena::test
