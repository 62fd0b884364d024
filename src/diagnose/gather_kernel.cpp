// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "src/diagnose/files.hpp"
#include "src/diagnose/gather.hpp"

namespace verbena::inline VERBENA_ABI::diagnose::detail {
namespace {

constexpr std::uint64_t arphrd_ether = 1;

struct maker {
  std::uint64_t vendor;
  const char* name;
  const char* module;
};
// Vendors of RDMA adapters by PCI vendor ID, with the kernel module for RDMA.
constexpr std::array<maker, 7> makers = {{{0x15b3, "NVIDIA (Mellanox)", "mlx5_ib"},
                                          {0x1d0f, "Amazon", "efa"},
                                          {0x14e4, "Broadcom", "bnxt_re"},
                                          {0x1077, "Marvell (QLogic)", "qedr"},
                                          {0x1425, "Chelsio", "iw_cxgb4"},
                                          {0x1ded, "Alibaba", "erdma"},
                                          {0x19e5, "Huawei", "hns_roce_hw_v2"}}};

// Returns whether a network adapter of Amazon is an EFA. The others are ENA, without RDMA.
bool is_efa(std::uint64_t device) { return (device & 0xfff0U) == 0xefa0U; }

void gather_modules(host_facts& out) {
  const std::string loaded = read_text(below(out.root, "proc/modules"));
  for (const auto line : lines_of(loaded))
    if (const auto words = words_of(line); !words.empty()) out.loaded.emplace_back(words[0]);
  const auto tree = below(out.root, "lib/modules") / out.kernel_release;
  out.has_module_tree = !out.kernel_release.empty() && is_there(tree);
  if (!out.has_module_tree) return;
  const std::string known = read_text(tree / "modules.dep") + read_text(tree / "modules.builtin");
  for (const std::string_view module : {"rdma_rxe", "siw"})
    if (known.find("/" + std::string(module) + ".ko") != std::string::npos)
      out.available.emplace_back(module);
}

void look_at_node(const host_facts& host, kernel_device& of) {
  const auto classes = below(host.root, "sys/class/infiniband_verbs");
  for (const auto& name : names_in(classes)) {
    if (read_line(classes / name / "ibdev") != of.name) continue;
    of.node = "/dev/infiniband/" + name;
    const auto node = below(host.root, "dev/infiniband") / name;
    struct stat found{};
    if (::stat(node.c_str(), &found) == 0)
      of.node_mode = static_cast<std::uint32_t>(found.st_mode) & 07777U;
    of.node_error = ::faccessat(AT_FDCWD, node.c_str(), R_OK | W_OK, AT_EACCESS) == 0 ? 0 : errno;
    return;
  }
}

void gather_devices(host_facts& out) {
  const auto classes = below(out.root, "sys/class/infiniband");
  out.has_infiniband_class = is_there(classes);
  for (const auto& name : names_in(classes)) {
    kernel_device found{.name = name};
    std::error_code failed;
    const auto place = std::filesystem::weakly_canonical(classes / name, failed).string();
    found.emulated =
        place.find("/virtual/") != std::string::npos || is_there(classes / name / "parent");
    look_at_node(out, found);
    out.devices.push_back(std::move(found));
  }
}

void gather_adapters(host_facts& out) {
  const auto bus = below(out.root, "sys/bus/pci/devices");
  for (const auto& address : names_in(bus)) {
    const auto kind = number_of(read_line(bus / address / "class"));
    const bool is_network = kind && *kind >> 16U == 2;
    const auto vendor = number_of(read_line(bus / address / "vendor"));
    if (!is_network || !vendor) continue;
    const auto known = std::ranges::find(makers, *vendor, &maker::vendor);
    if (known == makers.end()) continue;
    if (std::string_view(known->module) == "efa" &&
        !is_efa(number_of(read_line(bus / address / "device")).value_or(0)))
      continue;
    out.adapters.push_back({.address = address, .maker = known->name, .module = known->module});
  }
}

void gather_interfaces(host_facts& out) {
  const auto classes = below(out.root, "sys/class/net");
  for (const auto& name : names_in(classes)) {
    const auto folder = classes / name;
    const auto mtu = number_of(read_line(folder / "mtu"));
    if (!mtu) continue;
    const auto flags = number_of(read_line(folder / "flags")).value_or(0);
    const std::string state = read_line(folder / "operstate");
    out.interfaces.push_back({.name = name,
                              .mtu = static_cast<std::uint32_t>(*mtu),
                              .up = (flags & IFF_UP) != 0,
                              .running = state != "down" && state != "lowerlayerdown",
                              .ethernet = number_of(read_line(folder / "type")) == arphrd_ether});
  }
}

}  // namespace

void gather_kernel(host_facts& out) {
  out.has_connection_manager = is_there(below(out.root, "dev/infiniband/rdma_cm"));
  for (const char* const place : {"usr/sbin/rdma", "sbin/rdma", "usr/bin/rdma", "bin/rdma"})
    out.has_rdma_tool = out.has_rdma_tool || is_there(below(out.root, place));
  gather_modules(out);
  gather_devices(out);
  gather_adapters(out);
  gather_interfaces(out);
  out.routes = gather_routes(out.root);
}

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
