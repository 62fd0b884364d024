// SPDX-License-Identifier: MIT
// The functions of decisions.inc.
#pragma once

#include <string>

namespace decisions {

#define GROUP(title)
#define ROW(name, situation, words) std::string name();
#include "tests/unit/bringup/decisions.inc"
#undef ROW
#undef GROUP

}  // namespace decisions
