// SPDX-License-Identifier: MIT
// A failed call: the call, its errno or status, the object, and the likely cause with the remedy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "verbena/base/attributes.hpp"
#include "verbena/base/config.hpp"
#include "verbena/base/shared_text.hpp"

namespace verbena::inline VERBENA_ABI {

/// The kind of an error, which determines the meaning of error::code().
enum class error_kind : std::uint8_t {
  os = 1,            ///< a verb or system call failed; the code is its errno, or 0
  completion,        ///< a work request failed; the code is its ibv_wc_status
  not_supported,     ///< the device, provider or build lacks a feature; the code is an errno or 0
  invalid_argument,  ///< an argument was invalid, no verb was called; the code is EINVAL
  timed_out,         ///< a deadline passed; the code is ETIMEDOUT
  protocol,          ///< received bytes violate their format; the code is EPROTO
  unavailable,       ///< a library, module or device is missing; the code is an errno or 0
};

/// Describes a failed call, its cause and the remedy.
///
/// Contains the code of the failed call. String literals are not copied, and copies of an error
/// share their texts. Therefore copying an error never allocates, and making an error of literals
/// does not allocate. Threads: one thread at a time; copies are independent.
class [[nodiscard]] error {
 public:
  /// Makes an error from its parts.
  ///
  /// `call`: the verb or function, as in its man page (`ibv_reg_mr`). `object`: the object of the
  /// call (`soft0`, `queue pair 0x11 on soft0`). `diagnosis`: cause and remedy in words.
  error(error_kind kind, int code, text_argument call, text_argument object = {},
        text_argument diagnosis = {});

  /// Makes an error from an errno. EOPNOTSUPP and EPROTONOSUPPORT become `not_supported`.
  static error from_errno(int code, text_argument call, text_argument object = {},
                          text_argument diagnosis = {});
  /// Makes an error of kind `not_supported` with the code EOPNOTSUPP.
  static error not_supported(text_argument call, text_argument object, text_argument diagnosis);
  /// Makes an error of kind `invalid_argument` with the code EINVAL.
  static error invalid_argument(text_argument call, text_argument object, text_argument diagnosis);
  /// Makes an error of kind `timed_out` with the code ETIMEDOUT.
  static error timed_out(text_argument call, text_argument object, text_argument diagnosis);
  /// Makes an error of kind `protocol` with the code EPROTO.
  static error protocol(text_argument call, text_argument object, text_argument diagnosis);
  /// Makes an error of kind `unavailable`; `code` is an errno, or 0.
  static error unavailable(int code, text_argument call, text_argument object,
                           text_argument diagnosis);

  /// Returns the kind, which determines the meaning of code().
  [[nodiscard]] error_kind kind() const noexcept { return kind_; }
  /// Returns the errno or completion status of the failed call; see kind().
  [[nodiscard]] int code() const noexcept { return code_; }
  /// Returns the verb or function that failed, as in its man page.
  [[nodiscard]] std::string_view call() const& noexcept VERBENA_LIFETIMEBOUND {
    return call_.view();
  }
  /// Returns a copy, because a temporary error does not outlive the call. Allocates.
  [[nodiscard]] std::string call() && { return call_.string(); }
  /// Returns the object of the call; may be empty.
  [[nodiscard]] std::string_view object() const& noexcept VERBENA_LIFETIMEBOUND {
    return object_.view();
  }
  /// Returns a copy, because a temporary error does not outlive the call. Allocates.
  [[nodiscard]] std::string object() && { return object_.string(); }
  /// Returns cause and remedy in words; may be empty.
  [[nodiscard]] std::string_view diagnosis() const& noexcept VERBENA_LIFETIMEBOUND {
    return diagnosis_.view();
  }
  /// Returns a copy, because a temporary error does not outlive the call. Allocates.
  [[nodiscard]] std::string diagnosis() && { return diagnosis_.string(); }

  /// Returns whether the code is the errno `value`; always false for a completion status.
  [[nodiscard]] bool is(std::errc value) const noexcept;

  /// Returns one line: `ibv_reg_mr on soft0 failed: Cannot allocate memory (errno 12): …`.
  [[nodiscard]] std::string message() const;

  /// Appends `more` to the diagnosis.
  error with_diagnosis(std::string_view more) &&;

 private:
  shared_text call_;
  shared_text object_;
  shared_text diagnosis_;
  int code_;
  error_kind kind_;
};

/// Throws `exception`. In builds without exceptions, prints the message and aborts.
[[noreturn]] void raise(error what);

/// Prints `error: MESSAGE` to standard error and returns 1, the exit status for main().
int print_error(const error& what);

/// Returns the category of the error codes that are error_kind values.
[[nodiscard]] const std::error_category& category() noexcept;
/// Returns the category of the error codes that are completion statuses (ibv_wc_status).
[[nodiscard]] const std::error_category& completion_category() noexcept;

/// Returns `kind` as a code of category(). Its condition is the errno that the kind implies:
/// `make_error_code(error_kind::timed_out) == std::errc::timed_out`.
[[nodiscard]] std::error_code make_error_code(error_kind kind) noexcept;
/// Returns the code of an error without its texts.
///
/// A completion status is in completion_category(). The kinds `timed_out`, `invalid_argument` and
/// `protocol`, and errors with the code 0, are in category(). All others are an errno in
/// std::generic_category().
[[nodiscard]] std::error_code make_error_code(const error& what) noexcept;

}  // namespace verbena::inline VERBENA_ABI

/// Permits comparisons of error_kind with std::error_code.
template <>
struct std::is_error_code_enum<verbena::error_kind> : std::true_type {};
