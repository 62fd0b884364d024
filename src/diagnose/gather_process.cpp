// SPDX-License-Identifier: MIT
// Sources: proc_pid_limits(5), proc_pid_status(5), user_namespaces(7), cgroups(7), and the kernel's
// documentation of the rdma controller.
#include <algorithm>
#include <string_view>

#include "src/diagnose/files.hpp"
#include "src/diagnose/gather.hpp"

namespace verbena::inline VERBENA_ABI::diagnose::detail {
namespace {

constexpr unsigned cap_ipc_lock = 14;

std::optional<limit> read_limit(std::string_view limits, std::string_view name) {
  for (const auto line : lines_of(limits)) {
    if (!line.starts_with(name)) continue;
    const auto words = words_of(line.substr(name.size()));
    if (words.size() < 2) return std::nullopt;
    return limit{.soft = number_of(words[0]), .hard = number_of(words[1])};
  }
  return std::nullopt;
}

std::string_view value_of(std::string_view status, std::string_view key) {
  for (const auto line : lines_of(status))
    if (line.starts_with(key))
      if (const auto words = words_of(line.substr(key.size())); !words.empty()) return words[0];
  return {};
}

std::string container_of(const fact_sources& from) {
  if (is_there(below(from.root, ".dockerenv"))) return "docker";
  if (is_there(below(from.root, "run/.containerenv"))) return "podman";
  if (const std::string kind = read_line(below(from.root, "run/systemd/container")); !kind.empty())
    return kind;
  const char* const said = from.environment("container");
  return said != nullptr ? said : "";
}

std::uint64_t used_of(std::string_view current, std::string_view device,
                      std::string_view resource) {
  for (const auto line : lines_of(current)) {
    const auto words = words_of(line);
    if (words.empty() || words[0] != device) continue;
    for (const auto word : words)
      if (word.starts_with(resource) && word.size() > resource.size() &&
          word[resource.size()] == '=')
        return number_of(word.substr(resource.size() + 1)).value_or(0);
  }
  return 0;
}

void gather_group(host_facts& out, const std::filesystem::path& folder) {
  const std::string limits = read_text(folder / "rdma.max");
  const std::string current = read_text(folder / "rdma.current");
  for (const auto line : lines_of(limits)) {
    const auto words = words_of(line);
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto equal = words[i].find('=');
      if (equal == std::string_view::npos) continue;
      const auto allowed = number_of(words[i].substr(equal + 1));
      if (!allowed) continue;  // max
      const auto resource = words[i].substr(0, equal);
      out.group_limits.push_back({.file = (folder / "rdma.max").string(),
                                  .device = std::string(words[0]),
                                  .resource = std::string(resource),
                                  .allowed = *allowed,
                                  .used = used_of(current, words[0], resource)});
    }
  }
}

// Reads the limits of the control group of this process and of its ancestors.
void gather_groups(host_facts& out) {
  const std::string groups = read_text(below(out.root, "proc/self/cgroup"));
  for (const auto line : lines_of(groups)) {
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "rdma") continue;
    const auto base = below(out.root, controllers.empty() ? "sys/fs/cgroup" : "sys/fs/cgroup/rdma");
    std::filesystem::path inside(line.substr(second + 1));
    for (inside = inside.relative_path();; inside = inside.parent_path()) {
      gather_group(out, inside.empty() ? base : base / inside);
      if (inside.empty()) break;
    }
  }
}

}  // namespace

void gather_process(host_facts& out, const fact_sources& from) {
  const std::string limits = read_text(below(out.root, "proc/self/limits"));
  out.locked_memory = read_limit(limits, "Max locked memory");
  out.open_files = read_limit(limits, "Max open files");
  const std::string status = read_text(below(out.root, "proc/self/status"));
  const auto capabilities = number_of(value_of(status, "CapEff:"), 16).value_or(0);
  const std::string map = read_line(below(out.root, "proc/self/uid_map"));
  const auto mapped = words_of(map);
  // The initial user namespace maps every user to itself.
  out.in_user_namespace =
      mapped.size() == 3 && !(mapped[0] == "0" && mapped[1] == "0" && mapped[2] == "4294967295");
  out.may_lock_memory = !out.in_user_namespace && (capabilities >> cap_ipc_lock & 1U) != 0;
  out.has_seccomp_filter = value_of(status, "Seccomp:") == "2";
  out.ptrace_scope = static_cast<int>(
      number_of(read_line(below(out.root, "proc/sys/kernel/yama/ptrace_scope"))).value_or(0));
  out.container = container_of(from);
  for (const char* const name : {"RDMAV_FORK_SAFE", "IBV_FORK_SAFE"})
    if (const char* const value = from.environment(name); value != nullptr)
      out.fork_variable = std::string(name) + "=" + value;
  gather_groups(out);
}

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
