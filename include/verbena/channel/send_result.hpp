// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// Why a message_channel did not accept a message.
enum class send_refusal : std::uint8_t {
  none,            ///< it was accepted
  queue_full,      ///< the send queue is full: EAGAIN
  no_credit,       ///< the peer has not granted a credit for it: EAGAIN
  no_buffer,       ///< no buffer is free for a copy of the bytes: EAGAIN
  too_long,        ///< more bytes than both sides agreed on: EMSGSIZE
  foreign_domain,  ///< memory of another protection domain: EINVAL
  verb,            ///< ibv_post_send(3) failed with code()
  ended,           ///< the channel has failed, or was flushed: ENOTCONN
};

/// The result of sending with a message_channel: the number of the message, or a refusal. Threads:
/// immutable value.
class [[nodiscard("a message can be refused: check it, or call value()")]] send_result {
 public:
  /// Creates the result of an accepted message with this number.
  [[nodiscard]] static constexpr send_result of(std::uint64_t number) noexcept {
    return {number, 0, send_refusal::none};
  }
  /// Creates a refusal.
  [[nodiscard]] static constexpr send_result refuse(send_refusal why, int code) noexcept {
    return {0, code, why};
  }

  /// Returns true if the message was accepted.
  [[nodiscard]] constexpr bool has_value() const noexcept { return why_ == send_refusal::none; }
  /// Returns true if the message was accepted.
  constexpr explicit operator bool() const noexcept { return has_value(); }
  /// Returns number(). Precondition: has_value().
  [[nodiscard]] constexpr std::uint64_t operator*() const noexcept { return number_; }
  /// Returns the number of the message, counted from 1; 0 if it was refused.
  [[nodiscard]] constexpr std::uint64_t number() const noexcept { return number_; }
  /// Returns why the message was refused; after a deadline, what was missing when it passed.
  [[nodiscard]] constexpr send_refusal refusal() const noexcept { return why_; }
  /// Returns the errno; ETIMEDOUT if a deadline passed; 0 on success.
  [[nodiscard]] constexpr int code() const noexcept { return code_; }
  /// Returns true if the message may be accepted later, after completions or credits.
  [[nodiscard]] constexpr bool is_retryable() const noexcept {
    return why_ == send_refusal::queue_full || why_ == send_refusal::no_credit ||
           why_ == send_refusal::no_buffer;
  }

  /// Returns the refusal in words. Precondition: the message was refused. Allocates.
  [[nodiscard]] verbena::error error() const;
  /// Returns the number of the message, or raises error().
  std::uint64_t value() const {
    if (!has_value()) raise(error());
    return number_;
  }

 private:
  constexpr send_result(std::uint64_t number, int code, send_refusal why) noexcept
      : number_(number), code_(code), why_(why) {}

  std::uint64_t number_;
  std::int32_t code_;
  send_refusal why_;
};

}  // namespace verbena::inline VERBENA_ABI
