// SPDX-License-Identifier: MIT
// The process of a peer: its identity, its exit, and copies to and from its memory by
// process_vm_readv(2) and process_vm_writev(2).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "softdev/ipc/process_memory.hpp"
#include "softdev/ipc/process_watch.hpp"
#include "softdev/peers/peer_status.hpp"

namespace verbena::softdev {

/// Threads: thread-safe once paired. Before that, only the service uses it.
class remote_process {
 public:
  /// The pid; 0 if unknown.
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Differs between successive processes in one slot; 0 if unknown.
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  [[nodiscard]] const process_watch& watch() const noexcept { return watch_; }
  /// Returns whether the process has exited. If it cannot be watched (it is in another pid
  /// namespace, or no descriptor was free), returns whether the pairing has ended. Costs a system
  /// call.
  [[nodiscard]] bool is_gone(const peer_status& pairing) const noexcept {
    return watch_.watchable() ? watch_.exited() : pairing.state() == peer_state::dead;
  }

  /// The copies that process_vm_* can do. They are found by trial and limited by the route policy.
  [[nodiscard]] copy_routes routes() const noexcept {
    return closed_.load(std::memory_order_relaxed) ? copy_routes{} : routes_;
  }
  /// Copy from or to addresses of the process. The caller is in an active section. `not_permitted`
  /// closes the routes; `process_gone` means that the process has exited.
  [[nodiscard]] copy_outcome read(std::span<const iovec> local,
                                  std::span<const iovec> remote) noexcept;
  [[nodiscard]] copy_outcome write(std::span<const iovec> local,
                                   std::span<const iovec> remote) noexcept;

  // Called while pairing.
  void set_pid(pid_t pid) noexcept { pid_ = pid; }
  /// Begins to watch for the exit of the process.
  void begin_watch(std::uint64_t generation) noexcept;
  /// Tries which copies work, at addresses that the process sent.
  void find_routes(const probe_place& there) noexcept { routes_ = probe_copy(pid_, there); }

  /// Closes the descriptor in a child of fork.
  void close() noexcept { watch_ = process_watch(); }

 private:
  [[nodiscard]] bool holds_pid() noexcept;

  pid_t pid_ = 0;
  std::uint64_t generation_ = 0;
  process_watch watch_;
  std::atomic<std::int64_t> held_at_ = 0;  ///< when the process last was known to have the pid
  copy_routes routes_;
  std::atomic<bool> closed_ = false;
};

}  // namespace verbena::softdev
