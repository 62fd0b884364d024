// SPDX-License-Identifier: MIT
// A network with faults: packets as bytes that arrive at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "softdev/core/types.hpp"
#include "tests/unit/softdev/wire/simulation/random_source.hpp"

namespace verbena::softdev::wire::simulation {

/// The frequency of faults, in cases of 1000.
struct network_faults {
  std::uint32_t loss = 0;
  std::uint32_t duplication = 0;
  std::uint32_t corruption = 0;
  std::uint32_t reordering = 0;
  time_ns delay = 2'000;
  time_ns jitter = 0;              ///< does not change the order
  time_ns longest_detour = 0;      ///< of a packet that others overtake
  time_ns partitioned_at = never;  ///< nothing arrives that is sent from then on
  std::uint32_t marking = 0;       ///< packets that congestion marks
  std::uint64_t marking_seed = 0;  ///< a source of its own: marks change no other fault
};

/// A packet on its way.
struct travelling_packet {
  time_ns arrival = 0;
  std::uint64_t number = 0;  ///< decides between equal times
  std::size_t host = 0;
  std::vector<std::byte> bytes;
  bool marked = false;
};

/// The identity of a packet and its repetitions: host, queue pair, PSN, opcode.
using packet_identity = std::tuple<std::size_t, std::uint32_t, std::uint32_t, std::uint8_t>;

/// Threads: one thread at a time.
class network {
 public:
  network(const network_faults& faults, random_source& random)
      : faults_(faults), random_(random), marks_(faults.marking_seed) {}

  /// A packet leaves at `departure` for `host`. So that retries do not run out, the network loses
  /// or damages the packets of one identity twice at most, and two acknowledgements of a queue pair
  /// in a row.
  void send(time_ns departure, std::size_t host, const packet_identity& which,
            std::vector<std::byte> bytes);
  /// The time of the next arrival; `never` if no packet is on its way.
  [[nodiscard]] time_ns next_arrival() const noexcept {
    return packets_.empty() ? never : packets_.top().arrival;
  }
  [[nodiscard]] travelling_packet take();
  [[nodiscard]] std::uint64_t faults() const noexcept { return happened_; }

 private:
  struct is_later {
    bool operator()(const travelling_packet& a, const travelling_packet& b) const noexcept {
      return std::tie(a.arrival, a.number) > std::tie(b.arrival, b.number);
    }
  };
  [[nodiscard]] bool may_lose(const packet_identity& which, bool wanted);
  void deliver(time_ns arrival, std::size_t host, std::vector<std::byte> bytes);

  network_faults faults_;
  random_source& random_;
  random_source marks_;
  std::priority_queue<travelling_packet, std::vector<travelling_packet>, is_later> packets_;
  std::map<packet_identity, unsigned> lost_;
  std::map<std::size_t, time_ns> last_arrival_;
  std::uint64_t sent_ = 0;
  std::uint64_t happened_ = 0;
};

}  // namespace verbena::softdev::wire::simulation
