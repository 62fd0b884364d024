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
  indexes_.resize(interfaces_.size());
}

bool permitted_addresses::contains(const wire::network_address& own) const noexcept {
  return all_ || std::ranges::find(addresses_, own) != addresses_.end();
}

std::vector<std::uint32_t> permitted_addresses::listed_interfaces() const {
  std::vector<std::uint32_t> found;
  for (const std::string& each : interfaces_)
    if (const unsigned index = ::if_nametoindex(each.c_str()); index != 0) found.push_back(index);
  return found;
}

bool permitted_addresses::permits(const gid_entry& own) const noexcept {
  if (contains(own.gid)) return true;
  if (interfaces_.empty()) return false;
  std::array<char, IF_NAMESIZE> name{};
  return ::if_indextoname(own.interface_index, name.data()) != nullptr &&
         std::ranges::find(interfaces_, name.data()) != interfaces_.end();
}

bool permitted_addresses::receives(const wire::network_address& own,
                                   std::uint32_t interface) noexcept {
  // First the version: a change in between is read at the next call.
  if (const std::uint64_t now = gids_.version(); now != version_) {
    version_ = now;
    count_ = 0;
    for (const gid_entry& each : gids_.all())
      if (wire::is_ipv4(each.gid) && permits(each)) receiving_[count_++] = each.gid;
    for (std::size_t i = 0; i < interfaces_.size(); ++i)
      indexes_[i] = ::if_nametoindex(interfaces_[i].c_str());
  }
  const auto known = std::span(receiving_).first(count_);
  if (std::ranges::find(known, own) == known.end()) return false;
  return contains(own) || interface == wire::loopback_interface ||
         std::ranges::find(indexes_, interface) != indexes_.end();
}

}  // namespace verbena::softdev
