// SPDX-License-Identifier: MIT
// The log: messages that no function can return, such as a failure in a destructor.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <utility>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Orders messages by importance, the least important first.
enum class log_level : std::uint8_t {
  debug,    ///< for debugging: objects created and destroyed, choices made
  info,     ///< normal but notable
  warning,  ///< works, but not as requested
  error,    ///< a failure that could not be returned
  off,      ///< only a threshold: no message is logged
};

/// Receives one line without a newline. The hook must not throw.
///
/// The library calls the hook on the thread that logs, possibly on several threads at once.
using log_hook = void (*)(log_level level, std::string_view line, void* user);

/// Replaces the hook, which receives the messages of level `lowest` and above. The library passes
/// `user` to each call of the hook.
///
/// nullptr restores the default hook, which writes `verbena: LEVEL: LINE` to standard error, and
/// ignores `lowest`. The lowest level of the default hook is `warning`, or the level in the
/// environment variable VERBENA_LOG: `debug`, `info`, `warning`, `error` or `off`. Thread-safe; a
/// call in progress may still use the previous hook.
void set_log_hook(log_hook hook, void* user = nullptr,
                  log_level lowest = log_level::debug) noexcept;

/// Sets the lowest level that the current hook receives. Thread-safe.
void set_log_level(log_level lowest) noexcept;

/// Returns whether the current hook receives messages of `level`. Thread-safe; one atomic load.
[[nodiscard]] bool is_logged(log_level level) noexcept;

/// Passes one line to the hook if is_logged(level). Thread-safe.
void log(log_level level, std::string_view line) noexcept;

/// Passes the line that `make()` returns to the hook. Calls `make` only if is_logged(level).
template <std::invocable Make>
void log(log_level level, Make&& make) {
  if (is_logged(level)) log(level, std::string_view(std::forward<Make>(make)()));
}

}  // namespace verbena::inline VERBENA_ABI
