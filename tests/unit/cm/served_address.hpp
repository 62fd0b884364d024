// SPDX-License-Identifier: MIT
// Addresses of this host that the connection manager can use.
#pragma once

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "verbena/cm/event_channel.hpp"
#include "verbena/cm/identifier.hpp"
#include "verbena/cm/socket_address.hpp"

namespace verbena::test {

/// Returns the addresses of this host. Addresses that other hosts can reach come first.
inline std::vector<cm::socket_address> addresses_of_host() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<cm::socket_address> found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next)
    if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET)
      found.push_back(cm::socket_address::from_native(*each->ifa_addr).value());
  std::vector<cm::socket_address> ordered;
  for (const bool loopback : {false, true})
    std::ranges::copy_if(found, std::back_inserter(ordered), [&](const auto& address) {
      return address.host().starts_with("127.") == loopback;
    });
  return ordered;
}

/// Returns whether `address` belongs to the device `wanted`, or to any device if it is null.
inline bool is_served(const cm::event_channel& channel, const cm::socket_address& address,
                      const char* wanted) {
  auto id = cm::identifier::create(channel);
  if (!id || !id->bind(address) || !id->port()) return false;
  return wanted == nullptr || id->context().value().name() == wanted;
}

}  // namespace verbena::test
