// SPDX-License-Identifier: MIT
// Writes packets as Ethernet frames to a capture file, for all recorders of a process.
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

/// Returns the nanoseconds since 1970.
[[nodiscard]] std::uint64_t wall_clock() noexcept;

/// Threads: thread-safe. Takes only its own lock. Does not allocate after construction.
class frame_writer {
 public:
  /// Stores at most `packet_bytes` of each frame.
  frame_writer(capture_file file, std::size_t packet_bytes) noexcept
      : packet_bytes_(std::min(packet_bytes, capture_file::max_captured_bytes)),
        file_(std::move(file)) {}
  frame_writer(const frame_writer&) = delete;
  frame_writer& operator=(const frame_writer&) = delete;

  /// Encodes and adds a packet, including its ICRC.
  void put(std::uint64_t time_ns, const wire::network_header& around,
           const wire::packet& what) noexcept;
  /// Adds a complete packet: BTH to ICRC, or the content of a datagram of another protocol.
  void put(std::uint64_t time_ns, const wire::network_header& around,
           std::span<const std::byte> packet, const packet_notes& notes) noexcept;
  /// Counts a packet that could not be recorded.
  void note_lost() noexcept;
  /// Writes the packets that were put. See capture_file::flush.
  void flush() noexcept;

 private:
  const std::size_t packet_bytes_;
  std::mutex mutex_;  ///< guards the members below; no other lock is taken while it is held
  capture_file file_;
  std::array<std::byte, capture_file::max_captured_bytes> frame_;
};

}  // namespace verbena::softdev::capture
