// SPDX-License-Identifier: MIT
// The words of failed creations.
#pragma once

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The error of a creating verb on `object`, with what usually stands behind its errno.
[[nodiscard]] error creation_error(int code, std::string_view call, std::string_view object);

/// What was asked for and what the device has; a negative limit is none.
struct asked_amount {
  const char* what;
  std::uint32_t asked;
  int limit;
};
/// `max_wr 20 > the device's maximum 10, …` for what exceeds its limit; empty if nothing does.
[[nodiscard]] std::string above_limits(std::initializer_list<asked_amount> amounts);

}  // namespace verbena::inline VERBENA_ABI::detail
