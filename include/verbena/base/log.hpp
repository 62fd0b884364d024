// SPDX-License-Identifier: MIT
// The log hook: what the library must say and cannot return, such as a refused teardown.
#pragma once

#include <cstdint>
#include <string_view>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// How much a line of the log matters, from least to most.
enum class log_level : std::uint8_t {
  debug,    ///< for whoever looks for a fault
  info,     ///< good to know
  warning,  ///< works, but not as asked
  error,    ///< failed, and nothing could be returned
};

/// Receives one line without a newline. Called on the thread that has something to say; it must not
/// throw, and may be called from several threads at once.
using log_hook = void (*)(log_level level, std::string_view line, void* user);

/// Replaces the hook; nullptr restores the default, which writes warnings and errors to standard
/// error. Thread-safe; a call in progress may still use the old hook.
void set_log_hook(log_hook hook, void* user = nullptr) noexcept;

/// Hands one line to the hook.
void log(log_level level, std::string_view line) noexcept;

}  // namespace verbena::inline VERBENA_ABI
