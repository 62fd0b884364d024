// SPDX-License-Identifier: MIT
// Received datagrams, several for each system call. The kernel and the owner of the port join
// consecutive datagrams of one size.
#pragma once

#include <sys/socket.h>

#include <algorithm>
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
  datagram_addresses ends;
  std::span<const std::byte> bytes;
};

/// Datagrams that were received as one message.
struct received_train {
  datagram_addresses ends;
  std::span<const std::byte> bytes;
  std::size_t size = 0;  ///< of each datagram; the last one may be shorter

  /// Returns the first `count` datagrams, and removes them. Precondition: there are as many.
  [[nodiscard]] received_train take(std::size_t count) noexcept {
    const std::size_t taken = std::min(count * size, bytes.size());
    const received_train front{ends, bytes.first(taken), size};
    bytes = bytes.subspan(taken);
    return front;
  }
  [[nodiscard]] std::span<const std::byte> first() const noexcept {
    return bytes.first(std::min(size, bytes.size()));
  }
};

/// Threads: one thread at a time. Allocates when it is made only.
class datagram_batch {
 public:
  static constexpr std::size_t capacity = 32;

  datagram_batch();

  /// Receives from the source of `from`. Does not block. Returns how many messages there are; sets
  /// `ended` if the owner of the port ended. Requests one message after a call that found none, and
  /// twice as many after each call that got all it requested: learning that no second message is
  /// there takes as long as receiving one.
  std::size_t receive(const port_share& from, bool& ended) noexcept;
  /// Returns whether it is likely that more messages can be received: the last batch had several,
  /// and there was no room for more.
  [[nodiscard]] bool expects_more() const noexcept { return expects_more_; }
  /// Reads a message of the last batch, which has at least one datagram. Returns false if it has no
  /// addresses. Precondition: `index` is less than the number of messages.
  [[nodiscard]] bool read(std::size_t index, received_train& out) const noexcept;

 private:
  static constexpr std::size_t room = 65'535 + sizeof(forwarded_header);  ///< the longest of UDP
  struct slot {
    iovec piece;
    sockaddr_storage name;
    udp_socket::control control;
    std::array<std::byte, room> bytes;
  };

  void prepare() noexcept;

  const std::unique_ptr<slot[]> slots_;
  std::size_t used_ = capacity;  ///< messages that the kernel may have changed
  std::array<mmsghdr, capacity> messages_{};
  bool forwarded_ = false;
  bool expects_more_ = false;
  std::size_t wanted_ = 1;
};

}  // namespace verbena::softdev::wire
