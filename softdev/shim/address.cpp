// SPDX-License-Identifier: MIT
#include "softdev/shim/address.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <span>

#include "softdev/host/warn_once.hpp"
#include "softdev/wire/socket/udp_socket.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

/// Returns whether `which` is an address of this host. Refreshes the GID table if it lacks the
/// address.
bool is_own_gid(host& home, const ibv_gid& which) {
  const std::span<const std::uint8_t, 16> gid(which.raw);
  if (home.adapter().gids().contains(gid)) return true;
  home.adapter().refresh_gids();
  return home.adapter().gids().contains(gid);
}

}  // namespace

gid_bytes to_gid_bytes(const ibv_gid& gid) noexcept {
  gid_bytes out;
  std::ranges::copy(gid.raw, out.begin());
  return out;
}

int check_address(host& home, const ibv_ah_attr& address, path_to_peer by) {
  if (!home.core().port().has(address.port_num)) return EINVAL;
  if (home.persona().kind == persona_kind::infiniband) {
    // Accepts any LID: only the fabric knows whether a port has it. Requests to an unused LID get
    // no answer.
    if (address.dlid == 0) return EINVAL;
    const bool has_source = !home.adapter().gids().at(address.grh.sgid_index).empty();
    return address.is_global == 0 || has_source ? 0 : EINVAL;
  }
  if (address.is_global == 0) return EINVAL;
  if (home.adapter().gids().at(address.grh.sgid_index).empty()) return EINVAL;
  if (by != path_to_peer::none) return 0;
  log(log_level::info, [&] {
    return "soft0: " + wire::to_text(to_gid_bytes(address.grh.dgid)) +
           " is not an address of this host; VERBENA_SOFTDEV_WIRE=on on both hosts permits RC, "
           "UC and UD to other hosts";
  });
  return ENETUNREACH;
}

int check_address(host& home, const ibv_ah_attr& address) {
  const bool by_gid = address.is_global != 0 && home.persona().kind != persona_kind::infiniband;
  const bool reached = !by_gid || is_own_gid(home, address.grh.dgid);
  return check_address(home, address, reached ? path_to_peer::same_host : path_to_peer::none);
}

namespace {

int log_refusal(const error& why) {
  warn_once("soft0: " + why.message());
  return why.code();
}

/// Checks the unicast address of a datagram on Ethernet; see check_datagram_address.
int check_unicast_address(host& home, const ibv_ah_attr& address, std::uint8_t& wire_mtu) {
  const gid_bytes to = to_gid_bytes(address.grh.dgid);
  const path_to_peer by = home.wire().path_to(to, is_own_gid(home, address.grh.dgid));
  if (const int refused = check_address(home, address, by)) return refused;
  if (by != path_to_peer::wire) return 0;
  const auto mtu = home.wire().find_datagram_mtu(
      {.own = home.adapter().gids().at(address.grh.sgid_index), .peer = to});
  if (mtu) {
    wire_mtu = *mtu;
    return 0;
  }
  const error& why = mtu.error();
  if (why.code() != ENETUNREACH && why.code() != EHOSTUNREACH) return log_refusal(why);
  // Not a warning: a program may reply to any sender, and a sender's address may lack a route.
  log(log_level::info, [&] { return "soft0: " + why.message(); });
  return why.code();
}

}  // namespace

int accept_datagrams(host& home, queue_pair& which) {
  const auto accepted = home.wire().accept_datagrams(which);
  return accepted ? 0 : log_refusal(accepted.error());
}

int check_datagram_address(host& home, const ibv_ah_attr& address, std::uint8_t& wire_mtu) {
  wire_mtu = 0;
  const persona_kind kind = home.persona().kind;
  if (kind == persona_kind::infiniband && address.is_global != 0 && address.dlid == 0) {
    // Like the kernel, does not check the LID of an address handle. Datagrams to LID 0 get no
    // answer.
    ibv_ah_attr with_lid = address;
    with_lid.dlid = 1;
    return check_datagram_address(home, with_lid, wire_mtu);
  }
  const bool to_group = address.is_global != 0 && is_multicast(to_gid_bytes(address.grh.dgid));
  if (!to_group && kind == persona_kind::roce && address.is_global != 0)
    return check_unicast_address(home, address, wire_mtu);
  if (!to_group || kind == persona_kind::efa) return check_address(home, address);
  if (!home.core().port().has(address.port_num) ||
      home.adapter().gids().at(address.grh.sgid_index).empty())
    return EINVAL;
  wire_mtu = home.wire().find_group_mtu({.own = home.adapter().gids().at(address.grh.sgid_index),
                                         .peer = to_gid_bytes(address.grh.dgid)});
  return home.groups().use();
}

void set_route(host& home, const ibv_ah_attr& address, queue_pair_attributes& out) {
  if (home.persona().kind != persona_kind::infiniband) {
    const bool own = address.is_global != 0 && is_own_gid(home, address.grh.dgid);
    out.path_to_peer = home.wire().path_to(to_gid_bytes(address.grh.dgid), own);
    return;
  }
  const std::span<const std::uint8_t, 16> gid(address.grh.dgid.raw);
  out.destination_lid = address.dlid;
  const bool is_own = address.is_global == 0 || home.adapter().gids().contains(gid);
  out.path_to_peer = is_own ? path_to_peer::same_host : path_to_peer::none;
}

int connect_by_wire(host& home, queue_pair& which, const ibv_ah_attr& address,
                    std::uint8_t path_mtu) {
  const auto connected =
      home.wire().connect(which,
                          {.own = home.adapter().gids().at(address.grh.sgid_index),
                           .peer = to_gid_bytes(address.grh.dgid),
                           .traffic_class = address.grh.traffic_class},
                          bytes_of_mtu(path_mtu));
  return connected ? 0 : log_refusal(connected.error());
}

ibv_mtu active_mtu(const host& home) {
  if (!home.wire().on()) return IBV_MTU_4096;
  const std::uint32_t payload = home.wire().largest_payload(home.adapter().gids().all());
  constexpr std::uint32_t smallest = 256;
  return static_cast<ibv_mtu>(IBV_MTU_256 + std::countr_zero(payload / smallest));
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

datagram_address to_datagram_address(const host& home, const ibv_ah_attr& address,
                                     std::uint8_t wire_mtu) noexcept {
  const bool infiniband = home.persona().kind == persona_kind::infiniband;
  // Every port has one LID, so the path bits are 0.
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
                       .over_udp = home.persona().kind == persona_kind::roce};
  std::ranges::copy(address.grh.dgid.raw, route.destination.begin());
  datagram_address made(route, origin);
  if (infiniband) made.set_lid(address.dlid);
  if (home.persona().kind == persona_kind::efa) made.set_lid(efa_identity::own_lid);
  // Ethernet has no service levels; completions contain the packet type there (decision 0022).
  if (home.persona().kind == persona_kind::roce) made.set_service_level(made.packet_type());
  made.set_wire_mtu(wire_mtu);
  return made;
}

}  // namespace verbena::softdev
