// SPDX-License-Identifier: MIT
// What went wrong: which call, which number, on which object, and in words what to do about it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Says what `error::code()` is a number of.
enum class error_kind : std::uint8_t {
  os,                ///< a verb or system call failed; the code is its errno (0: it gave none)
  completion,        ///< a work request failed; the code is its ibv_wc_status
  not_supported,     ///< device, provider or build lacks it; the code is an errno or 0
  invalid_argument,  ///< refused before any verb was called; the code is EINVAL
  timed_out,         ///< a deadline passed; the code is ETIMEDOUT
  protocol,          ///< bytes from outside break their format; the code is EPROTO
  unavailable,       ///< a library, module or device is not there; the code is an errno or 0
};

/// A failed call. The number that the call gave is never lost; `diagnosis` names the likely cause
/// and the remedy. Threads: one thread at a time. Copying allocates.
class [[nodiscard]] error {
 public:
  /// The parts of an error; `object` and `diagnosis` may be empty.
  struct parts {
    error_kind kind = error_kind::os;  ///< what `code` is a number of
    int code = 0;                      ///< the number that the call gave
    std::string call;                  ///< the verb or function, as in the man page: `ibv_reg_mr`
    std::string object;     ///< what it was called on: `soft0`, `queue pair 0x11 on soft0`
    std::string diagnosis;  ///< cause and remedy in words
  };

  /// From its parts, as they are.
  explicit error(parts what) noexcept : parts_(std::move(what)) {}

  /// An errno of `call`. EOPNOTSUPP and EPROTONOSUPPORT become `not_supported`; the code is kept.
  static error from_errno(int code, std::string_view call, std::string_view object = {},
                          std::string_view diagnosis = {});
  /// The device, the provider or the build lacks what was asked; the code is EOPNOTSUPP.
  static error not_supported(std::string_view call, std::string_view object,
                             std::string_view diagnosis);
  /// An argument that was refused before any verb was called; the code is EINVAL.
  static error invalid_argument(std::string_view call, std::string_view object,
                                std::string_view diagnosis);
  /// A deadline that passed; the code is ETIMEDOUT.
  static error timed_out(std::string_view call, std::string_view object,
                         std::string_view diagnosis);
  /// Bytes from outside that break their format; the code is EPROTO.
  static error protocol(std::string_view call, std::string_view object, std::string_view diagnosis);
  /// A library, module or device that is not there; `code` is an errno, or 0.
  static error unavailable(int code, std::string_view call, std::string_view object,
                           std::string_view diagnosis);

  /// What code() is a number of.
  [[nodiscard]] error_kind kind() const noexcept { return parts_.kind; }
  /// The number that the call gave.
  [[nodiscard]] int code() const noexcept { return parts_.code; }
  /// The verb or function that failed, as in its man page.
  [[nodiscard]] const std::string& call() const noexcept { return parts_.call; }
  /// What it was called on; may be empty.
  [[nodiscard]] const std::string& object() const noexcept { return parts_.object; }
  /// Cause and remedy in words; may be empty.
  [[nodiscard]] const std::string& diagnosis() const noexcept { return parts_.diagnosis; }

  /// True when the code is the errno `value` (never for a completion status).
  [[nodiscard]] bool is(std::errc value) const noexcept;

  /// One line: `ibv_reg_mr on soft0 failed: Cannot allocate memory (errno 12): …`.
  [[nodiscard]] std::string message() const;

  /// The same error with more context: `more` is appended to the diagnosis.
  error with_diagnosis(std::string_view more) &&;

 private:
  parts parts_;
};

/// Throws `exception` (or, without exceptions, prints the message and aborts).
[[noreturn]] void raise(error what);

}  // namespace verbena::inline VERBENA_ABI
