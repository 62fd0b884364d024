// SPDX-License-Identifier: MIT
// Numbers that nobody can predict: keys, queue pair numbers, sequence numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Fills `out` from getrandom(2). Stops the program if the kernel has no random numbers.
/// Thread-safe; one system call.
void fill_random(std::span<std::byte> out);

/// 32 random bits; see fill_random().
[[nodiscard]] std::uint32_t random_u32();
/// 64 random bits; see fill_random().
[[nodiscard]] std::uint64_t random_u64();

}  // namespace verbena::inline VERBENA_ABI
