// SPDX-License-Identifier: MIT
// The multicast groups of this process: those of the engine, made known to other processes.
#pragma once

#include <atomic>
#include <mutex>

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/host/progress_thread.hpp"
#include "softdev/host/wire_access.hpp"
#include "softdev/peers/link.hpp"

namespace verbena::softdev {

/// Threads: thread-safe. Functions return 0 or an errno.
class group_membership {
 public:
  struct options {
    engine& core;
    link& neighbours;
    progress_work& work;
    progress_thread& thread;
    wire_access& wire;
  };
  explicit group_membership(const options& how) noexcept : how_(how) {}
  group_membership(const group_membership&) = delete;
  group_membership& operator=(const group_membership&) = delete;

  /// Makes this process one of those that send to multicast groups or receive from them: begins to
  /// pair with the others and waits for that, a second at most. Only the first call does something.
  [[nodiscard]] int use();
  /// Attaches a queue pair to a group, after which all that use groups send here. 0 (also when it
  /// is attached already), ENOMEM beyond the limits, or another errno. Blocks as `use`.
  [[nodiscard]] int attach(const queue_pair& which, const gid_bytes& group);
  /// Ends that. EINVAL when it is not attached.
  [[nodiscard]] int detach(const queue_pair& which, const gid_bytes& group);

 private:
  [[nodiscard]] int meet_users();

  const options how_;
  std::mutex changes_;
  std::atomic<bool> used_{false};
};

}  // namespace verbena::softdev
