// SPDX-License-Identifier: MIT
// Declares the functions that decisions.inc names.
#pragma once

#include <string>

namespace decisions {

#define GROUP(title)
#define ROW(name, situation, words) std::string name();
#include "tests/unit/bringup/decisions.inc"
#undef ROW
#undef GROUP

}  // namespace decisions
