// SPDX-License-Identifier: MIT
// Errors of creating verbs.
#pragma once

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns the error of a creating verb on `object` with the usual cause of its errno.
[[nodiscard]] error creation_error(int code, std::string_view call, std::string_view object);

/// A requested amount and the limit of the device. A negative limit means that there is no limit.
struct requested_amount {
  const char* what;
  std::uint32_t requested;
  int limit;
};
/// Returns the amounts that exceed their limits, as `max_wr 20 exceeds the device's maximum of 10`.
/// Returns an empty string if no amount does.
[[nodiscard]] std::string above_limits(std::initializer_list<requested_amount> amounts);

}  // namespace verbena::inline VERBENA_ABI::detail
