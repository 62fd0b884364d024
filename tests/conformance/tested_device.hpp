// SPDX-License-Identifier: MIT
// The device that the environment names, and how patient the tests are with it. The program says on
// its output which device it found; a name that is not there fails the run before the first test.
#pragma once

#include <chrono>
#include <string>

#include "verbena/base/deadline.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device.hpp"

namespace verbena::conformance {

using namespace std::chrono_literals;

/// The device, opened once for the whole program. Threads: immutable.
struct device_under_test {
  verbena::device listed;
  verbena::context context;
};

/// The device that VERBENA_TEST_DEVICE names; `soft0` if it names none.
[[nodiscard]] const device_under_test& tested();
/// Whether queue pairs are connected by the connection manager, as iWARP demands.
[[nodiscard]] bool is_iwarp();

/// `usual` from now, times VERBENA_TEST_PATIENCE (an emulated machine is many times slower).
[[nodiscard]] deadline patience(std::chrono::milliseconds usual = 10s);

}  // namespace verbena::conformance
