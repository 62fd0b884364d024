// SPDX-License-Identifier: MIT
#include "src/verbs/address_diagnosis.hpp"

#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI::detail {

std::string explain_route(const address_vector& to) {
  if (!to.gid) return {};
  return "resolving the route to the remote GID " + to_string(*to.gid) +
         " failed; on RoCE this usually means that it does not answer on the network of the local "
         "GID at index " +
         std::to_string(to.source_gid.value()) + " of port " + std::to_string(to.port.value()) +
         ", or that a firewall drops RoCE (UDP port 4791)";
}

std::string explain_address(const sys::verbs_table& verbs, ibv_context* context,
                            const address_vector& to) {
  ibv_port_attr port{};
  if (call(verbs.query_port, context, to.port.value(), &port).failed)
    return "port " + std::to_string(to.port.value()) + " does not exist";
  if (to.gid && to.source_gid.value() >= port.gid_tbl_len)
    return "the port has no GID at index " + std::to_string(to.source_gid.value());
  if (!to.gid && port.link_layer == IBV_LINK_LAYER_ETHERNET)
    return "on Ethernet the peer is addressed by its GID, and none was given";
  return {};
}

}  // namespace verbena::inline VERBENA_ABI::detail
