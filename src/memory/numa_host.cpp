// SPDX-License-Identifier: MIT
#include "src/memory/numa_host.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <set>

namespace verbena::inline VERBENA_ABI::detail {

numa_outcome locate_pages(std::span<const std::byte> memory, page_nodes& found) {
  constexpr std::size_t at_once = 4096;
  std::array<const void*, at_once> pages{};
  std::array<int, at_once> where{};
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto* const end = memory.data() + memory.size();
  const auto* next = memory.data() - reinterpret_cast<std::uintptr_t>(memory.data()) % page;
  std::set<unsigned> nodes;
  found = {};
  while (next < end) {
    std::size_t count = 0;
    for (; count < at_once && next < end; ++count, next += page) pages[count] = next;
    if (::syscall(SYS_move_pages, 0, count, pages.data(), nullptr, where.data(), 0) != 0)
      return {.code = errno, .call = "move_pages"};
    for (std::size_t i = 0; i < count; ++i) {
      if (where[i] < 0)
        found.complete = false;
      else
        nodes.insert(static_cast<unsigned>(where[i]));
    }
  }
  found.nodes.assign(nodes.begin(), nodes.end());
  return {};
}

std::string node_text(unsigned node) { return "NUMA node " + std::to_string(node); }

result<numa_node> find_node(const numa_host& host, std::string_view call, unsigned node) {
  const auto all = host.nodes();
  const auto found = std::ranges::find(all, node, &numa_node::number);
  if (found != all.end()) return *found;
  std::string there;
  for (const auto& each : all) there += (there.empty() ? "" : ", ") + std::to_string(each.number);
  return error::invalid_argument(call, node_text(node),
                                 "the node does not exist, or the cpuset of this process excludes "
                                 "it (Mems_allowed_list in /proc/self/status); available nodes: " +
                                     there);
}

std::string explain_numa(int code) {
  switch (code) {
    case EPERM:
      return "the kernel does not let this process choose nodes: a container needs CAP_SYS_NICE "
             "(docker run --cap-add SYS_NICE)";
    case ENOSYS:
      return "the kernel was built without CONFIG_NUMA, or a sandbox blocks the NUMA system calls";
    case EIO:
      return "pages on other nodes could not be migrated: the node has too little free memory, or "
             "another process maps the pages";
    case EINVAL:
      return "the node has no memory, or the cpuset of this process no longer includes it "
             "(Mems_allowed_list "
             "in "
             "/proc/self/status)";
    case ENOMEM:
      return "the node has too little free memory";
    default:
      return {};
  }
}

}  // namespace verbena::inline VERBENA_ABI::detail
