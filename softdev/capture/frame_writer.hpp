// SPDX-License-Identifier: MIT
// Packets as Ethernet frames in a file, for all that records packets in a process.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>

#include "softdev/capture/capture_file.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::capture {

/// Nanoseconds since 1970.
[[nodiscard]] std::uint64_t wall_clock() noexcept;

/// Threads: thread-safe. Takes no lock but its own. Does not allocate after it was made.
class frame_writer {
 public:
  /// Stores at most `packet_bytes` of each frame.
  frame_writer(capture_file file, std::size_t packet_bytes) noexcept
      : packet_bytes_(std::min(packet_bytes, capture_file::max_captured_bytes)),
        file_(std::move(file)) {}
  frame_writer(const frame_writer&) = delete;
  frame_writer& operator=(const frame_writer&) = delete;

  /// Adds a packet, which gets an ICRC.
  void put(std::uint64_t time_ns, const wire::network_header& around,
           const wire::packet& what) noexcept;
  /// Adds a packet that is complete: BTH to ICRC, or what a sender of another protocol put there.
  void put(std::uint64_t time_ns, const wire::network_header& around,
           std::span<const std::byte> packet, const packet_notes& notes) noexcept;
  /// Counts a packet that could not be made.
  void note_lost() noexcept;
  /// Writes what was put. See capture_file::flush.
  void flush() noexcept;

 private:
  const std::size_t packet_bytes_;
  std::mutex mutex_;  ///< guards all that follows; no other lock is taken while it is held
  capture_file file_;
  std::array<std::byte, capture_file::max_captured_bytes> frame_;
};

}  // namespace verbena::softdev::capture
