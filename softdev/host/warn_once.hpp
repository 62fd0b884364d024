// SPDX-License-Identifier: MIT
// Warnings that would otherwise repeat with each call.
#pragma once

#include <string_view>

namespace verbena::softdev {

/// Logs the line as a warning, unless this process has logged an equal line by this function. A
/// child of fork(2) logs it again. Does not allocate; thread-safe. After 256 different lines, new
/// lines may repeat.
void warn_once(std::string_view line) noexcept;

}  // namespace verbena::softdev
