// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/attributes.hpp"
#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI {

/// A received message in its receive buffer. Move-only.
///
/// It may outlive its channel and be destroyed on any thread. Its buffer then returns to the pool,
/// and the channel posts it as a receive when it polls next.
/// Threads: one thread at a time.
class [[nodiscard]] received_message {
 public:
  /// Holds message `number` of the peer: the first `length` bytes of `memory`.
  received_message(buffer&& memory, std::uint32_t length, std::uint64_t number) noexcept
      : memory_(std::move(memory)), length_(length), number_(number) {
    VERBENA_ASSERT(length <= memory_.bytes().size(),
                   "a received_message is longer than its buffer");
  }
  /// Takes the message of `other`, which is then empty.
  received_message(received_message&& other) noexcept
      : memory_(std::move(other.memory_)),
        length_(std::exchange(other.length_, 0)),
        number_(other.number_) {}
  /// Destroys its own message and takes that of `other`, which is then empty.
  received_message& operator=(received_message&& other) noexcept {
    if (this == &other) return *this;
    memory_ = std::move(other.memory_);
    length_ = std::exchange(other.length_, 0);
    number_ = other.number_;
    return *this;
  }
  received_message(const received_message&) = delete;
  received_message& operator=(const received_message&) = delete;
  ~received_message() = default;

  /// Returns the bytes of the message, which may be empty and may be changed. They are valid until
  /// the message is destroyed; its buffer may then receive another message.
  [[nodiscard]] std::span<std::byte> bytes() & noexcept VERBENA_LIFETIMEBOUND {
    return memory_.bytes().first(length_);
  }
  /// Returns the bytes of the message, which may be empty. They are valid until the message is
  /// destroyed.
  [[nodiscard]] std::span<const std::byte> bytes() const& noexcept VERBENA_LIFETIMEBOUND {
    return std::span<const std::byte>(memory_.bytes()).first(length_);
  }
  std::span<std::byte> bytes() && = delete;  // the buffer of a temporary is soon reused
  /// Returns the bytes of the message as characters. They are valid until the message is destroyed.
  [[nodiscard]] std::string_view text() const& noexcept VERBENA_LIFETIMEBOUND {
    return {reinterpret_cast<const char*>(memory_.bytes().data()), length_};
  }
  /// Returns a copy of the bytes of the message as characters. Allocates.
  [[nodiscard]] std::string text() && { return std::string(std::as_const(*this).text()); }
  /// Returns the number of bytes.
  [[nodiscard]] std::uint32_t length() const noexcept { return length_; }
  /// Returns the number of the message, which equals send_result::number() at the sender.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// Returns the buffer, whose first length() bytes are the message, for example to forward it.
  [[nodiscard]] buffer take_buffer() && noexcept {
    length_ = 0;
    return std::move(memory_);
  }

 private:
  buffer memory_;
  std::uint32_t length_;
  std::uint64_t number_;
};

}  // namespace verbena::inline VERBENA_ABI
