// SPDX-License-Identifier: MIT
#include "softdev/shim/address.hpp"

#include <algorithm>
#include <cerrno>
#include <span>

namespace verbena::softdev {
namespace {

/// The packet types of RoCE v2 in completions of datagrams, with the numbers of mlx5: bit 3 stands
/// for a UDP header.
namespace packet_type {
constexpr std::uint8_t ipv6 = 8 | 1;
constexpr std::uint8_t ipv4 = 8 | 2;
}  // namespace packet_type

}  // namespace

gid_bytes to_gid_bytes(const ibv_gid& gid) noexcept {
  gid_bytes out;
  std::ranges::copy(gid.raw, out.begin());
  return out;
}

int check_address(host& home, const ibv_ah_attr& address) {
  if (address.port_num != 1) return EINVAL;
  if (home.looks().kind == persona_kind::infiniband) {
    // Where a LID leads is for the fabric to know: requests to nowhere get no answer.
    if (address.dlid == 0) return EINVAL;
    const bool has_source = !home.adapter().gids().at(address.grh.sgid_index).empty();
    return address.is_global == 0 || has_source ? 0 : EINVAL;
  }
  if (address.is_global == 0) return EINVAL;
  if (home.adapter().gids().at(address.grh.sgid_index).empty()) return EINVAL;
  // Only this host can be reached.
  const std::span<const std::uint8_t, 16> gid(address.grh.dgid.raw);
  if (home.adapter().gids().contains(gid)) return 0;
  home.adapter().refresh_gids();
  return home.adapter().gids().contains(gid) ? 0 : ENETUNREACH;
}

int check_datagram_address(host& home, const ibv_ah_attr& address) {
  const persona_kind kind = home.looks().kind;
  if (kind == persona_kind::infiniband && address.is_global != 0 && address.dlid == 0) {
    // As the kernel, which does not look at the LID of an address handle: datagrams get no answer.
    ibv_ah_attr with_lid = address;
    with_lid.dlid = 1;
    return check_datagram_address(home, with_lid);
  }
  const bool to_group = address.is_global != 0 && is_multicast(to_gid_bytes(address.grh.dgid));
  if (!to_group || kind == persona_kind::efa) return check_address(home, address);
  if (address.port_num != 1 || home.adapter().gids().at(address.grh.sgid_index).empty())
    return EINVAL;
  return home.groups().use();
}

void route(const host& home, const ibv_ah_attr& address, queue_pair_attributes& out) noexcept {
  if (home.looks().kind != persona_kind::infiniband) return;
  const std::span<const std::uint8_t, 16> gid(address.grh.dgid.raw);
  out.destination_lid = address.dlid;
  out.destination_is_this_host = address.is_global == 0 || home.adapter().gids().contains(gid);
}

void record_route(host& home, const queue_pair& connected, const ibv_ah_attr& address) {
  capture::recorder* const recorder = home.recorder();
  if (recorder == nullptr || address.is_global == 0) return;
  capture::conversation_route route{.source = home.adapter().gids().at(address.grh.sgid_index).gid,
                                    .destination = to_gid_bytes(address.grh.dgid),
                                    .flow_label = address.grh.flow_label & 0xf'ffffU,
                                    .traffic_class = address.grh.traffic_class};
  if (address.grh.hop_limit != 0) route.hop_limit = address.grh.hop_limit;
  recorder->set_route(connected.number(), route);
}

datagram_address to_datagram_address(const host& home, const ibv_ah_attr& address) noexcept {
  const bool infiniband = home.looks().kind == persona_kind::infiniband;
  // Every port has one LID, so no bits of it choose a path.
  const datagram_origin origin{.service_level = infiniband ? address.sl : std::uint8_t{0}};
  if (address.is_global == 0) {
    datagram_address made(origin);
    made.set_lid(address.dlid);
    return made;
  }
  datagram_route route{.source = home.adapter().gids().at(address.grh.sgid_index).gid,
                       .flow_label = address.grh.flow_label,
                       .traffic_class = address.grh.traffic_class,
                       .hop_limit = address.grh.hop_limit,
                       .over_udp = home.looks().kind == persona_kind::roce};
  std::ranges::copy(address.grh.dgid.raw, route.destination.begin());
  datagram_address made(route, origin);
  if (infiniband) made.set_lid(address.dlid);
  if (home.looks().kind == persona_kind::efa) made.set_lid(efa_identity::own_lid);
  // Ethernet has no service levels; its completions have the packet type there (decision 0022).
  if (home.looks().kind == persona_kind::roce)
    made.set_service_level(made.is_ipv4() ? packet_type::ipv4 : packet_type::ipv6);
  return made;
}

}  // namespace verbena::softdev
