// SPDX-License-Identifier: MIT
// The address for examples that connect to their own host.
#pragma once

#include <ifaddrs.h>
#include <netinet/in.h>

#include <verbena/verbena.hpp>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>

// Returns an address of this host that an RDMA device serves; loopback only if there is no other.
inline std::string own_address() {
  namespace cm = verbena::cm;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw std::system_error(errno, std::generic_category(), "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  const auto channel = cm::event_channel::create().value();
  std::string found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const auto address = cm::socket_address::from_native(*each->ifa_addr).value();
    const bool is_loopback = address.host().starts_with("127.");
    auto id = cm::identifier::create(channel).value();
    if (id.bind(address) && id.port() && (found.empty() || !is_loopback)) found = address.host();
  }
  return found;
}
