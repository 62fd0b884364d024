// SPDX-License-Identifier: MIT
#include "softdev/shim/address.hpp"

#include <algorithm>
#include <cerrno>
#include <span>

namespace verbena::softdev {

int check_address(host& home, const ibv_ah_attr& address) {
  if (address.is_global == 0 || address.port_num != 1) return EINVAL;
  if (home.gids().at(address.grh.sgid_index).empty()) return EINVAL;
  // Only this host can be reached.
  const std::span<const std::uint8_t, 16> gid(address.grh.dgid.raw);
  if (home.gids().contains(gid)) return 0;
  home.refresh_gids();
  return home.gids().contains(gid) ? 0 : ENETUNREACH;
}

datagram_address to_datagram_address(const host& home, const ibv_ah_attr& address) noexcept {
  datagram_route route{.source = home.gids().at(address.grh.sgid_index).gid,
                       .flow_label = address.grh.flow_label,
                       .traffic_class = address.grh.traffic_class,
                       .hop_limit = address.grh.hop_limit};
  std::ranges::copy(address.grh.dgid.raw, route.destination.begin());
  // Ethernet has neither LIDs nor path bits, and completions there tell no service level.
  return {route, {}};
}

}  // namespace verbena::softdev
