// SPDX-License-Identifier: MIT
// The kernel's side: is there a device, may it be used, has libibverbs a driver for it?
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
    found.meaning = "VERBENA_SOFTDEV=only hides all devices but soft0";
    found.commands = {"unset VERBENA_SOFTDEV"};
  } else if (devices.system.failure) {
    const error& failure = *devices.system.failure;
    const bool absent = failure.kind() == error_kind::unavailable;
    found.level = severity::note;
    found.meaning = detail::reason_of(failure);
    if (absent) found.commands = {"sudo apt install libibverbs1 ibverbs-providers"};
  } else {
    found.meaning =
        "it lists " + std::to_string(devices.system.devices.size()) + " devices of the kernel's";
  }
  return found;
}

finding about_class(const host_facts& host) {
  finding found{.topic = "devices", .looked_at = "/sys/class/infiniband"};
  if (host.devices.empty()) {
    found.level = severity::note;
    found.meaning = host.has_class
                        ? "the kernel's RDMA modules are loaded, and it has no device"
                        : "the kernel has no RDMA: its module ib_core is not loaded, or this is a "
                          "container that does not see it";
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
    if (has_hardware) return;  // which adapter has which device is not told apart
    finding found{.topic = "module",
                  .level = severity::warning,
                  .subject = each.address,
                  .looked_at = "/sys/bus/pci/devices, /proc/modules"};
    found.meaning = "an adapter of " + each.maker + " is there, and the kernel has no device of it";
    if (is_loaded(host, each.module)) {
      found.meaning += " although its module " + each.module +
                       " is loaded: the kernel's log says why, or RDMA is switched off in the "
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
    found.meaning = "the kernel offers the device to nobody: ib_uverbs is not loaded";
    found.commands = {"sudo modprobe ib_uverbs"};
  } else if (of.node_error == 0) {
    found.meaning = "this user may use it";
  } else if (of.node_error == ENOENT) {
    found.level = severity::problem;
    found.meaning = "the file is not there";
    if (!host.container.empty()) {
      found.meaning += ": this container (" + host.container + ") was not given it";
      found.commands = {
          "docker run --device=/dev/infiniband --ulimit memlock=-1 \\\n"
          "  --cap-add=IPC_LOCK IMAGE"};
    } else {
      found.meaning += ": udev did not make it";
      found.commands = {"sudo udevadm trigger --subsystem-match=infiniband_verbs"};
    }
  } else {
    found.level = severity::problem;
    found.meaning = "this user may not use it (" + detail::system_error_text(of.node_error) +
                    "); most systems let everybody, by mode 0666";
    found.commands = {"sudo chmod 666 " + of.node};
  }
  return found;
}

// A device of the kernel's that libibverbs does not list.
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
         .looked_at = "/sys/class/infiniband beside ibv_get_device_list",
         .meaning = "the kernel has the device, and libibverbs found no driver for it",
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
                   .meaning = "the kernel's connection manager is not there; iWARP cannot do "
                              "without it, and programs with rdma_* calls neither",
                   .commands = {"sudo modprobe rdma_ucm"}});
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose
