// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/error.hpp"
#include "verbena/channel/received_message.hpp"

namespace verbena::inline VERBENA_ABI {

/// The result of waiting for a message: the message, a deadline that passed, or the failure of the
/// channel. Threads: one thread at a time.
class [[nodiscard("a wait can fail: check the result, or call value()")]] receive_result {
 public:
  /// Holds a message.
  // NOLINTNEXTLINE(google-explicit-constructor): a returned message becomes a result
  receive_result(received_message&& message) noexcept
      : message_(std::move(message)), has_message_(true) {}
  /// Creates the result of a passed deadline. The channel is unaffected.
  receive_result() noexcept = default;
  /// Creates the result of a channel that has ended.
  // NOLINTNEXTLINE(google-explicit-constructor): a returned error becomes a result
  receive_result(verbena::error why) noexcept : failure_(std::move(why)) {}

  /// Returns true if there is a message.
  [[nodiscard]] bool has_value() const noexcept { return has_message_; }
  /// Returns true if there is a message.
  explicit operator bool() const noexcept { return has_value(); }
  /// Returns true if the deadline passed; the call can be repeated.
  [[nodiscard]] bool timed_out() const noexcept { return !has_message_ && !failure_; }

  /// Returns the message. Precondition: has_value().
  [[nodiscard]] received_message& operator*() & { return check(), message_; }
  /// Returns the message. Precondition: has_value().
  [[nodiscard]] const received_message& operator*() const& { return check(), message_; }
  /// Returns the message. Precondition: has_value().
  [[nodiscard]] received_message operator*() && { return check(), std::move(message_); }
  /// Returns the message. Precondition: has_value().
  [[nodiscard]] received_message* operator->() & { return check(), &message_; }
  /// Returns the message. Precondition: has_value().
  [[nodiscard]] const received_message* operator->() const& { return check(), &message_; }
  /// Not for temporary objects: the buffer of the message would be used again.
  received_message* operator->() && = delete;
  /// Not for temporary objects: the buffer of the message would be used again.
  const received_message* operator->() const&& = delete;

  /// Returns the message, or raises error().
  [[nodiscard]] received_message value() && {
    if (!has_message_) raise(error());
    return std::move(message_);
  }
  /// Returns `timed_out`, or the failure of the channel in words.
  /// Precondition: !has_value(). Allocates.
  [[nodiscard]] verbena::error error() const;

 private:
  void check() const {
    VERBENA_ASSERT(has_message_,
                   "a receive_result without a message was dereferenced: check it first");
  }

  received_message message_{buffer(), 0, 0};  // empty without a message
  bool has_message_ = false;
  std::optional<verbena::error> failure_;
};

}  // namespace verbena::inline VERBENA_ABI
