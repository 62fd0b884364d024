// SPDX-License-Identifier: MIT
#include "src/verbs/gid_query.hpp"

#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "verbena/verbs/gid_table.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

// The headers may lack the definition of ibv_gid_entry.
ibv_gid_entry* native_of(sys::gid_entry_layout* entry) noexcept {
  return reinterpret_cast<ibv_gid_entry*>(entry);
}

// Returns the first line of a file of the device in sysfs, or an empty text.
std::string read_attribute(const ibv_device& device, std::uint32_t port, const char* attribute,
                           std::uint32_t index) {
  const char* const folder = device.ibdev_path;
  std::ifstream file(std::string(folder, ::strnlen(folder, sizeof device.ibdev_path)) + "/ports/" +
                     std::to_string(port) + "/gid_attrs/" + attribute + "/" +
                     std::to_string(index));
  std::string line;
  std::getline(file, line);
  return line;
}

gid_type type_of(const ibv_port_attr& port, const std::string& attribute) noexcept {
  if (attribute == "RoCE v2") return gid_type::roce_v2;
  return port.link_layer == IBV_LINK_LAYER_ETHERNET ? gid_type::roce_v1 : gid_type::infiniband;
}

// Libraries before rdma-core 32 return only the address. The kernel has the rest in sysfs.
verb_status read_gid_in_parts(queried_device device, const ibv_port_attr& attributes,
                              std::uint32_t port, std::uint32_t index, sys::gid_entry_layout& out) {
  if (index >= static_cast<std::uint32_t>(std::max(0, attributes.gid_tbl_len)))
    return {true, EINVAL};
  ibv_gid found{};
  const auto status = call(device.from->verbs.query_gid, device.context,
                           static_cast<std::uint8_t>(port), static_cast<int>(index), &found);
  if (status.failed) return status;
  const auto is_zero = [](std::uint8_t byte) { return byte == 0; };
  if (std::ranges::all_of(found.raw, is_zero)) return {true, ENODATA};
  const ibv_device& native = *device.context->device;
  const auto type = type_of(attributes, read_attribute(native, port, "types", index));
  out = {.gid = found,
         .gid_index = index,
         .port_num = port,
         .gid_type = static_cast<std::uint32_t>(type),
         .interface_index = ::if_nametoindex(read_attribute(native, port, "ndevs", index).c_str())};
  return {};
}

verb_status query_port(queried_device device, std::uint32_t port, ibv_port_attr& out) {
  return call(device.from->verbs.query_port, device.context, static_cast<std::uint8_t>(port), &out);
}

ssize_t read_table_in_parts(queried_device device, std::span<sys::gid_entry_layout> out) {
  ibv_device_attr attributes{};
  if (const auto status = call(device.from->verbs.query_device, device.context, &attributes);
      status.failed)
    return -status.code;
  std::size_t count = 0;
  for (std::uint32_t port = 1; port <= attributes.phys_port_cnt; ++port) {
    ibv_port_attr of_port{};
    if (const auto status = query_port(device, port, of_port); status.failed) return -status.code;
    const auto length = static_cast<std::uint32_t>(std::max(0, of_port.gid_tbl_len));
    for (std::uint32_t index = 0; index < length && count < out.size(); ++index) {
      const auto status = read_gid_in_parts(device, of_port, port, index, out[count]);
      if (!status.failed) ++count;
    }
  }
  return static_cast<ssize_t>(count);
}

}  // namespace

ssize_t read_gid_table(queried_device device, std::span<sys::gid_entry_layout> out) {
  const auto& verb = device.from->verbs.query_gid_table;
  if (!verb.available()) return read_table_in_parts(device, out);
  return verb(device.context, native_of(out.data()), out.size(), 0, sizeof(sys::gid_entry_layout));
}

verb_status read_gid(queried_device device, std::uint32_t port, std::uint32_t index,
                     sys::gid_entry_layout& out) {
  const auto& verb = device.from->verbs.query_gid_ex;
  if (verb.available())
    return call(verb, device.context, port, index, native_of(&out), 0U, sizeof out);
  ibv_port_attr attributes{};
  const auto status = query_port(device, port, attributes);
  return status.failed ? status : read_gid_in_parts(device, attributes, port, index, out);
}

}  // namespace verbena::inline VERBENA_ABI::detail
