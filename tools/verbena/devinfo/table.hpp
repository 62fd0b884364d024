// SPDX-License-Identifier: MIT
// Prints a document as text: one line per field, 80 columns, lists of small entries as tables.
#pragma once

#include <string>

#include "tools/verbena/devinfo/document.hpp"

namespace verbena::tool {

/// Returns the lines of one device, each with its newline.
[[nodiscard]] std::string to_table(const section& device);

}  // namespace verbena::tool
