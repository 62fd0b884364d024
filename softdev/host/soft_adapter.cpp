// SPDX-License-Identifier: MIT
#include "softdev/host/soft_adapter.hpp"

#include <algorithm>
#include <utility>

#include "softdev/ipc/clock.hpp"
#include "softdev/ipc/network_namespace.hpp"

namespace verbena::softdev {
namespace {

constexpr time_ns least_interval = 100'000'000;
/// On some hosts, the addresses can never be read.
constexpr time_ns longest_interval = 60'000'000'000;

}  // namespace

soft_adapter::soft_adapter(softdev::persona presented, address_watch addresses)
    : persona_(std::move(presented)),
      addresses_(std::move(addresses)),
      network_(find_network_namespace()),
      next_read_(persona_.complete ? never : monotonic_now() + least_interval),
      interval_(least_interval),
      gids_(persona_.gids),
      sm_lid_(persona_.sm_lid) {}

void soft_adapter::addresses_changed() {
  addresses_.drain();
  static_cast<void>(refresh_gids());
}

bool soft_adapter::refresh_gids() {
  {
    // If two threads read the addresses, the later result must be the last one in the table.
    const std::lock_guard lock(refresh_);
    // Another thread can still read the addresses of the device's namespace.
    if (is_other_network(network_, find_network_namespace())) {
      postpone_due_read();
      return false;
    }
    const softdev::persona now = describe_host(persona_.kind, persona_.preferred);
    if (!now.complete) {
      if (next_read_.load() == never) next_read_.store(monotonic_now() + interval_);
      postpone_due_read();
      return false;
    }
    next_read_.store(never);
    interval_ = least_interval;
    if (!gids_.set(now.gids)) return false;
  }
  listeners_.raise(device_event::gid_change);
  return true;
}

void soft_adapter::postpone_due_read() {
  const time_ns now = monotonic_now();
  if (next_read_.load() > now) return;
  interval_ = std::min(2 * interval_, longest_interval);
  next_read_.store(now + interval_);
}

void soft_adapter::move_gids() {
  gids_.move();
  listeners_.raise(device_event::gid_change);
}

}  // namespace verbena::softdev
