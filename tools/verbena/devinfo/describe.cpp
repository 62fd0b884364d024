// SPDX-License-Identifier: MIT
#include "tools/verbena/devinfo/describe.hpp"

#include <cstddef>
#include <fstream>
#include <limits>
#include <string>

#include "verbena/diagnose/host_facts.hpp"

namespace verbena::tool {
namespace {

// Reads the first line of a sysfs file of the device. soft0 and some drivers have no such file.
value read_sysfs(const device& which, const char* name) {
  std::ifstream file("/sys/class/infiniband/" + which.name() + "/" + name);
  std::string line;
  if (!std::getline(file, line) || line.empty()) return unknown();
  for (char& letter : line)
    if (letter < ' ' || letter > '~') letter = '?';
  return line;
}

// The node type of the device in the kernel.
enumerated node_type(const device& which) {
  static constexpr const char* names[] = {"unknown", "channel adapter", "switch",    "router",
                                          "RNIC",    "usNIC",           "usNIC UDP", "unspecified"};
  const auto number = static_cast<std::int64_t>(which.native()->node_type);
  const bool known = number >= 1 && static_cast<std::size_t>(number) < std::size(names);
  return {.number = number,
          .name = known ? names[number] : "unknown (" + std::to_string(number) + ")"};
}

// Whether packets to other hosts are authenticated, by the settings of this process.
value packet_authentication(const device& which) {
  if (which.origin() != provider_origin::soft) return unknown();
  const auto wire = diagnose::gather_wire_settings();
  if (!wire.on) return unknown();
  if (!wire.key_file) return std::string("off");
  return std::string(wire.key_problem.empty() ? "on" : "unusable key file");
}

section describe_identity(const device& which, const device_attributes& attributes) {
  section all;
  all.push_back({"name", which.name()});
  all.push_back({"provider", std::string(to_string(which.origin()))});
  const auto index = which.index();
  all.push_back({"index", index ? value(std::uint64_t{*index}) : value(unknown())});
  all.push_back({"transport", enumerated{static_cast<std::int64_t>(which.transport()),
                                         to_string(which.transport())}});
  all.push_back({"node_type", node_type(which)});
  all.push_back({"fw_ver", attributes.firmware_version()});
  all.push_back({"node_guid", to_string(attributes.node_guid())});
  all.push_back({"sys_image_guid", to_string(attributes.system_image_guid())});
  all.push_back({"vendor_id", hexadecimal{attributes.vendor_id()}});
  all.push_back({"vendor_part_id", std::uint64_t{attributes.vendor_part_id()}});
  all.push_back({"hw_ver", hexadecimal{attributes.hardware_version()}});
  all.push_back({"board_id", read_sysfs(which, "board_id")});
  all.push_back({"packet_authentication", packet_authentication(which)});
  return all;
}

result<std::vector<section>> describe_ports(const context& opened, std::uint32_t count,
                                            std::optional<std::uint32_t> wanted) {
  // The verbs have no ports above 255.
  constexpr std::uint32_t last = std::numeric_limits<std::uint8_t>::max();
  if (wanted && (*wanted == 0 || *wanted > std::min(count, last)))
    return error::invalid_argument("--port", opened.name(),
                                   "port " + std::to_string(*wanted) +
                                       " does not exist: the device has " + std::to_string(count) +
                                       (count == 1 ? " port" : " ports"));
  std::vector<section> ports;
  for (std::uint32_t port = 1; port <= std::min(count, last); ++port) {
    if (wanted && port != *wanted) continue;
    VERBENA_TRY(auto described,
                describe_port(opened, port_number(static_cast<std::uint8_t>(port))));
    ports.push_back(std::move(described));
  }
  return ports;
}

}  // namespace

result<section> describe_device(const device& which, std::optional<std::uint32_t> port) {
  VERBENA_TRY(const auto opened, which.open());
  VERBENA_TRY(const auto attributes, opened.query_extended());
  VERBENA_TRY(auto ports, describe_ports(opened, attributes.port_count(), port));
  section all = describe_identity(which, attributes.basic());
  all.push_back({"phys_port_cnt", std::uint64_t{attributes.port_count()}});
  all.push_back({"num_comp_vectors", std::uint64_t{opened.completion_vectors()}});
  all.push_back({"limits", describe_limits(attributes.basic())});
  append_capabilities(all, attributes);
  all.push_back({"ports", std::move(ports)});
  return all;
}

}  // namespace verbena::tool
