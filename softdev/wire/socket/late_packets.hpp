// SPDX-License-Identifier: MIT
// Received packets that are processed later: injected faults delay them, or a new owner of the port
// keeps them for a process that has not registered.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "softdev/core/types.hpp"
#include "softdev/wire/socket/datagram_batch.hpp"
#include "softdev/wire/socket/packet_sender.hpp"

namespace verbena::softdev::wire {

/// Threads: one thread at a time. Allocates only in the constructor.
class late_packets {
 public:
  static constexpr std::size_t capacity = 512;

  late_packets() : slots_(new slot[capacity]) {
    for (std::size_t i = 0; i < capacity; ++i) order_[i] = static_cast<std::uint16_t>(i);
  }

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Copies a packet and keeps it until `due`. Returns the copy, which the caller may change.
  /// Returns an empty span if there is no room.
  [[nodiscard]] std::span<std::byte> keep(const received_datagram& from, time_ns due) noexcept {
    if (count_ == capacity || from.bytes.size() > max_datagram_bytes) return {};
    const std::uint16_t place = order_[count_];
    std::size_t at = count_++;
    for (; at > 0 && slots_[order_[at - 1]].due > due; --at) order_[at] = order_[at - 1];
    order_[at] = place;
    slot& to = slots_[place];
    to.due = due;
    to.ends = from.ends;
    to.length = from.bytes.size();
    std::ranges::copy(from.bytes, to.bytes.begin());
    return std::span(to.bytes).first(to.length);
  }
  /// Passes the packets that are due to `take(const received_datagram&)`, the earliest first.
  template <class Take>
  void release(time_ns now, Take take) noexcept {
    std::size_t due = 0;
    for (; due < count_ && slots_[order_[due]].due <= now; ++due) {
      const slot& each = slots_[order_[due]];
      take(received_datagram{each.ends, std::span(each.bytes).first(each.length)});
    }
    // Free entries follow the entries in use.
    std::rotate(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(due),
                order_.begin() + static_cast<std::ptrdiff_t>(count_));
    count_ -= due;
  }
  /// Passes all packets to `take(const received_datagram&)`, in their order. Removes those for
  /// which it returns true.
  template <class Take>
  void retry(Take take) noexcept {
    std::size_t left = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const slot& each = slots_[order_[i]];
      if (!take(received_datagram{each.ends, std::span(each.bytes).first(each.length)}))
        std::swap(order_[left++], order_[i]);  // free entries follow the entries in use
    }
    count_ = left;
  }

 private:
  struct slot {
    time_ns due;
    datagram_addresses ends;
    std::size_t length;
    std::array<std::byte, max_datagram_bytes> bytes;
  };

  const std::unique_ptr<slot[]> slots_;
  std::array<std::uint16_t, capacity> order_;  ///< indexes of `slots_`: by time, then free ones
  std::size_t count_ = 0;
};

}  // namespace verbena::softdev::wire
