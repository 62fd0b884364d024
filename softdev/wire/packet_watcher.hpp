// SPDX-License-Identifier: MIT
// Observes the packets that this process sends and receives.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "softdev/wire/network.hpp"

namespace verbena::softdev::wire {

/// Sees packets from BTH to ICRC, and what a socket knows of the headers in front of them. Threads:
/// the two groups of functions are called at the same time, each by one thread at a time.
class packet_watcher {
 public:
  // Packets that leave.
  /// The packets that are shown next are given to the kernel now.
  virtual void sending() noexcept = 0;
  /// The kernel took a packet.
  virtual void sent(const network_header& around, std::span<const std::byte> packet) noexcept = 0;
  /// The kernel took no more of them. Not called if it took none.
  virtual void sent_all() noexcept = 0;

  // Packets that arrive.
  /// A packet is about to be examined. It stays in place until `settled`.
  virtual void arrived(const network_header& around,
                       std::span<const std::byte> packet) noexcept = 0;
  /// The last packet was taken, or `note` says what became of it instead.
  virtual void settled(std::string_view note) noexcept = 0;
  /// The last packet was forwarded, and only another process sees it.
  virtual void dismissed() noexcept = 0;
  /// There are no more packets now.
  virtual void settled_all() noexcept = 0;

 protected:
  ~packet_watcher() = default;
};

}  // namespace verbena::softdev::wire
