// SPDX-License-Identifier: MIT
// What stands behind the errnos and statuses of the connection manager, in words.
#pragma once

#include <string>
#include <string_view>

#include "verbena/cm/event.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// The error of a call that reports an errno, with its usual cause.
[[nodiscard]] error call_failed(int code, std::string_view call, std::string_view object);

/// The words of a failed step: cause and remedy.
[[nodiscard]] std::string explain(event_kind kind, int status);

}  // namespace verbena::inline VERBENA_ABI::cm::detail
