// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// Why a message_channel did not take a message.
enum class send_refusal : std::uint8_t {
  none,            ///< it took it
  queue_full,      ///< as many messages are on their way as it has places: EAGAIN
  no_credit,       ///< the peer has no receive posted for it: EAGAIN
  no_buffer,       ///< no buffer to copy the bytes to is free: EAGAIN
  too_long,        ///< more bytes than both sides agreed on: EMSGSIZE
  foreign_domain,  ///< memory of another protection domain: EINVAL
  verb,            ///< ibv_post_send(3) refused it with code()
  ended,           ///< the channel has failed, or was flushed: ENOTCONN
};

/// Whether a message_channel took a message. Threads: immutable value.
class [[nodiscard("a message can be refused: check it, or call value()")]] send_result {
 public:
  /// It has the message, whose number is `number`.
  [[nodiscard]] static constexpr send_result of(std::uint64_t number) noexcept {
    return {number, 0, send_refusal::none};
  }
  /// It does not have it.
  [[nodiscard]] static constexpr send_result refuse(send_refusal why, int code) noexcept {
    return {0, code, why};
  }

  /// Whether it has the message.
  [[nodiscard]] constexpr bool ok() const noexcept { return why_ == send_refusal::none; }
  /// As ok().
  constexpr explicit operator bool() const noexcept { return ok(); }
  /// Its number: 1 is the first message that this side sent. 0 if !ok().
  [[nodiscard]] constexpr std::uint64_t number() const noexcept { return number_; }
  /// Why it was not taken. Of a call with a deadline: what was still missing when that passed.
  [[nodiscard]] constexpr send_refusal refusal() const noexcept { return why_; }
  /// The errno; ETIMEDOUT when a deadline passed; 0 if ok().
  [[nodiscard]] constexpr int code() const noexcept { return code_; }
  /// Whether the same message may be taken later, when something has completed.
  [[nodiscard]] constexpr bool may_be_tried_again() const noexcept {
    return why_ == send_refusal::queue_full || why_ == send_refusal::no_credit ||
           why_ == send_refusal::no_buffer;
  }

  /// The refusal in words. Precondition: !ok(). Allocates.
  [[nodiscard]] verbena::error error() const;
  /// The number, or raises error().
  std::uint64_t value() const {
    if (!ok()) raise(error());
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
