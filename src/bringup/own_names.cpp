// SPDX-License-Identifier: MIT
#include "src/bringup/own_names.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

std::string text_of(const sockaddr& of) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* const any = &of;
  if (of.sa_family == AF_INET)
    ::inet_ntop(AF_INET, &static_cast<const sockaddr_in*>(any)->sin_addr, text.data(), text.size());
  else if (of.sa_family == AF_INET6)
    ::inet_ntop(AF_INET6, &static_cast<const sockaddr_in6*>(any)->sin6_addr, text.data(),
                text.size());
  return text.data();
}

}  // namespace

result<std::set<std::string>> own_names() {
  std::set<std::string> names;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) {
    const std::string_view full(name.data());
    names.emplace(full);
    names.emplace(full.substr(0, full.find('.')));
  }
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return error::from_errno(errno, "getifaddrs");
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next)
    if (each->ifa_addr != nullptr) names.insert(text_of(*each->ifa_addr));
  ::freeifaddrs(first);
  names.erase("");
  return names;
}

result<std::vector<std::string>> interface_addresses() {
  constexpr unsigned wanted = IFF_UP | IFF_RUNNING;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return error::from_errno(errno, "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & wanted) != wanted) continue;
    if (auto text = text_of(*each->ifa_addr); !text.empty()) addresses.push_back(std::move(text));
  }
  return addresses;
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

std::string usual_text(const std::string& host) {
  std::array<std::byte, sizeof(in6_addr)> bytes{};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1 &&
      ::inet_ntop(AF_INET6, bytes.data(), text.data(), text.size()) != nullptr)
    return text.data();
  return host;
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
