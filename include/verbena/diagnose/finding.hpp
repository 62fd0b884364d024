// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {

/// How much a finding matters, from least to most.
enum class severity : std::uint8_t {
  ok,       ///< as it should be
  note,     ///< good to know
  warning,  ///< works, but not well or not for ever
  problem,  ///< what it is about does not work
};

/// `ok`, `note`, `warning`, `problem`.
[[nodiscard]] const char* to_string(severity of) noexcept;

/// One thing that was looked at. Threads: one thread at a time.
struct finding {
  std::string topic;                  ///< a fixed word, for programs: `memlock`, `gid`
  severity level = severity::ok;      ///< how much it matters
  std::string subject;                ///< what it is about: `soft0 port 1`; may be empty
  std::string looked_at;              ///< the file, the limit or the call
  std::string meaning;                ///< in words
  std::vector<std::string> commands;  ///< what to type to change it; may be empty
};

}  // namespace verbena::inline VERBENA_ABI::diagnose
