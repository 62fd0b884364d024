// SPDX-License-Identifier: MIT
// This suite looks at what devices make of mistakes that checked builds stop.
#include "verbena/check/checker.hpp"

namespace {
[[maybe_unused]] const bool is_off = [] {
  verbena::check::switch_off();
  return true;
}();
}  // namespace
