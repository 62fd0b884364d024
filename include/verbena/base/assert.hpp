// SPDX-License-Identifier: MIT
// Programming errors: a violated precondition stops the program and names the rule. Operating
// conditions are values (result.hpp) and never stop the program.
#pragma once

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Describes a violated rule of this library and the place of the violation.
struct contract_violation {
  const char* rule;  ///< the rule or the fault, in words
  const char* file;  ///< the file that found the violation
  int line;          ///< the line in `file`
  /// The file of the first of two conflicting calls; nullptr if the rule is about one call.
  const char* earlier_file = nullptr;
  int earlier_line = 0;  ///< the line in `earlier_file`
};

/// Handles a violated rule. The handler may log, or throw in a test; in a noexcept function or a
/// destructor, an exception ends the program. When it returns, the library aborts the program.
using violation_handler = void (*)(const contract_violation&);

/// Replaces the handler and returns the previous one; nullptr restores the default.
///
/// The default handler writes `verbena: usage error: RULE (FILE:LINE)` to standard error. For two
/// conflicting calls, it writes `(FILE:LINE; the earlier call is at FILE:LINE)`. Thread-safe.
violation_handler set_violation_handler(violation_handler handler) noexcept;

namespace detail {
[[noreturn]] void stop_on_violation(const char* rule, const char* file, int line);
[[noreturn]] void stop_on_violation(const contract_violation& broken);
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI

/// Stops the program and reports `rule` if `condition` is false. Active in all builds; for cold
/// paths.
#define VERBENA_ASSERT(condition, rule)                \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::verbena::detail::stop_on_violation(rule, __FILE__, __LINE__))

/// Acts as VERBENA_ASSERT in checked builds; has no effect in other builds. For hot paths.
#ifdef VERBENA_CHECKED
#define VERBENA_CHECK(condition, rule) VERBENA_ASSERT(condition, rule)
#else
#define VERBENA_CHECK(condition, rule) static_cast<void>(0)
#endif
