// SPDX-License-Identifier: MIT
// Checks the limits of this process: locked memory, files, control groups, containers, fork.
#include <string>

#include "src/diagnose/words.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {
namespace {

constexpr std::uint64_t little_locked_memory = std::uint64_t{64} << 20U;
constexpr std::uint64_t few_files = 256;

std::string amount(const std::optional<std::uint64_t>& value, const char* unit) {
  return value ? std::to_string(*value) + unit : "unlimited";
}

finding about_locked_memory(const host_facts& host) {
  finding found{.topic = "memlock", .looked_at = "/proc/self/limits, Max locked memory"};
  const bool pins = !host.devices.empty();
  if (!host.locked_memory) {
    found.level = severity::note;
    found.meaning = "the limit is unknown";
    return found;
  }
  const limit& now = *host.locked_memory;
  found.meaning = "at most " + amount(now.soft, " bytes") + " (hard limit " +
                  amount(now.hard, " bytes") + ") can be registered with kernel devices";
  if (!now.soft || host.may_lock_memory) {
    found.meaning =
        !now.soft ? "unlimited" : "this user has CAP_IPC_LOCK, so the limit does not apply";
    return found;
  }
  if (*now.soft >= little_locked_memory) return found;
  found.level = !pins ? severity::note : *now.soft == 0 ? severity::problem : severity::warning;
  found.meaning += "; soft0 does not pin memory, so the limit does not apply to it";
  const bool may_raise = !now.hard || *now.hard > *now.soft;
  if (may_raise) found.commands = {"ulimit -l hard"};
  if (now.hard)
    found.commands.emplace_back(
        "echo '* - memlock unlimited' | sudo tee -a \\\n"
        "  /etc/security/limits.d/rdma.conf   # and log in again");
  return found;
}

finding about_files(const host_facts& host) {
  finding found{.topic = "files", .looked_at = "/proc/self/limits, Max open files"};
  if (!host.open_files) {
    found.level = severity::note;
    found.meaning = "the limit is unknown";
    return found;
  }
  const limit& now = *host.open_files;
  found.meaning = amount(now.soft, " descriptors") + " (hard limit " + amount(now.hard, "") +
                  "); each open device and each completion channel uses some";
  if (now.soft && *now.soft < few_files) {
    found.level = severity::warning;
    found.commands = {"ulimit -n hard"};
  }
  return found;
}

finding about_container(const host_facts& host) {
  finding found{.topic = "container", .looked_at = "/.dockerenv, /proc/self/uid_map, seccomp"};
  if (host.container.empty() && !host.in_user_namespace && !host.has_seccomp_filter) {
    found.meaning = "no container, no seccomp filter";
    return found;
  }
  found.level = severity::note;
  found.meaning =
      host.container.empty() ? "not in a known container" : "in a container: " + host.container;
  if (host.in_user_namespace)
    found.meaning += "; in a user namespace, where CAP_IPC_LOCK does not lift limits";
  if (host.has_seccomp_filter) found.meaning += "; a seccomp filter may block system calls";
  found.meaning +=
      ". Kernel devices need /dev/infiniband in the container and a sufficient "
      "limit of locked memory; soft0 needs neither";
  if (!host.container.empty())
    found.commands = {
        "docker run --device=/dev/infiniband --ulimit memlock=-1 \\\n"
        "  --cap-add=IPC_LOCK IMAGE"};
  return found;
}

void add_groups(const host_facts& host, std::vector<finding>& out) {
  for (const auto& each : host.group_limits) {
    const bool exhausted = each.used >= each.allowed;
    out.push_back({.topic = "cgroup",
                   .level = exhausted ? severity::problem : severity::note,
                   .subject = each.device,
                   .looked_at = each.file,
                   .meaning = "the control group allows " + std::to_string(each.allowed) + " " +
                              each.resource + ", and " + std::to_string(each.used) + " are in use" +
                              (exhausted ? ": the next open or creation fails with ENOMEM" : ""),
                   .commands = {"echo '" + each.device + " " + each.resource +
                                "=max' | sudo tee \\\n  " + each.file}});
  }
}

finding about_fork(const host_facts& host) {
  finding found{.topic = "fork",
                .looked_at = "/proc/sys/kernel/osrelease, RDMAV_FORK_SAFE, IBV_FORK_SAFE"};
  const bool copies = kernel_is_at_least(host.kernel_release, 5, 12);
  if (copies) {
    found.meaning =
        "the kernel copies registered pages for a child: fork(2) is safe without "
        "ibv_fork_init(3)";
    if (!host.fork_variable.empty()) {
      found.level = severity::note;
      found.meaning += ", and " + host.fork_variable + " only slows registration down";
      found.commands = {"unset RDMAV_FORK_SAFE IBV_FORK_SAFE"};
    }
  } else if (host.fork_variable.empty()) {
    found.level = host.devices.empty() ? severity::note : severity::warning;
    found.meaning =
        "before Linux 5.12, fork(2) may replace registered pages of the parent unless "
        "libibverbs is told (system(3) and popen(3) also fork)";
    found.commands = {"export RDMAV_FORK_SAFE=1",
                      "export RDMAV_HUGEPAGES_SAFE=1   # with huge pages"};
  } else {
    found.meaning = host.fork_variable + " makes libibverbs exclude registered pages from children";
  }
  found.meaning += ". A child must not use the devices of its parent, including soft0";
  return found;
}

}  // namespace

std::vector<finding> examine_process(const host_facts& host) {
  std::vector<finding> out{about_locked_memory(host), about_files(host), about_container(host)};
  add_groups(host, out);
  out.push_back(about_fork(host));
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose
