// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI {

/// A message that arrived, in the buffer that the adapter wrote it to. Move-only. It may be kept as
/// long as needed, also when its channel is gone, and dropped on any thread: that gives the buffer
/// back, and the channel posts it again when it next polls.
/// Threads: one thread at a time, any.
class [[nodiscard]] received_message {
 public:
  /// The message `number` of the peer: `length` bytes at the beginning of `memory`.
  received_message(buffer&& memory, std::uint32_t length, std::uint64_t number) noexcept
      : memory_(std::move(memory)), length_(length), number_(number) {}

  /// What the peer sent; may be empty. They are yours to change.
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return memory_.bytes().first(length_); }
  /// The same.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::span<const std::byte>(memory_.bytes()).first(length_);
  }
  /// How many bytes.
  [[nodiscard]] std::uint32_t length() const noexcept { return length_; }
  /// Its number: what send_result::number() told the peer.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// The buffer, whose first length() bytes are the message: to send it on, for example.
  [[nodiscard]] buffer take_buffer() && noexcept { return std::move(memory_); }

 private:
  buffer memory_;
  std::uint32_t length_;
  std::uint64_t number_;
};

}  // namespace verbena::inline VERBENA_ABI
