// SPDX-License-Identifier: MIT
#include "softdev/host/soft_adapter.hpp"

#include <utility>

#include "softdev/ipc/clock.hpp"
#include "softdev/ipc/network_namespace.hpp"

namespace verbena::softdev {
namespace {

constexpr time_ns read_again_ns = 100'000'000;

time_ns next_read_after(const softdev::persona& read) noexcept {
  return read.complete ? never : monotonic_now() + read_again_ns;
}

}  // namespace

soft_adapter::soft_adapter(softdev::persona presented, address_watch addresses)
    : persona_(std::move(presented)),
      addresses_(std::move(addresses)),
      network_(find_network_namespace()),
      next_read_(next_read_after(persona_)),
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
    next_read_.store(never);
    if (is_other_network(network_, find_network_namespace())) return false;
    const softdev::persona now = describe_host(persona_.kind, persona_.preferred);
    next_read_.store(next_read_after(now));
    if (!now.complete || !gids_.set(now.gids)) return false;
  }
  listeners_.raise(device_event::gid_change);
  return true;
}

void soft_adapter::move_gids() {
  gids_.move();
  listeners_.raise(device_event::gid_change);
}

}  // namespace verbena::softdev
