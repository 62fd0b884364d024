// SPDX-License-Identifier: MIT
// A document as JSON: units in base units and part of the keys, enumerations as {number, name},
// sets of bits as {mask, names}, unknown values as null.
#pragma once

#include <string>
#include <vector>

#include "tools/verbena/devinfo/document.hpp"

namespace verbena::tool {

/// `{"devices": […]}`, indented, without a newline at the end.
[[nodiscard]] std::string to_json(const std::vector<section>& devices);

}  // namespace verbena::tool
