// SPDX-License-Identifier: MIT
#pragma once

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Pauses the processor between two polls of a busy wait.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace verbena::inline VERBENA_ABI::detail
