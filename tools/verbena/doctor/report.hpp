// SPDX-License-Identifier: MIT
// What `verbena doctor` found, before it is printed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verbena/diagnose/examine.hpp"
#include "verbena/diagnose/finding.hpp"

namespace verbena::tool {

/// The findings and their outcome.
struct doctor_report {
  std::vector<diagnose::finding> findings;
  std::optional<diagnose::usable_port> usable;  ///< the best port that works
  bool enough = false;                          ///< it is what was required
  std::string verdict;                          ///< one sentence
};

/// For people: 80 columns, a block for each finding, the verdict last.
[[nodiscard]] std::string to_text(const doctor_report& of);
/// For programs: docs/guide/doctor.schema.json.
[[nodiscard]] std::string to_json(const doctor_report& of);

}  // namespace verbena::tool
