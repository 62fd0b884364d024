// SPDX-License-Identifier: MIT
// Steps of a process: its stores to memory that it shares with other processes, and its system
// calls. A step can be counted, can end the process, and a system call can fail instead.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::softdev::testing {

/// Steps that a child has executed, in memory that it shares with its parent.
struct step_report {
  std::atomic<std::uint32_t> count{0};  ///< steps since the start of counting
  std::atomic<int> number{0};           ///< of the system call at the chosen step
  std::atomic<int> phase{0};            ///< meaning given by the test
  std::atomic<std::uint64_t> value{0};  ///< likewise
};

/// Counts the stores of this process to shared memory: its mappings of memory files are read-only
/// meanwhile, and each store is a fault. At the store `last` (from 1), before the store, the
/// process is killed. x86-64 only: returns false elsewhere.
[[nodiscard]] bool count_stores(step_report& report, std::uint32_t last);
/// Ends counting.
void stop_counting_stores();

/// How a system call fails.
enum class call_failure : std::uint8_t {
  resource,   ///< ENOMEM, EMFILE, ENOBUFS …: that of a limit
  denied,     ///< EPERM, as by a filter
  transient,  ///< EINTR or EAGAIN
};

/// Lets a thread of this process decide on each system call of the calling thread, and of threads
/// that it starts. Calls without which the C library ends the process are not observed, and neither
/// are those that only return resources. Returns false if the kernel does not permit it.
[[nodiscard]] bool observe_system_calls(step_report& report);
/// Kills this process at the observed call `last` (from 1) from now on.
void kill_at_system_call(std::uint32_t last);
/// Makes the observed call `last` (from 1) from now on fail.
void fail_system_call(std::uint32_t last, call_failure how);
/// Permits each call again. Returns the number of calls since the last of the above.
std::uint32_t permit_system_calls();

}  // namespace verbena::softdev::testing
