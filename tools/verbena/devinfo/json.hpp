// SPDX-License-Identifier: MIT
// Prints a document as JSON: amounts in base units that the keys name, enumerations as {number,
// name}, sets of bits as {mask, names}, unknown values as null.
#pragma once

#include <string>
#include <vector>

#include "tools/verbena/devinfo/document.hpp"

namespace verbena::tool {

/// Returns `{"devices": […]}`, indented, without a newline at the end.
[[nodiscard]] std::string to_json(const std::vector<section>& devices);

}  // namespace verbena::tool
