// SPDX-License-Identifier: MIT
#include "src/verbs/address_diagnosis.hpp"

#include <cerrno>

#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI::detail {

std::string explain_route(int code, asked_device device, const address_vector& to) {
  if (!to.gid) return {};
  if (code == ENETUNREACH && device.from->origin == provider_origin::soft)
    return "the software device reaches this host only, and " + to_string(*to.gid) +
           " is no address of it";
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
               ? "on Ethernet the peer is addressed by its GID, and none was given"
               : "";
  const std::string index = std::to_string(to.source_gid.value());
  if (to.source_gid.value() >= port.gid_tbl_len)
    return "the port has no GID at index " + index + ": its table has " +
           std::to_string(port.gid_tbl_len) + " places";
  ibv_gid_entry entry{};
  if (call(verbs.query_gid_ex, device.context, std::uint32_t{to.port.value()},
           std::uint32_t{to.source_gid.value()}, &entry, 0U, sizeof entry)
          .failed)
    return "the GID index " + index + " of port " + std::to_string(to.port.value()) +
           " is empty: context::gid_table() lists those that are not";
  return {};
}

}  // namespace verbena::inline VERBENA_ABI::detail
