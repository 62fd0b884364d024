// SPDX-License-Identifier: MIT
#include "softdev/host/soft_adapter.hpp"

#include <utility>

namespace verbena::softdev {

soft_adapter::soft_adapter(softdev::persona presented, address_watch addresses)
    : persona_(std::move(presented)),
      addresses_(std::move(addresses)),
      gids_(persona_.gids),
      sm_lid_(persona_.sm_lid) {}

void soft_adapter::addresses_changed() {
  addresses_.drain();
  static_cast<void>(refresh_gids());
}

bool soft_adapter::refresh_gids() {
  if (!gids_.set(describe_host(persona_.kind, persona_.preferred).gids)) return false;
  listeners_.raise(device_event::gid_change);
  return true;
}

void soft_adapter::move_gids() {
  gids_.move();
  listeners_.raise(device_event::gid_change);
}

}  // namespace verbena::softdev
