// SPDX-License-Identifier: MIT
// Received datagrams, several per system call. The kernel and the owner of the port join
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

/// Datagrams that were received in one message.
struct received_train {
  datagram_addresses ends;
  std::span<const std::byte> bytes;
  std::size_t size = 0;  ///< of each datagram; the last one can be shorter

  /// Removes and returns the first `count` datagrams. Precondition: there are at least `count`
  /// datagrams.
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

/// Threads: one thread at a time. Allocates only in the constructor.
class datagram_batch {
 public:
  static constexpr std::size_t capacity = 32;

  datagram_batch();

  /// Receives messages from the source of `from`. Does not block. Returns their number. Sets
  /// `ended` if the owner of the port has ended. Requests one message after a call that received
  /// none, and twice as many after each call that received all requested messages: a system call
  /// that finds no second message takes as long as one that receives it.
  std::size_t receive(const port_share& from, bool& ended) noexcept;
  /// Returns whether more messages are likely to be available: the last batch had several messages
  /// and was full.
  [[nodiscard]] bool expects_more() const noexcept { return expects_more_; }
  /// Reads a message of the last batch. Returns false if the message is truncated, empty or without
  /// addresses. Precondition: `index` is less than the number of messages.
  [[nodiscard]] bool read(std::size_t index, received_train& out) const noexcept;

 private:
  /// The maximum length of a UDP payload, and the header of a forwarded one.
  static constexpr std::size_t room = 65'535 + sizeof(forwarded_header);
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
