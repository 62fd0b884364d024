// SPDX-License-Identifier: MIT
// Where the instructions of a function are: a child process calls the function, and this process
// executes the child's thread one instruction at a time (ptrace(2)).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

namespace bench {

/// How often an instruction was executed. A repeated string instruction counts once per repetition.
struct executed {
  std::uint64_t times = 0;
  bool is_locked = false;       ///< LOCK prefix, or XCHG with memory, or MFENCE
  bool is_system_call = false;  ///< SYSCALL
};
/// Instructions by address. The addresses are also those of this process, except in libraries that
/// `prepare` loads.
using instruction_trace = std::map<std::uint64_t, executed>;

/// Runs `prepare`, then traces what `measured` executes, both in one child process. Other threads
/// of the child are stopped during the trace. Returns nullopt if this is not x86-64, or the kernel
/// does not permit ptrace(2).
[[nodiscard]] std::optional<instruction_trace> trace_instructions(
    const std::function<void()>& prepare, const std::function<void()>& measured);

struct instruction_counts {
  std::uint64_t all = 0;
  std::uint64_t locked = 0;
  std::uint64_t system_calls = 0;
};
/// The counts of `trace_instructions`.
[[nodiscard]] std::optional<instruction_counts> count_instructions(
    const std::function<void()>& prepare, const std::function<void()>& measured);

}  // namespace bench
