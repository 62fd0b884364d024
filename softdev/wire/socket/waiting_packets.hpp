// SPDX-License-Identifier: MIT
// Received packets whose queue pair was locked when they arrived. They are kept here, so that
// packets of other queue pairs can be received. There are few of them: a program holds a lock for a
// long time only while it has an open batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "softdev/wire/packet.hpp"
#include "softdev/wire/packet_copy.hpp"
#include "softdev/wire/socket/packet_sender.hpp"
#include "softdev/wire/socket/route_table.hpp"

namespace verbena::softdev::wire {

/// Threads: one thread at a time. Allocates only in the constructor.
class waiting_packets {
 public:
  static constexpr std::size_t capacity = 64;
  /// The maximum number of packets for one lock, so that there is room for packets of other queue
  /// pairs.
  static constexpr std::size_t most_for_one_lock = 16;

  waiting_packets();

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Returns whether a packet for the same lock waits, so that `what` must not overtake it.
  [[nodiscard]] bool must_wait(const packet& what) const noexcept { return waiting_for(what) != 0; }
  /// Copies a packet. Returns false if there is no room.
  [[nodiscard]] bool keep(const packet& what, const wire_route& route) noexcept;

  /// Retries all packets in the order of their arrival. `take(const packet&, const wire_route&)`
  /// returns false if a packet still has to wait; later packets for the same lock are not retried
  /// then.
  template <class Take>
  void retry(Take take) noexcept {
    std::array<std::uint64_t, capacity> locked;
    std::size_t locks = 0;
    std::size_t left = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const std::size_t place = order_[i];
      const slot& each = slots_[place];
      const std::uint64_t lock = lock_of(each.what.get());
      bool waits = false;
      for (std::size_t k = 0; k < locks && !waits; ++k) waits = locked[k] == lock;
      if (!waits && !take(each.what.get(), each.route)) {
        waits = true;
        locked[locks++] = lock;
      }
      if (waits) {
        // Free entries follow the entries in use.
        order_[i] = order_[left];
        order_[left++] = static_cast<std::uint8_t>(place);
      }
    }
    count_ = left;
  }

 private:
  struct slot {
    packet_copy what;
    wire_route route;
  };

  /// Identifies the lock that a packet needs: the send lock of its queue pair for a response, the
  /// receive lock for a request.
  [[nodiscard]] static std::uint64_t lock_of(const packet& what) noexcept {
    return std::uint64_t{what.destination_qpn} << 1U | (is_response(what.opcode) ? 1U : 0U);
  }
  [[nodiscard]] std::size_t waiting_for(const packet& what) const noexcept;

  const std::unique_ptr<slot[]> slots_;
  std::array<std::uint8_t, capacity> order_;  ///< indexes of `slots_`: by arrival, then free ones
  std::size_t count_ = 0;
};

}  // namespace verbena::softdev::wire
