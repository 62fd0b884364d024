// SPDX-License-Identifier: MIT
#include "softdev/host/soft_adapter.hpp"

#include <utility>

#include "softdev/ipc/network_namespace.hpp"

namespace verbena::softdev {

soft_adapter::soft_adapter(softdev::persona presented, address_watch addresses)
    : persona_(std::move(presented)),
      addresses_(std::move(addresses)),
      network_(find_network_namespace()),
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
    if (is_other_network(network_, find_network_namespace())) return false;
    const softdev::persona now = describe_host(persona_.kind, persona_.preferred);
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
