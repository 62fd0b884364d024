// SPDX-License-Identifier: MIT
// Pieces of text that several files of this module print.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/text.hpp"
#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// `unknown (7)`: a value of an enumeration that this library does not know.
[[nodiscard]] std::string unknown_value(std::int64_t value);
/// `64 KiB`, `1000 bytes`: the largest unit that is exact.
[[nodiscard]] std::string byte_text(std::uint64_t bytes);
/// Appends `name: value` as a line of its own.
void add_line(std::string& text, std::string_view name, std::string_view value);
/// `1 port`, `2 ports`.
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view what);

}  // namespace verbena::inline VERBENA_ABI::detail
