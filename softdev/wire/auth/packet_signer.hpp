// SPDX-License-Identifier: MIT
// Trailers for the packets of one sender.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "softdev/wire/auth/wire_key.hpp"

namespace verbena::softdev::wire {

/// A sender: its number, its key and its sequence numbers. Threads: one thread at a time. Allocates
/// in `open` only.
class packet_signer {
 public:
  /// Errors: those of gmac::open and getrandom(2).
  [[nodiscard]] static result<packet_signer> open(const wire_key& key);

  /// `by` has the key of the sender with this number.
  packet_signer(gmac by, std::uint64_t sender) noexcept : by_(std::move(by)), sender_(sender) {}

  /// Writes the trailer of a packet, with a new sequence number. The packet ends trailer_bytes
  /// before the end of `datagram`. Returns false if libcrypto failed: the packet must not be sent.
  [[nodiscard]] bool sign(const network_header& around, std::span<std::byte> datagram) noexcept;
  [[nodiscard]] std::uint64_t sender() const noexcept { return sender_; }

 private:
  gmac by_;
  std::uint64_t sender_;
  std::uint64_t sequence_ = 0;
};

}  // namespace verbena::softdev::wire
