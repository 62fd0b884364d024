// SPDX-License-Identifier: MIT
// Checks the endpoint of a peer against the best port of this host.
#include <algorithm>
#include <string>

#include "src/diagnose/words.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {
namespace {

std::optional<std::uint32_t> ipv4_of(const gid& id) {
  if (!id.is_ipv4_mapped()) return std::nullopt;
  const auto& bytes = id.bytes();
  return std::uint32_t{bytes[12]} << 24U | std::uint32_t{bytes[13]} << 16U |
         std::uint32_t{bytes[14]} << 8U | bytes[15];
}

// Returns the interface of the route to `address`; empty if there is no route.
std::string interface_to(const host_facts& host, std::uint32_t address) {
  const route* best = nullptr;
  for (const auto& each : host.routes)
    if ((address & each.mask) == each.destination && (best == nullptr || each.mask > best->mask))
      best = &each;
  return best != nullptr ? best->interface : "";
}

finding about_peer_mtu(const detail::chosen_port& ours, const endpoint& peer) {
  const mtu active = ours.port->attributes.active_mtu();
  return {.topic = "peer-mtu",
          .subject = "",
          .looked_at = "endpoint of the peer",
          .meaning = "the MTU of the peer is " + to_string(peer.mtu) + ", that of " +
                     ours.device->name + " has " + to_string(active) + ": the connection uses " +
                     to_string(std::min(active, peer.mtu)),
          .commands = {}};
}

// On RoCE, checks that the route to the peer uses the interface of the local GID.
void judge_route(const host_facts& host, const gid_entry& chosen, const gid& peer, finding& found) {
  const auto address = ipv4_of(peer);
  const auto name = chosen.interface_name();
  if (!address || !name) return;
  const std::string leads = interface_to(host, *address);
  if (leads.empty()) {
    // The main table has no route to the addresses of this host.
    found.meaning += "; the route table has no entry for it";
    found.level = severity::note;
    found.commands = {"ip route get " + to_string(peer).substr(7)};
  } else if (leads != *name) {
    found.level = severity::warning;
    found.meaning += "; the route to it uses " + leads + ", but the chosen local GID belongs to " +
                     *name + ": choose a GID of " + leads;
    found.commands = {"verbena devinfo", "ip route get " + to_string(peer).substr(7)};
  } else {
    found.meaning += "; the route to it uses " + leads + ", like the chosen local GID";
  }
}

finding about_peer_address(const host_facts& host, const detail::chosen_port& ours,
                           const endpoint& peer) {
  finding found{.topic = "peer-address", .looked_at = "endpoint of the peer, /proc/net/route"};
  const bool ethernet = ours.port->attributes.link_layer() == link_layer::ethernet;
  const auto chosen = choose_routable(ours.port->gids);
  if (ethernet && !peer.gid) {
    found.level = severity::problem;
    found.meaning =
        "the peer has no GID, which Ethernet needs: set .route.gid_index "
        "at the peer";
    return found;
  }
  found.meaning = "the peer is at " +
                  (peer.gid ? to_string(*peer.gid) : "LID " + std::to_string(peer.lid.value()));
  if (!ethernet || !chosen) return found;
  const bool here =
      std::ranges::find(ours.port->gids, *peer.gid, &gid_entry::gid) != ours.port->gids.end();
  if (here) {
    found.meaning += ", which is this port";
  } else if (ours.kind == device_kind::soft) {
    found.level = severity::problem;
    found.meaning +=
        ", which is not an address of this host: soft0 reaches processes of this "
        "host only";
  } else if (peer.gid->is_ipv4_mapped() != chosen->gid.is_ipv4_mapped()) {
    found.level = severity::warning;
    found.meaning += ", but the local GID is " + to_string(chosen->gid) +
                     ": use IPv4 on both sides, or IPv6 on both sides";
  } else {
    judge_route(host, *chosen, *peer.gid, found);
  }
  return found;
}

}  // namespace

std::vector<finding> examine_peer(const host_facts& host, const devices_facts& devices,
                                  const endpoint& peer) {
  const auto ours = detail::choose_port(host, devices);
  if (ours.device == nullptr)
    return {{.topic = "peer",
             .level = severity::problem,
             .subject = "",
             .looked_at = "endpoint of the peer",
             .meaning = "no port of this host works, so the endpoint cannot be checked",
             .commands = {}}};
  std::vector<finding> out{about_peer_address(host, ours, peer), about_peer_mtu(ours, peer)};
  if (peer.responder_resources == 0)
    out.push_back(
        {.topic = "peer-reads",
         .level = severity::note,
         .subject = "",
         .looked_at = "endpoint of the peer",
         .meaning = "the peer accepts no RDMA READ and no atomic (its .responder_resources is 0)",
         .commands = {}});
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose
