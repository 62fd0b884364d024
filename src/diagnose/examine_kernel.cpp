// SPDX-License-Identifier: MIT
// Checks the kernel: devices, permissions, and the drivers of libibverbs.
#include <algorithm>
#include <cerrno>
#include <iterator>

#include "src/diagnose/words.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {
namespace {

bool is_loaded(const host_facts& host, std::string_view module) {
  return std::ranges::find(host.loaded, module) != host.loaded.end();
}

finding about_libibverbs(const devices_facts& devices) {
  finding found{.topic = "libibverbs",
                .subject = "",
                .looked_at = "libibverbs.so.1 (or VERBENA_LIBIBVERBS), ibv_get_device_list"};
  if (devices.mode_failure) {
    found.level = severity::problem;
    found.looked_at = "VERBENA_SOFTDEV";
    found.meaning = devices.mode_failure->diagnosis();
    found.commands = {"unset VERBENA_SOFTDEV"};
  } else if (devices.system.hidden) {
    found.level = severity::note;
    found.looked_at = "VERBENA_SOFTDEV";
    found.meaning = "VERBENA_SOFTDEV=only hides all devices except soft0";
    found.commands = {"unset VERBENA_SOFTDEV"};
  } else if (devices.system.failure) {
    const error& failure = *devices.system.failure;
    const bool absent = failure.kind() == error_kind::unavailable;
    found.level = severity::note;
    found.meaning = detail::reason_of(failure);
    if (absent) found.commands = {"sudo apt install libibverbs1 ibverbs-providers"};
  } else {
    found.meaning =
        "libibverbs lists " + std::to_string(devices.system.devices.size()) + " kernel devices";
  }
  return found;
}

finding about_class(const host_facts& host) {
  finding found{.topic = "devices", .looked_at = "/sys/class/infiniband"};
  if (host.devices.empty()) {
    found.level = severity::note;
    found.meaning = host.has_infiniband_class
                        ? "the RDMA modules of the kernel are loaded, but there is no RDMA device"
                        : "the kernel module ib_core is not loaded, or this container does not "
                          "expose it";
    return found;
  }
  for (const auto& each : host.devices)
    found.meaning += (found.meaning.empty() ? "the kernel has " : ", ") + each.name +
                     (each.emulated ? " (software)" : "");
  return found;
}

void add_adapters(const host_facts& host, std::vector<finding>& out) {
  const bool has_hardware =
      std::ranges::any_of(host.devices, [](const kernel_device& each) { return !each.emulated; });
  for (const auto& each : host.adapters) {
    if (has_hardware) return;  // adapters are not matched with devices
    finding found{.topic = "module",
                  .level = severity::warning,
                  .subject = each.address,
                  .looked_at = "/sys/bus/pci/devices, /proc/modules"};
    found.meaning =
        "an adapter of " + each.maker + " is present, but the kernel has no RDMA device for it";
    if (is_loaded(host, each.module)) {
      found.meaning += " although its module " + each.module +
                       " is loaded: see the kernel log, or RDMA is disabled in the firmware of the "
                       "adapter";
      found.commands = {"sudo dmesg | grep -i " + each.module};
    } else {
      found.meaning += ": its module " + each.module + " is not loaded";
      found.commands = {"sudo modprobe " + each.module};
    }
    out.push_back(std::move(found));
  }
}

finding about_node(const host_facts& host, const kernel_device& of) {
  finding found{.topic = "permission",
                .subject = of.name,
                .looked_at = of.node.empty() ? "/sys/class/infiniband_verbs" : of.node};
  if (of.node.empty()) {
    found.level = severity::problem;
    found.meaning = "the device has no device file: the kernel module ib_uverbs is not loaded";
    found.commands = {"sudo modprobe ib_uverbs"};
  } else if (of.node_error == 0) {
    found.meaning = "this user may open the device file";
  } else if (of.node_error == ENOENT) {
    found.level = severity::problem;
    found.meaning = "the device file does not exist";
    if (!host.container.empty()) {
      found.meaning += ": it is not passed to this container (" + host.container + ")";
      found.commands = {
          "docker run --device=/dev/infiniband --ulimit memlock=-1 \\\n"
          "  --cap-add=IPC_LOCK IMAGE"};
    } else {
      found.meaning += ": udev did not create it";
      found.commands = {"sudo udevadm trigger --subsystem-match=infiniband_verbs"};
    }
  } else {
    found.level = severity::problem;
    found.meaning = "this user may not open the device file (" +
                    detail::system_error_text(of.node_error) +
                    "); on most systems its mode is 0666";
    found.commands = {"sudo chmod 666 " + of.node};
  }
  return found;
}

// Adds the kernel devices that libibverbs does not list.
void add_driverless(const host_facts& host, const devices_facts& devices,
                    std::vector<finding>& out) {
  if (devices.system.hidden || devices.system.failure) return;
  for (const auto& each : host.devices) {
    const auto& listed = devices.system.devices;
    if (each.node.empty() || each.node_error == ENOENT ||
        std::ranges::find(listed, each.name, &device_facts::name) != listed.end())
      continue;
    out.push_back(
        {.topic = "driver",
         .level = severity::problem,
         .subject = each.name,
         .looked_at = "/sys/class/infiniband and ibv_get_device_list",
         .meaning = "the kernel has the device, but libibverbs found no driver for it",
         .commands = {"sudo apt install ibverbs-providers", "IBV_SHOW_WARNINGS=1 ibv_devices"}});
  }
}

}  // namespace

std::vector<finding> examine_kernel(const host_facts& host, const devices_facts& devices) {
  std::vector<finding> out{about_libibverbs(devices), about_class(host)};
  add_adapters(host, out);
  for (const auto& each : host.devices) out.push_back(about_node(host, each));
  add_driverless(host, devices, out);
  if (!host.devices.empty() && !host.has_connection_manager)
    out.push_back({.topic = "rdma_cm",
                   .level = severity::note,
                   .subject = "",
                   .looked_at = "/dev/infiniband/rdma_cm",
                   .meaning = "the connection manager of the kernel is not loaded; iWARP and "
                              "programs that use librdmacm need it",
                   .commands = {"sudo modprobe rdma_ucm"}});
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose
