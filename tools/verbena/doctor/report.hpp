// SPDX-License-Identifier: MIT
// The result of `verbena doctor`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verbena/diagnose/examine.hpp"
#include "verbena/diagnose/finding.hpp"

namespace verbena::tool {

/// The findings and the verdict.
struct doctor_report {
  std::vector<diagnose::finding> findings;
  std::optional<diagnose::usable_port> usable;  ///< the best usable port
  bool enough = false;                          ///< `usable` is of the required kind
  std::string verdict;                          ///< one sentence
};

/// Formats the report as text: 80 columns, one block per finding, the verdict last.
[[nodiscard]] std::string to_text(const doctor_report& of);
/// Formats the report as JSON: docs/guide/doctor.schema.json.
[[nodiscard]] std::string to_json(const doctor_report& of);

}  // namespace verbena::tool
