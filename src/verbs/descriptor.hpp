// SPDX-License-Identifier: MIT
// Descriptors that events come from.
#pragma once

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Sets O_NONBLOCK. 0 or the errno of fcntl(2).
[[nodiscard]] int make_non_blocking(int fd) noexcept;

}  // namespace verbena::inline VERBENA_ABI::detail
