// SPDX-License-Identifier: MIT
// Received datagrams, several for each system call.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "softdev/wire/socket/packet_sender.hpp"
#include "softdev/wire/socket/port_share.hpp"
#include "softdev/wire/socket/udp_socket.hpp"

namespace verbena::softdev::wire {

/// A received datagram: the UDP payload and its addresses.
struct received_datagram {
  datagram_ends ends;
  std::span<const std::byte> bytes;
};

/// Threads: one thread at a time. Allocates when it is made only.
class datagram_batch {
 public:
  static constexpr std::size_t capacity = 32;

  datagram_batch();

  /// Receives from the source of `from`. Does not block. Returns how many datagrams there are; sets
  /// `ended` if the owner of the port ended.
  std::size_t receive(const port_share& from, bool& ended) noexcept;
  /// Reads a datagram of the last batch. Returns false if it has no addresses, or is too long for a
  /// packet. Precondition: `index` is less than the number of datagrams.
  [[nodiscard]] bool read(std::size_t index, received_datagram& out) const noexcept;

 private:
  static constexpr std::size_t room = max_packet_bytes + sizeof(forwarded_header);
  struct slot {
    iovec piece;
    sockaddr_storage name;
    udp_socket::control control;
    std::array<std::byte, room> bytes;
  };

  const std::unique_ptr<slot[]> slots_;
  std::array<mmsghdr, capacity> messages_{};
  bool forwarded_ = false;
};

}  // namespace verbena::softdev::wire
