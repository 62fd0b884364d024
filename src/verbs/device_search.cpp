// SPDX-License-Identifier: MIT
#include "verbena/verbs/device_search.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>

#include "src/verbs/ports.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/gid_table.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

error not_found(std::string_view call, const std::string& wanted, const std::string& there) {
  return error::unavailable(
      ENODEV, call, wanted,
      there.empty() ? "there is no RDMA device" : "no device matches; the devices are: " + there);
}

// Returns a list like `soft0 (eth0), mlx5_0 (eth1)`.
std::string list_with(std::span<const device> among,
                      const std::function<std::string(const device&)>& note) {
  std::string text;
  for (const auto& each : among) {
    text += (text.empty() ? "" : ", ") + each.name();
    if (const std::string more = note(each); !more.empty()) text += fmt::format(" ({})", more);
  }
  return text;
}

// Returns the names of the network interfaces in a device's GID tables, each once. Returns an empty
// list if the device cannot be opened.
std::vector<std::string> interfaces_of(const device& of) {
  std::vector<std::string> names;
  const auto opened = of.open();
  if (!opened) return names;
  const auto table = opened->gid_table();
  if (!table) return names;
  for (const auto& entry : *table) {
    const auto name = entry.interface_name();
    if (name && std::ranges::find(names, *name) == names.end()) names.push_back(*name);
  }
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns the ports of a device; an empty list if the device cannot be opened or queried.
std::vector<port_attributes> ports_of(const device& of) {
  auto ports = of.open().and_then(detail::query_ports);
  return ports ? *std::move(ports) : std::vector<port_attributes>();
}

// Returns the data rate of a port; 0 if the port is not active or the rate is unknown.
double active_gbps(const port_attributes& port) {
  return port.state() == port_state::active ? port.data_gbps().value_or(0) : 0;
}

std::string gbps_text(double gbps) { return fmt::format("{:g} Gbit/s", gbps); }

// A search for a property of ports, and the texts of its error.
struct port_search {
  std::string_view call;
  std::string wanted;
  std::function<bool(const port_attributes&)> matches;
  std::function<std::string(const port_attributes&)> describe;
};

result<std::vector<device>> find_by_port(std::span<const device> among, const port_search& search) {
  std::vector<device> found;
  std::vector<std::string> seen;
  for (const auto& each : among) {
    const auto ports = ports_of(each);
    if (std::ranges::any_of(ports, search.matches)) found.push_back(each);
    std::string texts;
    for (const auto& port : ports) texts += (texts.empty() ? "" : ", ") + search.describe(port);
    seen.push_back(fmt::format("{} ({})", each.name(), texts.empty() ? "no port" : texts));
  }
  if (!found.empty()) return found;
  return not_found(search.call, search.wanted, joined(seen));
}

}  // namespace

result<device> find_by_name(std::span<const device> among, std::string_view name) {
  const auto found = std::ranges::find(among, name, &device::name);
  if (found != among.end()) return *found;
  return not_found("find_by_name", std::string(name),
                   list_with(among, [](const device&) { return std::string(); }));
}

result<std::vector<device>> find_by_pattern(std::span<const device> among,
                                            const std::string& pattern) {
  std::vector<device> found;
  for (const auto& each : among)
    if (::fnmatch(pattern.c_str(), each.name().c_str(), 0) == 0) found.push_back(each);
  if (!found.empty()) return found;
  return not_found("find_by_pattern", pattern,
                   list_with(among, [](const device&) { return std::string(); }));
}

result<device> find_by_guid(std::span<const device> among, guid id) {
  const auto found = std::ranges::find(among, id, &device::guid);
  if (found != among.end() && !id.is_reserved()) return *found;
  return not_found("find_by_guid", "GUID " + to_string(id), list_with(among, [](const device& of) {
                     return of.guid().is_reserved() ? "no GUID" : to_string(of.guid());
                   }));
}

result<device> find_by_interface(std::span<const device> among,
                                 std::string_view network_interface) {
  std::vector<std::string> seen;
  for (const auto& each : among) {
    const auto names = interfaces_of(each);
    if (std::ranges::find(names, network_interface) != names.end()) return each;
    seen.push_back(
        fmt::format("{} ({})", each.name(), names.empty() ? "no interface" : joined(names)));
  }
  return not_found("find_by_interface", "network interface " + std::string(network_interface),
                   joined(seen));
}

result<std::vector<device>> find_by_numa_node(std::span<const device> among, unsigned node) {
  std::vector<device> found;
  for (const auto& each : among)
    if (each.numa_node() == node) found.push_back(each);
  if (!found.empty()) return found;
  return not_found("find_by_numa_node", "NUMA node " + std::to_string(node),
                   list_with(among, [](const device& of) {
                     const auto near = of.numa_node();
                     return near ? "node " + std::to_string(*near) : std::string("no node");
                   }));
}

result<std::vector<device>> find_by_speed(std::span<const device> among, double gbps) {
  return find_by_port(
      among,
      {.call = "find_by_speed",
       .wanted = "an active port of at least " + gbps_text(gbps),
       .matches = [gbps](const port_attributes& port) { return active_gbps(port) >= gbps; },
       .describe = [](const port_attributes& port) { return gbps_text(active_gbps(port)); }});
}

result<std::vector<device>> find_by_link_layer(std::span<const device> among, link_layer layer) {
  return find_by_port(
      among,
      {.call = "find_by_link_layer",
       .wanted = "link layer " + to_string(layer),
       .matches = [layer](const port_attributes& port) { return port.link_layer() == layer; },
       .describe = [](const port_attributes& port) { return to_string(port.link_layer()); }});
}

}  // namespace verbena::inline VERBENA_ABI
