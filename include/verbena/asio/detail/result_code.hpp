// SPDX-License-Identifier: MIT
// The codes that handlers receive for the results of operations.
#pragma once

#include <asio/error.hpp>
#include <asio/error_code.hpp>

#include <cerrno>
#include <system_error>
#include <type_traits>

#include "verbena/base/error.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/receive_result.hpp"
#include "verbena/channel/send_result.hpp"

namespace verbena::inline VERBENA_ABI::asio::detail {

static_assert(std::is_same_v<::asio::error_code, std::error_code>,
              "verbena::asio needs Asio without Boost");

/// Returns an errno in the category of asio::error.
[[nodiscard]] inline std::error_code errno_code(int code) {
  return {code, ::asio::error::get_system_category()};
}
[[nodiscard]] inline std::error_code code_of(const error& why) {
  if (why.kind() == error_kind::completion || why.code() == 0) return make_error_code(why);
  return errno_code(why.code());
}
[[nodiscard]] inline std::error_code code_of(const operation_result& how) {
  if (how) return {};
  if (how.end() == operation_end::failed)
    return {static_cast<int>(how.completion()->status()), completion_category()};
  return errno_code(how.code() != 0 ? how.code() : ECANCELED);
}
[[nodiscard]] inline std::error_code code_of(const receive_result& how) {
  if (how) return {};
  return how.timed_out() ? errno_code(ETIMEDOUT) : code_of(how.error());
}
[[nodiscard]] inline std::error_code code_of(const send_result& how) {
  return how ? std::error_code() : errno_code(how.code());
}

template <class T>
[[nodiscard]] std::error_code code_of(const result<T>& how) {
  return how.has_value() ? std::error_code() : code_of(how.error());
}

/// The result of async_drain(): 0 or an errno.
struct drain_result {
  int code = 0;
  explicit operator bool() const noexcept { return code == 0; }
};
[[nodiscard]] inline std::error_code code_of(const drain_result& how) {
  return how ? std::error_code() : errno_code(how.code);
}

}  // namespace verbena::inline VERBENA_ABI::asio::detail
