// SPDX-License-Identifier: MIT
// Checks devices and ports: whether they open, are active, and transfer a message.
#include <string>

#include "src/diagnose/addressing.hpp"
#include "src/diagnose/words.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {
namespace {

using detail::port_name;

std::string interface_of(const port_facts& port) {
  for (const auto& entry : port.gids)
    if (const auto name = entry.interface_name()) return *name;
  return {};
}

finding about_state(const device_facts& device, const port_facts& port) {
  const auto& attributes = port.attributes;
  finding found{.topic = "port",
                .subject = port_name(device, attributes.number()),
                .looked_at = "ibv_query_port"};
  found.meaning = "port state " + to_string(attributes.state()) + ", physical state " +
                  to_string(attributes.phys_state());
  if (attributes.state() == port_state::active) return found;
  found.level = severity::problem;
  if (attributes.link_layer() == link_layer::infiniband) {
    const bool waits = attributes.phys_state() == physical_state::link_up;
    found.meaning += waits ? "; no subnet manager has configured it" : "; no link: check the cable";
    if (waits) found.commands = {"sudo opensm -B"};
    return found;
  }
  const std::string interface = interface_of(port);
  found.meaning += "; an Ethernet port follows its network interface" +
                   (interface.empty() ? std::string() : " " + interface);
  if (interface.empty()) found.commands.emplace_back("rdma link");
  found.commands.push_back("sudo ip link set " + (interface.empty() ? "NETDEV" : interface) +
                           " up");
  return found;
}

finding about_trial(const device_facts& device, const port_facts& port) {
  finding found{.topic = "message",
                .subject = port_name(device, port.attributes.number()),
                .looked_at = "64 bytes from the port to itself"};
  if (!port.tried) {
    found.level = severity::note;
    found.meaning = "not tested: iWARP queue pairs are connected by the connection manager";
    found.commands = {"rping -s -a 0.0.0.0 & rping -c -a ADDRESS -C 1 -v"};
  } else if (port.trial_failure) {
    found.level = severity::problem;
    found.meaning = "the message did not arrive: " + detail::reason_of(*port.trial_failure);
  } else {
    found.meaning = "the message arrived";
  }
  return found;
}

void add_device(const host_facts& host, const device_facts& device, std::vector<finding>& out) {
  if (device.failure) {
    out.push_back({.topic = "device",
                   .level = severity::problem,
                   .subject = device.name,
                   .looked_at = "ibv_open_device, queries",
                   .meaning = detail::reason_of(*device.failure),
                   .commands = {}});
    return;
  }
  for (const auto& port : device.ports) {
    out.push_back(about_state(device, port));
    if (port.attributes.state() != port_state::active) continue;
    out.push_back(detail::about_address(host, device, port));
    out.push_back(detail::about_mtu(host, device, port));
    out.push_back(about_trial(device, port));
  }
}

}  // namespace

std::vector<finding> examine_ports(const host_facts& host, const devices_facts& devices) {
  std::vector<finding> out;
  for (const side_facts* const side : {&devices.system, &devices.soft})
    for (const auto& device : side->devices) add_device(host, device, out);
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose
