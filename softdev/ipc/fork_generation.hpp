// SPDX-License-Identifier: MIT
// Tells a forked child from the process that made an object. A child shares descriptors and memory
// with its parent, so the device's objects must not be used there.
#pragma once

#include <cstdint>

namespace verbena::softdev {

namespace detail {
// A word that the kernel sets to zero in a child (MADV_WIPEONFORK), also after a raw clone(2).
extern const volatile std::uint32_t* generation_word;
}  // namespace detail

/// The number of this process among its forked ancestors; never 0. The first call in a process
/// establishes it. Thread-safe.
[[nodiscard]] std::uint32_t current_generation() noexcept;

/// True when `generation` is this process's. Precondition: current_generation() was called before,
/// in this process or an ancestor. One load. Thread-safe.
[[nodiscard]] inline bool is_current_generation(std::uint32_t generation) noexcept {
  return *detail::generation_word == generation;
}

}  // namespace verbena::softdev
