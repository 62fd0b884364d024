// SPDX-License-Identifier: MIT
// The device under test and the time limits of the tests. The program prints the device. If the
// device does not exist, the run fails before the first test.
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

/// Returns the device that VERBENA_TEST_DEVICE names, by default `soft0`.
[[nodiscard]] const device_under_test& tested();
/// Returns whether the device is an iWARP device, whose queue pairs the connection manager
/// connects.
[[nodiscard]] bool is_iwarp();

/// Returns whether the first port is one of InfiniBand: addresses have LIDs, a GRH is optional, and
/// GIDs have no network interfaces.
[[nodiscard]] bool is_infiniband();
/// Returns whether the device is an Elastic Fabric Adapter, which has no connected queue pairs.
[[nodiscard]] bool is_efa();
/// Returns whether the device is one of RoCE or iWARP.
[[nodiscard]] inline bool is_on_ethernet() { return !is_infiniband() && !is_efa(); }

/// Returns the deadline after `timeout`, multiplied by VERBENA_TEST_TIMEOUT_FACTOR.
[[nodiscard]] deadline test_deadline(std::chrono::milliseconds timeout = 10s);

}  // namespace verbena::conformance
