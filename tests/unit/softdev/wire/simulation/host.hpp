// SPDX-License-Identifier: MIT
// A simulated host: the core's engine, the packet engine, and a link with a rate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "softdev/core/engine.hpp"
#include "softdev/wire/engine/packet_engine.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "tests/unit/softdev/wire/simulation/network.hpp"

namespace verbena::softdev::wire::simulation {

/// The current time of all hosts.
inline time_ns now = 0;

/// The link of a host: sends one packet at a time, and has a short queue.
struct link_rate {
  time_ns packet_time = 100;
  std::uint32_t queue_packets = 64;
};

struct host_options {
  bool selective_repeat = true;
  bool larger_windows = true;
  /// How long an ACK is postponed if nothing else happens; 0: ACKs are sent at once.
  time_ns ack_delay = 0;
};

/// Threads: one thread at a time.
class host final : private packet_output {
 public:
  /// The hosts of a network are 0 and 1. The peer of host n is host 1 - n.
  host(std::size_t number, network& net, const link_rate& rate, const host_options& options = {});

  [[nodiscard]] engine& device() noexcept { return device_; }
  [[nodiscard]] static network_address address_of(std::size_t number);
  /// Receives the bytes of a packet from the network.
  void receive(std::span<const std::byte> bytes, bool marked = false);
  /// Does the work that is due.
  void run();
  /// Returns when `run` is due.
  [[nodiscard]] time_ns next_deadline() noexcept;
  /// Sets the observer of the packets that this host sends.
  void observe(std::function<void(const packet&)> observer) { observer_ = std::move(observer); }
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  /// Returns how often an event of the packet engine happened.
  [[nodiscard]] std::uint64_t events(packet_event what) const noexcept {
    return events_[static_cast<std::size_t>(what)];
  }
  [[nodiscard]] std::uint64_t damaged() const noexcept { return damaged_; }
  /// Returns how often ACKs were postponed.
  [[nodiscard]] std::uint64_t postponed() const noexcept { return postponed_; }

 private:
  bool has_room() noexcept override;
  bool put(const queue_pair& from, const packet& what) noexcept override;
  bool put_datagram(const datagram_route& by, const packet& what) noexcept override;
  void count(packet_event what) noexcept override { ++events_[static_cast<std::size_t>(what)]; }
  void put_between(const network_header& around, const packet& what) noexcept;
  [[nodiscard]] time_ns room_at() const noexcept;

  const std::size_t number_;
  network& network_;
  const link_rate rate_;
  const time_ns ack_delay_;
  time_ns link_free_at_ = 0;
  std::uint64_t sent_ = 0;
  std::array<std::uint64_t, packet_event_count> events_{};
  std::uint64_t damaged_ = 0;
  std::uint64_t postponed_ = 0;
  bool has_postponed_ = false;  ///< since the last call of `run`
  std::function<void(const packet&)> observer_;
  engine device_;
  packet_engine packets_;
};

}  // namespace verbena::softdev::wire::simulation
