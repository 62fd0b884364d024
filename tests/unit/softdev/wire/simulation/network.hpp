// SPDX-License-Identifier: MIT
// A network with faults. It delivers packets as bytes at an arrival time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "softdev/core/types.hpp"
#include "tests/unit/softdev/random_source.hpp"

namespace verbena::softdev::wire::simulation {

/// The slowest link of the path. Each direction has a queue, and drops packets that it has no room
/// for.
struct bottleneck {
  std::uint32_t bytes_per_us = 0;  ///< 0: none
  std::uint32_t queue_bytes = 0;
};

/// Rates of faults, in 1/rate_unit of the packets.
struct network_faults {
  std::uint32_t rate_unit = 1000;
  std::uint32_t loss = 0;
  std::uint32_t duplication = 0;
  std::uint32_t corruption = 0;
  std::uint32_t reordering = 0;
  time_ns delay = 2'000;
  time_ns jitter = 0;              ///< does not change the order
  time_ns longest_detour = 0;      ///< the maximum extra delay of a reordered packet
  time_ns partitioned_at = never;  ///< packets sent from this time on are lost
  std::uint32_t marking = 0;       ///< packets with a congestion mark
  std::uint64_t marking_seed = 0;  ///< a separate seed, so that marks do not change other faults
  bottleneck narrow{};
};

/// A packet in flight.
struct travelling_packet {
  time_ns arrival = 0;
  std::uint64_t number = 0;  ///< the order of packets with the same arrival time
  std::size_t host = 0;
  std::vector<std::byte> bytes;
  bool marked = false;
};

/// The identity of a packet and of its retransmissions: host, queue pair, PSN, opcode.
using packet_identity = std::tuple<std::size_t, std::uint32_t, std::uint32_t, std::uint8_t>;

/// Threads: one thread at a time.
class network {
 public:
  network(const network_faults& faults, random_source& random)
      : faults_(faults), random_(random), marks_(faults.marking_seed) {}

  /// Sends a packet to `host` at time `departure`. The network loses or damages the packets of one
  /// identity at most twice, and at most two consecutive ACKs of a queue pair, so that retries are
  /// not exhausted.
  void send(time_ns departure, std::size_t host, const packet_identity& which,
            std::vector<std::byte> bytes);
  /// Returns the time of the next arrival; `never` if no packet is in flight.
  [[nodiscard]] time_ns next_arrival() const noexcept {
    return packets_.empty() ? never : packets_.top().arrival;
  }
  [[nodiscard]] travelling_packet take();
  [[nodiscard]] std::uint64_t faults() const noexcept { return happened_; }
  /// Returns the number of packets that the bottleneck has dropped.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  struct is_later {
    bool operator()(const travelling_packet& a, const travelling_packet& b) const noexcept {
      return std::tie(a.arrival, a.number) > std::tie(b.arrival, b.number);
    }
  };
  [[nodiscard]] bool may_lose(const packet_identity& which, bool wanted);
  [[nodiscard]] bool pass(time_ns& departure, std::size_t host, std::size_t bytes);
  void deliver(time_ns arrival, std::size_t host, std::vector<std::byte> bytes);

  network_faults faults_;
  random_source& random_;
  random_source marks_;
  std::priority_queue<travelling_packet, std::vector<travelling_packet>, is_later> packets_;
  std::map<packet_identity, unsigned> lost_;
  std::map<std::size_t, time_ns> last_arrival_;
  std::map<std::size_t, time_ns> narrow_free_at_;
  std::uint64_t dropped_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t happened_ = 0;
};

}  // namespace verbena::softdev::wire::simulation
