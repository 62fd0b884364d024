// SPDX-License-Identifier: MIT
// Detects whether this process created an object or inherited it by fork. A child shares
// descriptors and memory with its parent, so it must not use the device's objects.
#pragma once

#include <cstdint>

namespace verbena::softdev {

namespace detail {
// A word that the kernel sets to zero in a child (MADV_WIPEONFORK), also after a raw clone(2).
extern const volatile std::uint32_t* generation_word;
}  // namespace detail

/// Returns the number that distinguishes this process from its forked ancestors; never 0. The first
/// call in a process sets the number. Thread-safe.
[[nodiscard]] std::uint32_t current_generation() noexcept;

/// Returns whether `generation` is the number of this process. Precondition: current_generation()
/// was called before, in this process or an ancestor. One load. Thread-safe.
[[nodiscard]] inline bool is_current_generation(std::uint32_t generation) noexcept {
  return *detail::generation_word == generation;
}

}  // namespace verbena::softdev
