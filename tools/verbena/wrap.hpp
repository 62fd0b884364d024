// SPDX-License-Identifier: MIT
// Formats text in lines of 80 columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace verbena::tool {

/// Appends `text` in lines of at most 80 columns, and a newline. All lines are indented by `indent`
/// blanks except the first one, which continues the current line at that column.
void append_wrapped(std::string& out, std::string_view text, std::size_t indent);

}  // namespace verbena::tool
