// SPDX-License-Identifier: MIT
#include "verbena/verbs/gid_table.hpp"

#include <fmt/format.h>
#include <net/if.h>

#include <array>

#include "src/verbs/text.hpp"
#include "verbena/verbs/gid_scope.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// Returns the rank of an entry; the entry with the lowest rank is the best.
int rank(const gid_entry& entry) {
  if (entry.type != gid_type::roce_v2) return 3;
  switch (scope_of(entry.gid)) {
    case gid_scope::ipv4:
      return 0;
    case gid_scope::ipv6:
      return 1;
    case gid_scope::loopback:
      return entry.gid.is_ipv4_mapped() ? 2 : 3;
    case gid_scope::link_local:
      break;
  }
  return 3;
}

}  // namespace

std::string to_string(gid_type type) {
  switch (type) {
    case gid_type::infiniband:
      return "InfiniBand";
    case gid_type::roce_v1:
      return "RoCE v1";
    case gid_type::roce_v2:
      return "RoCE v2";
  }
  return detail::unknown_value(static_cast<std::int64_t>(type));
}

std::optional<std::string> gid_entry::interface_name() const {
  std::array<char, IF_NAMESIZE> name;
  if (interface_index == 0 || ::if_indextoname(interface_index, name.data()) == nullptr)
    return std::nullopt;
  return name.data();
}

std::string to_string(const gid_entry& entry) {
  const auto name = entry.interface_name();
  return fmt::format("port {} GID {}: {} ({}{}{})", entry.port.value(), entry.index.value(),
                     to_string(entry.gid), to_string(entry.type), name ? ", " : "",
                     name.value_or(""));
}

std::optional<gid_entry> choose_routable(std::span<const gid_entry> entries) {
  const gid_entry* best = nullptr;
  for (const auto& entry : entries)
    if (best == nullptr || rank(entry) < rank(*best)) best = &entry;
  if (best == nullptr) return std::nullopt;
  return *best;
}

}  // namespace verbena::inline VERBENA_ABI
