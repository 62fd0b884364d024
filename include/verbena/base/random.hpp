// SPDX-License-Identifier: MIT
// Unpredictable numbers for keys, queue pair numbers and packet sequence numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Fills `out` with random bytes from getrandom(2). If a system call filter denies getrandom(2),
/// reads /dev/urandom. If /dev/urandom cannot be read, uses the clock and the state of the process,
/// and logs a warning. Thread-safe. Makes one system call, or a few without getrandom(2).
void fill_random(std::span<std::byte> out);

/// Returns 32 random bits from the source of fill_random(). Thread-safe. Makes one system call for
/// many numbers. A child of fork(2) never returns a number that its parent also returns.
[[nodiscard]] std::uint32_t random_u32();
/// Returns 64 random bits; see random_u32().
[[nodiscard]] std::uint64_t random_u64();

}  // namespace verbena::inline VERBENA_ABI
