// SPDX-License-Identifier: MIT
#include "verbena/verbs/gid_scope.hpp"

#include "src/verbs/text.hpp"

namespace verbena::inline VERBENA_ABI {

std::string to_string(gid_scope of) {
  switch (of) {
    case gid_scope::ipv4:
      return "IPv4";
    case gid_scope::ipv6:
      return "IPv6";
    case gid_scope::loopback:
      return "loopback";
    case gid_scope::link_local:
      return "link-local";
  }
  return detail::unknown_value(static_cast<std::int64_t>(of));
}

gid_scope scope_of(const gid& address) noexcept {
  constexpr gid loopback_ipv6({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  if (address.is_ipv4_mapped())
    return address.bytes()[12] == 127 ? gid_scope::loopback : gid_scope::ipv4;
  if (address.is_link_local()) return gid_scope::link_local;
  return address == loopback_ipv6 ? gid_scope::loopback : gid_scope::ipv6;
}

}  // namespace verbena::inline VERBENA_ABI
