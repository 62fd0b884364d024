// SPDX-License-Identifier: MIT
// The handler for accesses to payload that is not accessible: unmapped or protected after it was
// registered, or beyond the end of its file.
#pragma once

namespace verbena::softdev {

/// Installs a handler of SIGSEGV and SIGBUS, so that the functions of softdev/core/copy.hpp return
/// a fault instead of raising a signal. All other faults and signals go to the previous handlers as
/// if this one did not exist; the default action ends the process at the faulting instruction. If
/// the program replaces the handler later, only the program's handler runs. Does nothing on a
/// processor without a table of instructions. Thread-safe if called once.
void install_memory_fault_handler() noexcept;

/// Calls install_memory_fault_handler() once, unless VERBENA_SOFTDEV_PAGE_FAULTS is "signal".
/// Thread-safe.
void catch_memory_faults() noexcept;

/// Returns whether a fault of this thread reaches the handler now: it is installed, the program has
/// not replaced it, and the thread does not block the signal. Two system calls. Thread-safe.
[[nodiscard]] bool memory_faults_are_caught() noexcept;

}  // namespace verbena::softdev
