// SPDX-License-Identifier: MIT
// What posting returns: one register, no allocation; turned into an error only when asked.
#pragma once

#include <cstdint>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// The outcome of posting a list of work requests. On failure `accepted()` says how many requests,
/// from the front, the device has taken: they will complete; the one at that index was refused, and
/// neither it nor any behind it is owned by the device.
/// Threads: immutable.
class [[nodiscard("a post can fail: check it or call value()")]] post_status {
 public:
  constexpr post_status() noexcept = default;
  /// Of what a verb returned, and how many requests it had taken.
  constexpr post_status(int code, std::uint32_t accepted) noexcept
      : code_(code), accepted_(accepted) {}

  /// 0, or the errno that the verb returned. Some providers return it negated.
  [[nodiscard]] constexpr int code() const noexcept { return code_ < 0 ? -code_ : code_; }
  /// After a failure: how many requests, from the front of the list, the device has taken.
  [[nodiscard]] constexpr std::uint32_t accepted() const noexcept { return accepted_; }
  /// Whether all requests were taken.
  [[nodiscard]] constexpr bool ok() const noexcept { return code_ == 0; }
  /// As ok().
  constexpr explicit operator bool() const noexcept { return ok(); }

  /// Raises an error that names the refused request; see `error()`.
  void value() const {
    if (!ok()) raise(error());
  }
  /// The failure in words: which request of the list was refused, and the likely cause.
  /// Precondition: !ok().
  [[nodiscard]] verbena::error error() const;

 private:
  std::int32_t code_ = 0;
  std::uint32_t accepted_ = 0;
};

}  // namespace verbena::inline VERBENA_ABI
