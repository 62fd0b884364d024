// SPDX-License-Identifier: MIT
#include "softdev/peers/remote_process.hpp"

#include <ctime>

namespace verbena::softdev {

void remote_process::begin_watch(std::uint64_t generation) noexcept {
  generation_ = generation;
  watch_ = process_watch(pid_);
}

/// Returns whether no other process can have the pid yet. A system call once per tick of the system
/// clock (1 to 10 ms): a pid is reused only after as many others as the system permits.
bool remote_process::holds_pid() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const std::int64_t tick = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  if (held_at_.load(std::memory_order_relaxed) == tick) return true;
  if (watch_.exited()) return false;
  held_at_.store(tick, std::memory_order_relaxed);
  return true;
}

copy_outcome remote_process::read(std::span<const iovec> local,
                                  std::span<const iovec> remote) noexcept {
  if (!routes().read) return {copy_status::not_permitted, 0};
  if (!holds_pid()) return {copy_status::process_gone, 0};
  const auto outcome = remote_read(pid_, local, remote);
  if (outcome.status == copy_status::not_permitted) closed_ = true;
  return outcome;
}

copy_outcome remote_process::write(std::span<const iovec> local,
                                   std::span<const iovec> remote) noexcept {
  if (!routes().write) return {copy_status::not_permitted, 0};
  if (!holds_pid()) return {copy_status::process_gone, 0};
  const auto outcome = remote_write(pid_, local, remote);
  if (outcome.status == copy_status::not_permitted) closed_ = true;
  return outcome;
}

}  // namespace verbena::softdev
