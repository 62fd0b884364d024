// SPDX-License-Identifier: MIT
#include "src/bringup/own_names.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

// Returns the text of an address with its scope ("fe80::1%eth0"); empty for other families.
std::string text_of(const sockaddr& of) {
  if (of.sa_family != AF_INET && of.sa_family != AF_INET6) return {};
  std::array<char, INET6_ADDRSTRLEN + IF_NAMESIZE + 1> text{};
  const socklen_t bytes = of.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (::getnameinfo(&of, bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return {};
  return text.data();
}

// Returns "%eth0" for the scopes "%eth0" and "%2", if 2 is the index of eth0.
std::string usual_scope(std::string_view scope) {
  unsigned index = 0;
  std::array<char, IF_NAMESIZE> name{};
  const char* const end = scope.data() + scope.size();
  if (scope.size() > 1 && std::from_chars(scope.data() + 1, end, index).ptr == end &&
      ::if_indextoname(index, name.data()) != nullptr)
    return std::string("%") + name.data();
  return std::string(scope);
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
    if (each->ifa_addr != nullptr) {
      const std::string text = text_of(*each->ifa_addr);
      names.insert(text.substr(0, text.find('%')));
      names.insert(text);
    }
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
  const auto scope = std::min(host.find('%'), host.size());
  std::array<std::byte, sizeof(in6_addr)> bytes{};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_pton(AF_INET6, host.substr(0, scope).c_str(), bytes.data()) == 1 &&
      ::inet_ntop(AF_INET6, bytes.data(), text.data(), text.size()) != nullptr)
    return text.data() + usual_scope(std::string_view(host).substr(scope));
  return host;
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
