// SPDX-License-Identifier: MIT
// The device of tests that run with any device: VERBENA_TEST_DEVICE; if not set, soft0.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/exception.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena::test {

inline std::string tested_device() {
  const char* const named = std::getenv("VERBENA_TEST_DEVICE");
  return named != nullptr && *named != '\0' ? named : "soft0";
}

inline context open_tested() {
  if (tested_device() == "soft0") return testing_support::open_soft();
  for (const auto& each : list_devices().value())
    if (each.name() == tested_device()) return each.open().value();
  raise(error::unavailable(0, "VERBENA_TEST_DEVICE", tested_device(), "no such device is listed"));
}

}  // namespace verbena::test
