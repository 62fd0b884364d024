// SPDX-License-Identifier: MIT
// Reads pcapng blocks in order to count packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace verbena::tool {

/// The numbers of packets of a capture.
struct packet_count {
  std::uint64_t stored = 0;
  std::uint64_t lost = 0;  ///< that processes could not write

  packet_count& operator+=(const packet_count& other) noexcept {
    stored += other.stored;
    lost += other.lost;
    return *this;
  }
};

/// Returns true if these are the first bytes of a pcapng file.
[[nodiscard]] bool begins_capture(std::span<const std::byte> bytes) noexcept;

/// Counts the packets in whole blocks; ignores all bytes after an invalid block.
[[nodiscard]] packet_count count_packets(std::span<const std::byte> blocks) noexcept;

/// Counts the packets of a file. Returns nullopt if it cannot be read.
[[nodiscard]] std::optional<packet_count> count_packets_of(const std::string& file);

}  // namespace verbena::tool
