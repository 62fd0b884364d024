// SPDX-License-Identifier: MIT
// A packet with memory for its payload.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

/// Refers to itself, so it cannot be copied. Threads: one thread at a time.
class packet_copy {
 public:
  packet_copy() = default;
  packet_copy(const packet_copy&) = delete;
  packet_copy& operator=(const packet_copy&) = delete;

  /// Copies a packet. Precondition: its payload has at most largest_mtu bytes.
  void store(const packet& what) noexcept {
    what_ = what;
    std::ranges::copy(what.payload, bytes_.begin());
    what_.payload = std::span<const std::byte>(bytes_).first(what.payload.size());
  }
  /// Returns the stored packet; valid until the next `store`.
  [[nodiscard]] const packet& get() const noexcept { return what_; }

 private:
  packet what_;
  std::array<std::byte, largest_mtu> bytes_;
};

}  // namespace verbena::softdev::wire
