// SPDX-License-Identifier: MIT
// A network with faults between the connection managers of two hosts.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "softdev/cm/mad.hpp"
#include "softdev/cm/manager_options.hpp"
#include "tests/unit/softdev/random_source.hpp"

namespace verbena::softdev::cm::simulation {

using std::chrono::microseconds;

/// The current time of all hosts.
inline time_point now;

/// Rates of faults, per 1000 messages.
struct network_faults {
  std::uint32_t loss = 0;
  std::uint32_t duplication = 0;
  std::uint32_t reordering = 0;
  microseconds delay{50};
  microseconds longest_detour{0};  ///< the maximum extra delay of a reordered or duplicated message
  // Messages sent from the begin on and before the end are lost.
  time_point partition_begin = time_point::max();
  time_point partition_end = time_point::max();
};

/// A message in flight.
struct travelling_message {
  std::size_t host = 0;  ///< the receiver
  std::array<std::byte, mad_bytes> bytes{};
};

/// Threads: one thread at a time.
class network {
 public:
  network(const network_faults& faults, random_source& random) : faults_(faults), random_(random) {}

  /// Sends a message to `host`. Outside of a partition, the network loses at most two copies of a
  /// message, so that a host does not exhaust its retries.
  void send(std::size_t host, const mad& what, mad_view bytes);
  /// Returns the time of the next arrival; time_point::max() if no message is in flight.
  [[nodiscard]] time_point next_arrival() const noexcept {
    return messages_.empty() ? time_point::max() : messages_.begin()->first.first;
  }
  [[nodiscard]] travelling_message take();
  [[nodiscard]] bool has_partition() const noexcept {
    return faults_.partition_begin != time_point::max();
  }
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] std::uint64_t faults() const noexcept { return happened_; }

 private:
  // Host, kind, IDs of the sender and the receiver, transaction.
  using identity = std::tuple<std::size_t, mad_kind, std::uint32_t, std::uint32_t, std::uint64_t>;

  [[nodiscard]] microseconds detour();

  const network_faults faults_;
  random_source& random_;
  std::map<std::pair<time_point, std::uint64_t>, travelling_message> messages_;
  std::map<identity, unsigned> lost_;
  std::uint64_t sent_ = 0;
  std::uint64_t number_ = 0;  ///< orders messages that arrive at the same time
  std::uint64_t happened_ = 0;
};

}  // namespace verbena::softdev::cm::simulation
