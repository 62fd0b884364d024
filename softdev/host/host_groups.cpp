// SPDX-License-Identifier: MIT
// Multicast groups of the device: those of the engine, made known to other processes.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "softdev/host/host.hpp"

namespace verbena::softdev {
namespace {

/// How long a process waits for the others that use groups. One that takes longer is stopped.
constexpr std::chrono::milliseconds pairing_patience{1000};
constexpr int between_looks_ms = 2;

bool is_connecting(const std::shared_ptr<peer>& which) noexcept {
  return which->state() == peer_state::connecting;
}

}  // namespace

/// Who paired with us has seen us, so that what it sends from now on comes here, too.
int host::meet_group_users() {
  if (const int failed = start_thread()) return failed;
  const auto others = link_->meet_group_users();
  if (!others) return others.error().code();
  const auto until = link::time_point::clock::now() + pairing_patience;
  while (std::ranges::any_of(*others, is_connecting) && link::time_point::clock::now() < until) {
    tend();
    thread_.wake();  // it may have to tend at an earlier time now
    pollfd sockets{link_->service_fd(), POLLIN, 0};
    if (std::ranges::any_of(*others, is_connecting)) ::poll(&sockets, 1, between_looks_ms);
  }
  uses_groups_.store(true, std::memory_order_release);
  return 0;
}

int host::use_groups() {
  if (uses_groups_.load(std::memory_order_acquire)) return 0;
  const std::lock_guard lock(groups_);
  return uses_groups_.load() ? 0 : meet_group_users();
}

int host::attach(const queue_pair& which, const gid_bytes& group) {
  const std::lock_guard lock(groups_);
  multicast_groups& known = engine_->groups();
  const auto changed = known.attach(group, which.number());
  if (changed == multicast_groups::change::no_room) return ENOMEM;
  if (changed == multicast_groups::change::group && !link_->segment().publish_group(group)) {
    static_cast<void>(known.detach(group, which.number()));
    return ENOMEM;
  }
  const int failed = meet_group_users();
  if (failed == 0 || changed == multicast_groups::change::none) return failed;
  if (known.detach(group, which.number()) == multicast_groups::change::group)
    link_->segment().withdraw_group(group);
  return failed;
}

int host::detach(const queue_pair& which, const gid_bytes& group) {
  const std::lock_guard lock(groups_);
  const auto changed = engine_->groups().detach(group, which.number());
  if (changed == multicast_groups::change::none) return EINVAL;
  if (changed == multicast_groups::change::group) link_->segment().withdraw_group(group);
  return 0;
}

}  // namespace verbena::softdev
