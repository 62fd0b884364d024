// SPDX-License-Identifier: MIT
#include "softdev/host/permitted_addresses.hpp"

#include <net/if.h>

#include <algorithm>
#include <optional>
#include <span>

#include "softdev/wire/socket/udp_socket.hpp"

namespace verbena::softdev {

permitted_addresses::permitted_addresses(const std::vector<std::string>& only,
                                         const gid_table& gids)
    : gids_(gids), all_(only.empty()) {
  for (const std::string& each : only) {
    if (const auto address = wire::from_text(each))
      addresses_.push_back(*address);
    else
      interfaces_.push_back(each);
  }
}

bool permitted_addresses::permits(const gid_entry& own) const noexcept {
  if (all_ || std::ranges::find(addresses_, own.gid) != addresses_.end()) return true;
  if (interfaces_.empty()) return false;
  std::array<char, IF_NAMESIZE> name{};
  return ::if_indextoname(own.interface_index, name.data()) != nullptr &&
         std::ranges::find(interfaces_, name.data()) != interfaces_.end();
}

bool permitted_addresses::receives(const wire::network_address& own) noexcept {
  // First the version: a change in between is read at the next call.
  if (const std::uint64_t now = gids_.version(); now != version_) {
    version_ = now;
    count_ = 0;
    for (const gid_entry& each : gids_.all())
      if (wire::is_ipv4(each.gid) && permits(each)) receiving_[count_++] = each.gid;
  }
  const auto known = std::span(receiving_).first(count_);
  return std::ranges::find(known, own) != known.end();
}

}  // namespace verbena::softdev
