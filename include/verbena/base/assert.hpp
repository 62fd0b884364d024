// SPDX-License-Identifier: MIT
// Programmer errors. A broken rule stops the program with the rule's text; conditions of operation
// are values (result.hpp) and never end here.
#pragma once

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// A rule of this library that a caller broke, and where that was noticed.
struct broken_rule {
  const char* rule;  ///< what must hold, in words
  const char* file;  ///< where the rule was found broken
  int line;          ///< of `file`
  /// Rules about two things that do not go together: where the earlier one was done; else nullptr.
  const char* earlier_file = nullptr;
  int earlier_line = 0;  ///< of `earlier_file`
};

/// Called once before the program is aborted. It may log or throw (in a test); when it returns, the
/// program is aborted.
using broken_rule_handler = void (*)(const broken_rule&);

/// Replaces the handler and returns the previous one; nullptr restores the default, which writes
/// `verbena: rule broken: RULE (FILE:LINE)` to standard error, and for two places
/// `(FILE:LINE; the earlier place is FILE:LINE)`. Thread-safe.
broken_rule_handler set_broken_rule_handler(broken_rule_handler handler) noexcept;

namespace detail {
[[noreturn]] void stop_on_broken_rule(const char* rule, const char* file, int line);
[[noreturn]] void stop_on_broken_rule(const broken_rule& broken);
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI

/// Stops the program with `rule` unless `condition` holds. Always on; for cold paths.
#define VERBENA_ASSERT(condition, rule) \
  (static_cast<bool>(condition)         \
       ? static_cast<void>(0)           \
       : ::verbena::detail::stop_on_broken_rule(rule, __FILE__, __LINE__))

/// The same for hot paths: compiled in checked builds only.
#ifdef VERBENA_CHECKED
#define VERBENA_CHECK(condition, rule) VERBENA_ASSERT(condition, rule)
#else
#define VERBENA_CHECK(condition, rule) static_cast<void>(0)
#endif
