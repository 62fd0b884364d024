// SPDX-License-Identifier: MIT
// What a forwarder must say and cannot return. It has no log hook: it lives in programs that do not
// know this project.
#pragma once

namespace verbena::forward {

/// Writes one line, `verbena: WHAT WHY`, to standard error. Thread-safe; keeps errno.
void complain(const char* what, const char* why) noexcept;

}  // namespace verbena::forward
