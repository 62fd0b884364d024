// SPDX-License-Identifier: MIT
#include "src/diagnose/addressing.hpp"

#include <optional>
#include <string>

#include "src/diagnose/words.hpp"
#include "verbena/verbs/gid_scope.hpp"

namespace verbena::inline VERBENA_ABI::diagnose::detail {
namespace {

// Returns the type of a GID; for RoCE v2 the scope of its address.
std::string kind_of_entry(const gid_entry& entry) {
  if (entry.type != gid_type::roce_v2) return to_string(entry.type);
  return verbena::to_string(scope_of(entry.gid));
}

std::string entry_text(const gid_entry& entry) {
  std::string text = std::to_string(entry.index.value()) + " " + verbena::to_string(entry.gid);
  text += " (" + kind_of_entry(entry);
  if (const auto name = entry.interface_name()) text += ", " + *name;
  return text + ")";
}

std::string reason_for(const gid_entry& chosen) {
  const std::string kind = kind_of_entry(chosen);
  if (kind == "IPv4") return "RoCE v2 over IPv4, which other hosts can reach";
  if (kind == "IPv6") return "RoCE v2 over IPv6; the port has no IPv4 address";
  if (kind == "loopback") return "RoCE v2 over loopback, which reaches this host only";
  if (kind == "link-local")
    return "RoCE v2 over a link-local address, which reaches this link only";
  return "the port has no better GID; the peer must also use " + kind;
}

// Returns a list of the first entries that were not chosen.
std::string others_of(const port_facts& port, const gid_entry& chosen) {
  constexpr std::size_t shown = 6;
  std::string text;
  std::size_t count = 0;
  for (const auto& entry : port.gids) {
    if (entry.index == chosen.index) continue;
    if (++count > shown) continue;
    text += text.empty() ? "; not " : ", ";
    text += entry_text(entry);
  }
  if (count > shown) text += " and " + std::to_string(count - shown) + " more";
  return text;
}

finding about_lid(finding found, const port_attributes& port) {
  found.looked_at = "the LID of the port";
  found.meaning = "InfiniBand: addressed by LID " + std::to_string(port.lid().value());
  if (port.lid().value() != 0) return found;
  found.level = severity::problem;
  found.meaning += ": no subnet manager has assigned a LID";
  found.commands = {"sudo opensm -B"};
  return found;
}

void judge_interface(const host_facts& host, const gid_entry& chosen, finding& found) {
  const auto name = chosen.interface_name();
  const net_interface* const interface = name ? find_interface(host, *name) : nullptr;
  if (interface == nullptr || (interface->up && interface->running)) return;
  found.level = severity::warning;
  found.meaning += "; its interface " + *name + (interface->up ? " has no carrier" : " is down");
  if (!interface->up) found.commands = {"sudo ip link set " + *name + " up"};
}

}  // namespace

finding about_address(const host_facts& host, const device_facts& device, const port_facts& port) {
  finding found{.topic = "gid",
                .subject = port_name(device, port.attributes.number()),
                .looked_at = "the GID table of the port"};
  if (port.attributes.link_layer() == link_layer::infiniband)
    return about_lid(std::move(found), port.attributes);
  if (device.transport == transport_type::iwarp) {
    found.meaning =
        "iWARP: addressed by the IP address of its network interface, with the "
        "connection manager";
    return found;
  }
  const auto chosen = choose_routable(port.gids);
  if (!chosen) {
    found.level = severity::problem;
    found.meaning = "the GID table is empty: the network interface of the port has no address";
    found.commands = {"rdma link", "sudo ip address add ADDRESS/24 dev NETDEV"};
    return found;
  }
  found.meaning =
      "index " + entry_text(*chosen) + ": " + reason_for(*chosen) + others_of(port, *chosen);
  if (device.origin == provider_origin::soft)
    found.meaning += "; soft0 reaches this host only, or other hosts with VERBENA_SOFTDEV_WIRE=on";
  const std::string kind = kind_of_entry(*chosen);
  if (kind == "loopback") found.level = severity::note;
  if (kind != "IPv4" && kind != "IPv6" && kind != "loopback") {
    found.level = severity::warning;
    found.commands = {"sudo ip address add ADDRESS/24 dev " +
                      chosen->interface_name().value_or("NETDEV")};
  }
  judge_interface(host, *chosen, found);
  return found;
}

finding about_mtu(const host_facts& host, const device_facts& device, const port_facts& port) {
  const auto& attributes = port.attributes;
  const std::uint32_t active = byte_count(attributes.active_mtu());
  const std::uint32_t largest = byte_count(attributes.max_mtu());
  finding found{.topic = "mtu",
                .subject = port_name(device, attributes.number()),
                .looked_at = "ibv_query_port, MTU of the interface"};
  found.meaning = std::to_string(active) + " bytes of at most " + std::to_string(largest);
  const auto chosen = choose_routable(port.gids);
  const auto name = chosen ? chosen->interface_name() : std::nullopt;
  const net_interface* const interface = name ? find_interface(host, *name) : nullptr;
  const bool on_wire = attributes.link_layer() == link_layer::ethernet &&
                       device.origin != provider_origin::soft &&
                       device.transport != transport_type::iwarp;
  if (on_wire && interface != nullptr) {
    found.meaning += ", over " + *name + " with " + std::to_string(interface->mtu);
    if (interface->mtu < active + roce_headers_of_rxe) {
      found.level = severity::warning;
      found.meaning += ", which is too small: packets with headers do not fit";
    } else if (active < largest) {
      found.level = severity::note;
      found.meaning +=
          "; larger packets need a larger MTU of the interface here, of that at the peer, "
          "and of every switch between them";
    }
    if (found.level != severity::ok)
      found.commands = {"sudo ip link set " + *name + " mtu " +
                        std::to_string(largest + roce_headers_of_adapters)};
  }
  found.meaning += "; a connection uses the smaller MTU of both sides";
  if (on_wire)
    found.meaning += ", and every switch between them must pass packets of " +
                     std::to_string(active + roce_headers_of_rxe) + " bytes";
  return found;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
