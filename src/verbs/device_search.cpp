// SPDX-License-Identifier: MIT
#include "verbena/verbs/device_search.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>

#include "verbena/verbs/context.hpp"
#include "verbena/verbs/gid_table.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

error not_found(std::string_view call, const std::string& wanted, const std::string& there) {
  return error::unavailable(
      ENODEV, call, wanted,
      there.empty() ? "there is no RDMA device" : "there is no such device; there are: " + there);
}

// `soft0 (eth0), mlx5_0 (eth1)`.
std::string list_with(std::span<const device> among,
                      const std::function<std::string(const device&)>& note) {
  std::string text;
  for (const auto& each : among) {
    text += (text.empty() ? "" : ", ") + each.name();
    if (const std::string more = note(each); !more.empty()) text += " (" + more + ")";
  }
  return text;
}

// The names of the network interfaces in a device's GID tables, each once; empty if it cannot say.
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
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

result<device> find_by_name(std::span<const device> among, std::string_view name) {
  const auto found = std::ranges::find(among, name, &device::name);
  if (found != among.end()) return *found;
  return not_found("find_by_name", std::string(name),
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
    seen.push_back(each.name() + " (" + (names.empty() ? "no interface" : joined(names)) + ")");
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

}  // namespace verbena::inline VERBENA_ABI
