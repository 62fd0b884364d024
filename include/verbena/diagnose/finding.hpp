// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {

/// The importance of a finding, in ascending order.
enum class severity : std::uint8_t {
  ok,       ///< no fault
  note,     ///< information
  warning,  ///< works, but poorly or unreliably
  problem,  ///< the subject does not work
};

/// Returns `ok`, `note`, `warning` or `problem`.
[[nodiscard]] const char* to_string(severity of) noexcept;

/// The result of one check. Threads: one thread at a time.
struct finding {
  std::string topic;                  ///< a fixed word, for programs: `memlock`, `gid`
  severity level = severity::ok;      ///< importance
  std::string subject;                ///< the object: `soft0 port 1`; may be empty
  std::string looked_at;              ///< the file, limit or call that was checked
  std::string meaning;                ///< the result and its consequence
  std::vector<std::string> commands;  ///< shell commands that fix it; may be empty
};

}  // namespace verbena::inline VERBENA_ABI::diagnose
