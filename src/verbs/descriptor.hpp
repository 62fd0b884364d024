// SPDX-License-Identifier: MIT
// File descriptors of events.
#pragma once

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Sets O_NONBLOCK. Returns 0 or the errno of fcntl(2).
[[nodiscard]] int make_non_blocking(int fd) noexcept;

}  // namespace verbena::inline VERBENA_ABI::detail
