// SPDX-License-Identifier: MIT
// The NUMA nodes of the host, read by hwloc. The topology is loaded once per process, on first use,
// and never freed. In builds without hwloc, this_numa_host() returns an error.
#include "src/memory/numa_host.hpp"

#ifdef VERBENA_WITH_HWLOC

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <memory>

namespace verbena::inline VERBENA_ABI::detail {
namespace {

struct bitmap_deleter {
  void operator()(hwloc_bitmap_t set) const noexcept { hwloc_bitmap_free(set); }
};
using bitmap = std::unique_ptr<hwloc_bitmap_s, bitmap_deleter>;

bitmap make_bitmap() { return bitmap(hwloc_bitmap_alloc()); }
bitmap only(unsigned number) {
  auto set = make_bitmap();
  hwloc_bitmap_only(set.get(), number);
  return set;
}

numa_outcome outcome(int returned, const char* call) {
  return {.code = returned == 0 ? 0 : errno, .call = call};
}

class hwloc_numa_host final : public numa_host {
 public:
  // Takes a loaded topology and never frees it, because threads may use it while the process ends.
  explicit hwloc_numa_host(hwloc_topology_t topology) : topology_(topology) {}

  std::vector<numa_node> nodes() const override {
    std::vector<numa_node> all;
    for (auto node = next(nullptr); node != nullptr; node = next(node))
      all.push_back({.number = node->os_index,
                     .bytes = node->attr->numanode.local_memory,
                     .has_processors = hwloc_bitmap_iszero(node->cpuset) == 0});
    std::ranges::sort(all, {}, &numa_node::number);
    return all;
  }

  std::optional<std::uint64_t> free_bytes(unsigned node) const override {
    const auto name = "/sys/devices/system/node/node" + std::to_string(node) + "/meminfo";
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(name.c_str(), "re"),
                                                               std::fclose);
    char line[128];
    std::uint64_t kib = 0;
    while (file != nullptr && std::fgets(line, sizeof line, file.get()) != nullptr)
      if (std::sscanf(line, "Node %*u MemFree: %" SCNu64 " kB", &kib) == 1) return kib * 1024;
    return std::nullopt;
  }

  numa_outcome prefer(std::span<std::byte> memory, unsigned node) const override {
    return set(memory, only(node).get(), HWLOC_MEMBIND_BIND, 0);
  }

  numa_outcome bind(std::span<std::byte> memory, unsigned node) const override {
    return set(memory, only(node).get(), HWLOC_MEMBIND_BIND,
               HWLOC_MEMBIND_STRICT | HWLOC_MEMBIND_MIGRATE);
  }

  numa_outcome release(std::span<std::byte> memory) const override {
    return set(memory, hwloc_topology_get_topology_nodeset(topology_), HWLOC_MEMBIND_DEFAULT, 0);
  }

  numa_outcome locate(std::span<const std::byte> memory, page_nodes& found) const override {
    return locate_pages(memory, found);
  }

  numa_outcome bind_thread(unsigned node, numa_binding how) const override {
    const auto before = make_bitmap();
    const auto where = only(node);
    auto done = outcome(hwloc_get_cpubind(topology_, before.get(), HWLOC_CPUBIND_THREAD),
                        "hwloc_get_cpubind");
    if (done.code != 0) return done;
    const auto* const there = hwloc_get_numanode_obj_by_os_index(topology_, node);
    done = outcome(hwloc_set_cpubind(topology_, there->cpuset, HWLOC_CPUBIND_THREAD),
                   "hwloc_set_cpubind");
    if (done.code != 0) return done;
    const int strict = how == numa_binding::strict ? HWLOC_MEMBIND_STRICT : 0;
    done = outcome(hwloc_set_membind(topology_, where.get(), HWLOC_MEMBIND_BIND,
                                     HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET | strict),
                   "hwloc_set_membind");
    if (done.code != 0) hwloc_set_cpubind(topology_, before.get(), HWLOC_CPUBIND_THREAD);
    return done;
  }

  numa_outcome unbind_thread() const override {
    const auto done =
        outcome(hwloc_set_cpubind(topology_, hwloc_topology_get_topology_cpuset(topology_),
                                  HWLOC_CPUBIND_THREAD),
                "hwloc_set_cpubind");
    if (done.code != 0) return done;
    return outcome(
        hwloc_set_membind(topology_, hwloc_topology_get_topology_nodeset(topology_),
                          HWLOC_MEMBIND_DEFAULT, HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET),
        "hwloc_set_membind");
  }

 private:
  [[nodiscard]] hwloc_obj_t next(hwloc_obj_t node) const {
    return hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_NUMANODE, node);
  }

  [[nodiscard]] numa_outcome set(std::span<std::byte> memory, hwloc_const_nodeset_t nodes,
                                 hwloc_membind_policy_t policy, int flags) const {
    return outcome(hwloc_set_area_membind(topology_, memory.data(), memory.size(), nodes, policy,
                                          flags | HWLOC_MEMBIND_BYNODESET),
                   "hwloc_set_area_membind");
  }

  hwloc_topology_t topology_;
};

struct loaded {
  const numa_host* host = nullptr;
  numa_outcome failure = {};
};

loaded load() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0)
    return {.failure = {.code = ENOMEM, .call = "hwloc_topology_init"}};
  // The x86 component of hwloc would bind this thread to each processor in turn.
  hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  // Group objects are kept: without them, a node would have all processors of the host.
  hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(topology) != 0) {
    const int code = errno;
    hwloc_topology_destroy(topology);
    return {.failure = {.code = code, .call = "hwloc_topology_load"}};
  }
  if (hwloc_topology_is_thissystem(topology) == 0) {
    // The topology is not that of this host: binding calls would succeed without an effect.
    hwloc_topology_destroy(topology);
    return {.failure = {.code = 0, .call = "hwloc_topology_is_thissystem"}};
  }
  return {.host = new hwloc_numa_host(topology)};
}

}  // namespace

result<const numa_host*> this_numa_host(std::string_view call, std::string_view object) {
  static const loaded once = load();
  if (once.host != nullptr) return once.host;
  const std::string name = once.failure.call;
  return error::unavailable(
      once.failure.code, call, object,
      once.failure.code == 0
          ? name +
                " failed: hwloc is configured with the topology of another machine; unset "
                "HWLOC_XMLFILE, "
                "HWLOC_SYNTHETIC and HWLOC_THISSYSTEM"
          : name + " cannot read the topology of this host; check that /sys is mounted");
}

}  // namespace verbena::inline VERBENA_ABI::detail

#else

namespace verbena::inline VERBENA_ABI::detail {

result<const numa_host*> this_numa_host(std::string_view call, std::string_view object) {
  return error::not_supported(
      call, object,
      "this library was built without hwloc: install it (Debian: libhwloc-dev), and build Verbena "
      "with -DVERBENA_HWLOC=ON");
}

}  // namespace verbena::inline VERBENA_ABI::detail

#endif
