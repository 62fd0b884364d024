// SPDX-License-Identifier: MIT
// Checks the software device of this project, and the kernel's software devices rxe and siw.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "src/diagnose/words.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {
namespace {

// Returns the command that loads `module` and creates a device of `type` on `interface`.
std::string making_of(std::string_view type, std::string_view module, std::string_view interface) {
  std::string command = "sudo modprobe ";
  command.append(module).append(" && sudo rdma link add ").append(type).append("_");
  return command.append(interface)
      .append(" \\\n  type ")
      .append(type)
      .append(" netdev ")
      .append(interface);
}

finding about_soft_device(const devices_facts& devices) {
  finding found{.topic = "soft0", .looked_at = "libverbena-soft.so.0, memfd_create(2)"};
  if (devices.soft.hidden) {
    found.level = severity::note;
    found.looked_at = "VERBENA_SOFTDEV";
    found.meaning = "VERBENA_SOFTDEV=off disables soft0";
    found.commands = {"unset VERBENA_SOFTDEV"};
  } else if (devices.soft.failure) {
    found.level = severity::problem;
    found.meaning = detail::reason_of(*devices.soft.failure);
  } else if (devices.shared_memory_error != 0) {
    found.level = severity::problem;
    found.meaning = "memory cannot be shared: memfd_create(2) failed with \"" +
                    detail::system_error_text(devices.shared_memory_error) +
                    "\"; a seccomp filter blocks it, or the limit of open files is reached";
    found.commands = {"grep Seccomp /proc/self/status", "ulimit -n"};
  } else {
    found.meaning = "soft0 is available and can share memory with other processes of this user";
  }
  return found;
}

finding about_wire(const wire_settings& wire) {
  finding found{.topic = "soft0-wire",
                .looked_at = "VERBENA_SOFTDEV_WIRE, VERBENA_SOFTDEV_WIRE_KEY_FILE"};
  if (!wire.on) {
    found.level = severity::note;
    found.meaning =
        "VERBENA_SOFTDEV_WIRE_KEY_FILE has no effect, because VERBENA_SOFTDEV_WIRE is off: soft0 "
        "reaches processes of this host only";
    found.commands = {"export VERBENA_SOFTDEV_WIRE=on"};
  } else if (!wire.key_file) {
    found.level = severity::note;
    found.meaning =
        "soft0 reaches other hosts, and its packets are not authenticated: anyone who can send "
        "packets "
        "with the address of a peer can forge them";
    found.commands = {"(umask 077; head -c 32 /dev/urandom > ~/.soft0-key)",
                      "export VERBENA_SOFTDEV_WIRE_KEY_FILE=~/.soft0-key"};
  } else if (!wire.key_problem.empty()) {
    found.level = severity::problem;
    found.meaning =
        "the key file is not usable, so soft0 does not reach other hosts: " + wire.key_problem;
  } else {
    found.meaning = "soft0 reaches other hosts, and authenticates packets with the secret in '" +
                    *wire.key_file + "'; the file is usable";
  }
  return found;
}

finding about_copies(const host_facts& host, const devices_facts& devices) {
  finding found{.topic = "soft0-copy",
                .looked_at = "process_vm_readv(2), /proc/sys/kernel/yama/ptrace_scope"};
  constexpr const char* slower =
      "; memory from the allocator of the library is shared anyway, other memory is copied by the "
      "peer, which is slower";
  if (devices.remote_copy_error != 0) {
    found.level = severity::note;
    found.meaning = "processes cannot copy memory from each other (" +
                    detail::system_error_text(devices.remote_copy_error) +
                    "): a seccomp filter blocks it" + slower;
  } else if (host.ptrace_scope > 0) {
    found.level = severity::note;
    found.meaning =
        "Yama permits processes to copy memory only from their children" + std::string(slower);
    found.commands = {"sudo sysctl kernel.yama.ptrace_scope=0"};
  } else {
    found.meaning = "processes of one user can copy memory from each other";
  }
  return found;
}

// Returns the interfaces to which rxe and siw can be attached.
std::vector<const net_interface*> attachable(const host_facts& host) {
  std::vector<const net_interface*> found;
  for (const auto& each : host.interfaces)
    if (each.ethernet && each.up) found.push_back(&each);
  return found;
}

void add_modules(const host_facts& host, finding& found) {
  const auto has = [&host](const char* module) {
    return std::ranges::find(host.available, module) != host.available.end() ||
           std::ranges::find(host.loaded, module) != host.loaded.end();
  };
  if (has("rdma_rxe") || has("siw")) {
    found.meaning += std::string("; this kernel has ") + (has("rdma_rxe") ? "rdma_rxe" : "") +
                     (has("rdma_rxe") && has("siw") ? " and " : "") + (has("siw") ? "siw" : "");
    return;
  }
  found.meaning += host.has_module_tree
                       ? "; this kernel, " + host.kernel_release +
                             ", has neither rdma_rxe nor siw: install its extra modules "
                             "(linux-modules-extra) or another kernel"
                       : "; the modules of this kernel are not visible (a container?): run the "
                         "commands on the host";
}

finding about_attaching(const host_facts& host) {
  constexpr std::size_t shown = 3;
  finding found{.topic = "attach",
                .level = severity::note,
                .subject = "",
                .looked_at = "/sys/class/net, /lib/modules"};
  found.meaning =
      "the kernel's software devices can be attached to any Ethernet interface: rxe "
      "implements RoCE v2, siw implements iWARP";
  add_modules(host, found);
  const auto interfaces = attachable(host);
  if (interfaces.empty()) {
    found.meaning += "; no Ethernet interface is up, so create a veth pair";
    found.commands = {"sudo ip link add v0 type veth peer name v1",
                      "sudo ip link set v0 up && sudo ip link set v1 up",
                      "sudo ip address add 10.0.0.1/24 dev v0",
                      "sudo modprobe rdma_rxe && sudo rdma link add rxe_v0 \\\n"
                      "  type rxe netdev v0"};
    return found;
  }
  if (!host.has_rdma_tool) found.commands.emplace_back("sudo apt install iproute2");
  for (std::size_t i = 0; i < std::min(shown, interfaces.size()); ++i) {
    const std::string& name = interfaces[i]->name;
    found.commands.push_back(making_of("rxe", "rdma_rxe", name));
    if (i == 0) found.commands.push_back(making_of("siw", "siw", name));
  }
  return found;
}

}  // namespace

std::vector<finding> examine_software(const host_facts& host, const devices_facts& devices) {
  std::vector<finding> out{about_soft_device(devices)};
  if (!devices.soft.hidden && !devices.soft.failure) out.push_back(about_copies(host, devices));
  const bool uses_wire = host.wire.on || host.wire.key_file;
  if (!devices.soft.hidden && uses_wire) out.push_back(about_wire(host.wire));
  const auto best = best_usable(host, devices);
  if (!best || best->kind == device_kind::soft) out.push_back(about_attaching(host));
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose
