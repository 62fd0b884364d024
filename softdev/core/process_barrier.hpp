// SPDX-License-Identifier: MIT
// A memory barrier that one thread executes for all threads of the process (membarrier(2)), so that
// frequent operations need no barrier.
#pragma once

namespace verbena::softdev {

/// Returns whether run_process_barrier() reaches all threads. If not, each thread needs its own
/// barriers. The result does not change during the life of the process.
[[nodiscard]] bool has_process_barrier() noexcept;

/// Makes all running threads of the process execute a memory barrier, including this one. Takes a
/// few microseconds. If the kernel denies the call, as with a seccomp(2) filter that was installed
/// later, the function waits longer than processors delay stores.
void run_process_barrier() noexcept;

}  // namespace verbena::softdev
