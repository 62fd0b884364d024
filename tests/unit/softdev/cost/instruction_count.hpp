// SPDX-License-Identifier: MIT
// Counts the instructions of a function: a child process calls the function, and this process
// executes the child one instruction at a time (ptrace(2)).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace verbena::softdev::testing {

/// The instructions that the child executes between its two marks.
struct executed_instructions {
  std::uint64_t all = 0;
  /// With a LOCK prefix, or XCHG with memory, or MFENCE: each waits for earlier stores.
  std::uint64_t locked = 0;
  std::uint64_t system_calls = 0;
};

/// Runs `prepare`, then counts what `measured` executes in its first thread, both in one child
/// process. Returns nullopt if this is not x86-64, or the kernel does not permit ptrace(2).
[[nodiscard]] std::optional<executed_instructions> count_instructions(
    const std::function<void()>& prepare, const std::function<void()>& measured);

}  // namespace verbena::softdev::testing
