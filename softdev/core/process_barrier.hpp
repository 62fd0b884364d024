// SPDX-License-Identifier: MIT
// A memory barrier that one thread executes for all threads of the process (membarrier(2)), so that
// what happens often needs none.
#pragma once

namespace verbena::softdev {

/// Whether run_process_barrier() reaches all threads. If not, each thread needs its own barriers.
/// The answer is the same for the whole life of the process.
[[nodiscard]] bool has_process_barrier() noexcept;

/// Makes all running threads of the process execute a memory barrier, this one included. A few
/// microseconds. If the kernel denies it, which a seccomp(2) filter can do later, waits longer than
/// processors delay stores.
void run_process_barrier() noexcept;

}  // namespace verbena::softdev
