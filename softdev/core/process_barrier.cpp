// SPDX-License-Identifier: MIT
#include "softdev/core/process_barrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace verbena::softdev {
namespace {

bool membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

bool has_process_barrier() noexcept {
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return registered;
}

void run_process_barrier() noexcept {
  if (!has_process_barrier()) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return;
  }
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // A child of fork must register again.
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
      membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
    return;
  // The kernel has begun to deny the call. Processors delay stores for less than a microsecond.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // lint: allow(sleep): there is no event for it
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace verbena::softdev
