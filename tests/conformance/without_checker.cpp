// SPDX-License-Identifier: MIT
// Disables the checker: the suite tests the reaction of devices to invalid requests.
#include "verbena/check/checker.hpp"

namespace {
[[maybe_unused]] const bool is_off = [] {
  verbena::check::switch_off();
  return true;
}();
}  // namespace
