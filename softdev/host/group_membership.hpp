// SPDX-License-Identifier: MIT
// The multicast groups of this process: those of the engine, announced to other processes and
// hosts.
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
    link& peer_link;
    progress_work& work;
    progress_thread& thread;
    wire_access& wire;
  };
  explicit group_membership(const options& how) noexcept : how_(how) {}
  group_membership(const group_membership&) = delete;
  group_membership& operator=(const group_membership&) = delete;

  /// Announces this process as a user of multicast groups, before it sends to one or joins one.
  /// Pairs with the other users and waits for that, a second at most. Only the first call has an
  /// effect.
  [[nodiscard]] int use();
  /// Attaches a queue pair to a group. After that, all users of groups send its datagrams to this
  /// process. Returns 0 (also if the queue pair is attached already), ENOMEM beyond the limits, or
  /// another errno. Blocks like use().
  [[nodiscard]] int attach(const queue_pair& which, const gid_bytes& group);
  /// Detaches a queue pair. Returns EINVAL if it is not attached.
  [[nodiscard]] int detach(const queue_pair& which, const gid_bytes& group);

 private:
  [[nodiscard]] int meet_users();

  const options how_;
  std::mutex changes_;
  std::atomic<bool> used_{false};
};

}  // namespace verbena::softdev
