// SPDX-License-Identifier: MIT
// Prints counters in the text format of Prometheus, version 0.0.4.
#pragma once

#include <string>
#include <vector>

#include "tools/verbena/devinfo/document.hpp"

namespace verbena::tool {

/// Returns the samples of all devices (describe_counters), each metric with its help and type. If
/// there is no counter, returns an empty text.
[[nodiscard]] std::string to_prometheus(const std::vector<section>& devices);

}  // namespace verbena::tool
