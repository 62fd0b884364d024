// SPDX-License-Identifier: MIT
#include "softdev/host/group_membership.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace verbena::softdev {
namespace {

/// The longest wait for the pairing with other users of groups. A process that takes longer is
/// stopped.
constexpr std::chrono::milliseconds pairing_patience{1000};
constexpr int between_looks_ms = 2;

bool is_connecting(const std::shared_ptr<peer>& which) noexcept {
  return which->state() == peer_state::connecting;
}

}  // namespace

/// Pairs with the other users of groups. From then on, their datagrams also reach this process.
int group_membership::meet_users() {
  if (const int failed = how_.thread.start()) return failed;
  const auto others = how_.peer_link.meet_group_users();
  if (!others) return others.error().code();
  const auto until = link::time_point::clock::now() + pairing_patience;
  while (std::ranges::any_of(*others, is_connecting) && link::time_point::clock::now() < until) {
    how_.work.tend();
    how_.thread.wake();  // it may have to tend earlier now
    pollfd sockets{how_.peer_link.service_fd(), POLLIN, 0};
    if (std::ranges::any_of(*others, is_connecting)) ::poll(&sockets, 1, between_looks_ms);
  }
  used_.store(true, std::memory_order_release);
  return 0;
}

int group_membership::use() {
  if (used_.load(std::memory_order_acquire)) return 0;
  const std::lock_guard lock(changes_);
  return used_.load() ? 0 : meet_users();
}

int group_membership::attach(const queue_pair& which, const gid_bytes& group) {
  const std::lock_guard lock(changes_);
  multicast_groups& known = how_.core.groups();
  const auto changed = known.attach(group, which.number());
  if (changed == multicast_groups::change::no_room) return ENOMEM;
  if (changed == multicast_groups::change::group &&
      !how_.peer_link.segment().publish_group(group)) {
    static_cast<void>(known.detach(group, which.number()));
    return ENOMEM;
  }
  const int failed = meet_users();
  if (failed == 0) how_.wire.join_group(group);
  if (failed == 0 || changed == multicast_groups::change::none) return failed;
  if (known.detach(group, which.number()) == multicast_groups::change::group)
    how_.peer_link.segment().withdraw_group(group);
  return failed;
}

int group_membership::detach(const queue_pair& which, const gid_bytes& group) {
  const std::lock_guard lock(changes_);
  const auto changed = how_.core.groups().detach(group, which.number());
  if (changed == multicast_groups::change::none) return EINVAL;
  if (changed != multicast_groups::change::group) return 0;
  how_.wire.leave_group(group);
  how_.peer_link.segment().withdraw_group(group);
  return 0;
}

}  // namespace verbena::softdev
