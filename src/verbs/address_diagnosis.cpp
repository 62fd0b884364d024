// SPDX-License-Identifier: MIT
#include "src/verbs/address_diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "src/verbs/gid_query.hpp"
#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI::detail {

namespace {

// Returns whether the GID is in the device's GID table. By default the software device reaches no
// other GID.
bool is_own_address(queried_device device, const address_vector& to) {
  constexpr std::size_t most = 256;
  std::array<sys::gid_entry_layout, most> entries{};
  const auto count = read_gid_table(device, entries);
  for (std::size_t i = 0; count > 0 && i < std::min(static_cast<std::size_t>(count), most); ++i)
    if (std::memcmp(entries[i].gid.raw, to.gid->bytes().data(), sizeof entries[i].gid.raw) == 0)
      return true;
  return false;
}

}  // namespace

std::string explain_route(int code, queried_device device, const address_vector& to) {
  if (!to.gid) return {};
  const bool soft = device.from->origin == provider_origin::soft;
  if (soft && code == ENETUNREACH && !is_own_address(device, to))
    return fmt::format(
        "the software device reaches this host only, and {} is not an address of this host; to "
        "reach other hosts, set VERBENA_SOFTDEV_WIRE=on on both hosts (if it is set, there is no "
        "route to the address)",
        to_string(*to.gid));
  return fmt::format(
      "resolving the route to the remote GID {} failed; on RoCE this usually means that the GID "
      "does not answer on the network of the local GID at index {} of port {}, or that a firewall "
      "drops RoCE (UDP port 4791)",
      to_string(*to.gid), to.source_gid_index.value(), to.port.value());
}

std::string explain_address(queried_device device, const address_vector& to) {
  const auto& verbs = device.from->verbs;
  ibv_port_attr port{};
  if (call(verbs.query_port, device.context, to.port.value(), &port).failed)
    return fmt::format("port {} does not exist", to.port.value());
  if (!to.gid)
    return port.link_layer == IBV_LINK_LAYER_ETHERNET
               ? "on Ethernet the address needs the GID of the peer"
               : "";
  if (to.source_gid_index.value() >= port.gid_tbl_len)
    return fmt::format("GID index {} is outside the table of port {}, which has the length {}",
                       to.source_gid_index.value(), to.port.value(), port.gid_tbl_len);
  sys::gid_entry_layout entry{};
  if (read_gid(device, to.port.value(), to.source_gid_index.value(), entry).failed)
    return fmt::format(
        "GID index {} of port {} is empty: context::gid_table() lists the valid entries",
        to.source_gid_index.value(), to.port.value());
  return {};
}

}  // namespace verbena::inline VERBENA_ABI::detail
