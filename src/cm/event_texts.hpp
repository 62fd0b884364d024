// SPDX-License-Identifier: MIT
// Causes and remedies for the errnos and statuses of the connection manager.
#pragma once

#include <string>
#include <string_view>

#include "verbena/cm/event.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// Returns the error of a call that failed with an errno, with its usual cause.
[[nodiscard]] error call_failed(int code, std::string_view call, std::string_view object);

/// Returns cause and remedy of a failed step.
[[nodiscard]] std::string explain(event_kind kind, int status);

}  // namespace verbena::inline VERBENA_ABI::cm::detail
