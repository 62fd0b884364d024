// SPDX-License-Identifier: MIT
// NUMA placement of memory and threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI {

/// Selects whether a NUMA node is preferred or required.
enum class numa_binding : std::uint8_t {
  /// On the node while it has free memory, otherwise on the nearest node with free memory. If the
  /// node does not exist or the kernel refuses, the kernel chooses, and a warning with the reason
  /// is logged.
  preferred,
  strict,  ///< on the node, or an error
};

/// The NUMA node for memory. Threads: immutable.
///
/// All placements except anywhere() need a library that was built with hwloc, unless the adapter
/// has no node.
class numa_placement {
 public:
  /// Leaves the choice to the kernel: usually the node of the thread that touches the memory first.
  constexpr numa_placement() noexcept = default;
  /// Leaves the choice of the node to the kernel.
  [[nodiscard]] static constexpr numa_placement anywhere() noexcept { return {}; }
  /// Chooses the node that the adapter is attached to: numa_node_of(). If the adapter has no node
  /// (soft0, the software adapters of the kernel, hosts with one node), acts as anywhere(), with
  /// either binding.
  [[nodiscard]] static constexpr numa_placement near_adapter(numa_binding how) noexcept {
    return {kind::adapter, 0, how};
  }
  /// Chooses the node with number `node` of /sys/devices/system/node/online.
  [[nodiscard]] static constexpr numa_placement on_node(unsigned node, numa_binding how) noexcept {
    return {kind::node, node, how};
  }

  /// Returns the node for memory of the adapter of `near`; nullopt for anywhere().
  [[nodiscard]] std::optional<unsigned> node(const context& near) const;
  /// Returns whether the node is preferred or required.
  [[nodiscard]] constexpr numa_binding binding() const noexcept { return how_; }
  /// Compares two placements.
  friend constexpr bool operator==(const numa_placement&, const numa_placement&) = default;

 private:
  enum class kind : std::uint8_t { anywhere, adapter, node };
  constexpr numa_placement(kind what, unsigned node, numa_binding how) noexcept
      : what_(what), how_(how), node_(node) {}

  kind what_ = kind::anywhere;
  numa_binding how_ = numa_binding::preferred;
  unsigned node_ = 0;
};

/// Options of allocate_placed(). Threads: immutable value.
struct placed_options {
  numa_placement placement;                                  ///< NUMA node
  verbena::huge_pages huge_pages = verbena::huge_pages::no;  ///< whether to use huge pages
};

/// Allocates and registers memory on a NUMA node, like protection_domain::allocate().
///
/// All pages of strictly bound memory are on the node before registration; other pages are
/// allocated when the device or a thread needs them.
///
/// Errors: those of protection_domain::allocate(); `not_supported` in a library that was built
/// without hwloc; `unavailable` if hwloc cannot read the topology of this host. With
/// numa_binding::strict also `invalid_argument` for a node that the host does not have or this
/// process may not use; ENOMEM or EIO if the node has too little free memory; the errno of mbind(2)
/// if the kernel refuses (EPERM in containers without CAP_SYS_NICE). Allocates; blocks in the
/// kernel, which clears and perhaps moves the pages of strictly bound memory.
[[nodiscard]] result<memory_region> allocate_placed(const protection_domain& domain,
                                                    std::size_t bytes, access_flags access,
                                                    placed_options options);

/// Returns the NUMA node of the adapter, or nullopt if sysfs does not report it: see
/// device::numa_node(). Reads a file; does not need hwloc.
[[nodiscard]] std::optional<unsigned> numa_node_of(const context& adapter);

/// Returns the NUMA nodes that this process may use, in ascending order. The first call in the
/// process reads the nodes and takes some milliseconds; later calls return the same nodes.
///
/// Errors: `not_supported` in a library that was built without hwloc; `unavailable` when hwloc
/// cannot read the topology of this host. Thread-safe. Allocates.
[[nodiscard]] result<std::vector<unsigned>> numa_nodes();

/// Returns the NUMA nodes of the pages of `memory`, in ascending order. Untouched pages do not have
/// a node. Queries the kernel for each page: for tests and diagnosis.
///
/// Errors: the errno of move_pages(2). Does not need hwloc. Thread-safe. Allocates.
[[nodiscard]] result<std::vector<unsigned>> numa_nodes_of(std::span<const std::byte> memory);

/// Binds the calling thread to a NUMA node: to its processors and, for new pages, to its memory.
///
/// With numa_binding::strict, pages come only from the node; if it is full, the OOM killer of the
/// kernel ends a process. Threads that the calling thread starts inherit the binding.
///
/// Errors: `invalid_argument` for a node that the host does not have, that this process may not use
/// or that has no processors; those of numa_nodes(); otherwise the errno of sched_setaffinity(2) or
/// set_mempolicy(2). After an error the thread keeps its previous binding to processors.
[[nodiscard]] result<void> bind_thread_to_numa_node(unsigned node, numa_binding how);

/// Binds the calling thread to the node of the adapter and returns the node. Returns nullopt and
/// has no effect if the adapter has no node. Errors: those of bind_thread_to_numa_node().
[[nodiscard]] result<std::optional<unsigned>> bind_thread_near(const context& adapter,
                                                               numa_binding how);

/// Removes the binding of the calling thread: it may use all processors of the process, and the
/// kernel chooses the nodes of new pages. An earlier binding is not restored.
///
/// Errors: those of numa_nodes(); the errno of sched_setaffinity(2) or set_mempolicy(2).
[[nodiscard]] result<void> unbind_thread_from_numa_node();

}  // namespace verbena::inline VERBENA_ABI
