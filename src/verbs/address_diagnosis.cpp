// SPDX-License-Identifier: MIT
#include "src/verbs/address_diagnosis.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "src/verbs/text.hpp"
#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI::detail {

namespace {

// Returns whether the GID is in the device's GID table. The software device reaches no other GID.
bool is_own_address(asked_device device, const address_vector& to) {
  constexpr std::size_t most = 256;
  std::array<ibv_gid_entry, most> entries{};
  const auto count = device.from->verbs.query_gid_table(device.context, entries.data(), most, 0,
                                                        sizeof(ibv_gid_entry));
  for (std::size_t i = 0; count > 0 && i < std::min(static_cast<std::size_t>(count), most); ++i)
    if (std::memcmp(entries[i].gid.raw, to.gid->bytes().data(), sizeof entries[i].gid.raw) == 0)
      return true;
  return false;
}

}  // namespace

std::string explain_route(int code, asked_device device, const address_vector& to) {
  if (!to.gid) return {};
  const bool soft = device.from->origin == provider_origin::soft;
  if (soft && code == ENETUNREACH && !is_own_address(device, to))
    return "the software device reaches this host only, and " + to_string(*to.gid) +
           " is not an address of this host";
  return "resolving the route to the remote GID " + to_string(*to.gid) +
         " failed; on RoCE this usually means that it does not answer on the network of the local "
         "GID at index " +
         std::to_string(to.source_gid.value()) + " of port " + std::to_string(to.port.value()) +
         ", or that a firewall drops RoCE (UDP port 4791)";
}

std::string explain_address(asked_device device, const address_vector& to) {
  const auto& verbs = device.from->verbs;
  ibv_port_attr port{};
  if (call(verbs.query_port, device.context, to.port.value(), &port).failed)
    return "port " + std::to_string(to.port.value()) + " does not exist";
  if (!to.gid)
    return port.link_layer == IBV_LINK_LAYER_ETHERNET
               ? "on Ethernet the address needs the GID of the peer"
               : "";
  const std::string index = std::to_string(to.source_gid.value());
  if (to.source_gid.value() >= port.gid_tbl_len)
    return "the port has no GID at index " + index + ": its table has " +
           counted(static_cast<std::uint32_t>(port.gid_tbl_len), "place");
  ibv_gid_entry entry{};
  if (call(verbs.query_gid_ex, device.context, std::uint32_t{to.port.value()},
           std::uint32_t{to.source_gid.value()}, &entry, 0U, sizeof entry)
          .failed)
    return "the GID index " + index + " of port " + std::to_string(to.port.value()) +
           " is empty: context::gid_table() lists those that are not";
  return {};
}

}  // namespace verbena::inline VERBENA_ABI::detail
