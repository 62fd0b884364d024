// SPDX-License-Identifier: MIT
// Formatting that several files of this module share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns `unknown (7)` for a value that the enumeration does not have.
[[nodiscard]] std::string unknown_value(std::int64_t value);
/// Returns a size in the largest unit that is exact: `64 KiB`, `1000 bytes`.
[[nodiscard]] std::string byte_text(std::uint64_t bytes);
/// Appends the line `name: value`.
void add_line(std::string& text, std::string_view name, std::string_view value);
/// Returns a number with its noun: `1 port`, `2 ports`.
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view what);

}  // namespace verbena::inline VERBENA_ABI::detail
