// SPDX-License-Identifier: MIT
// The words of failed creations of queues.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The error of a creating verb on `object`, with what usually stands behind its errno.
[[nodiscard]] error creation_error(int code, std::string_view call, std::string_view object);

}  // namespace verbena::inline VERBENA_ABI::detail
