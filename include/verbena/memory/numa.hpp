// SPDX-License-Identifier: MIT
// Memory and threads near the adapter: on which NUMA node of the host they are.
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

/// Whether a NUMA node is a wish or a condition.
enum class numa_binding : std::uint8_t {
  /// On the node while it has memory to spare, then on the nearest that has. If the host does not
  /// have the node, or the kernel does not let this process choose it, memory is where the kernel
  /// puts it, and the log hook gets a warning that says why.
  preferred,
  strict,  ///< on the node and nowhere else, or an error
};

/// On which NUMA node of the host memory shall be. Threads: immutable.
///
/// Anything but anywhere() needs a library that was built with hwloc, unless there is no node to go
/// to.
class numa_placement {
 public:
  /// Wherever the kernel puts it: on the node of the thread that touches it first.
  constexpr numa_placement() noexcept = default;
  /// The same, by name.
  [[nodiscard]] static constexpr numa_placement anywhere() noexcept { return {}; }
  /// On the node that the adapter is attached to: numa_node_of(). With an adapter that is attached
  /// to none (soft0, the kernel's software adapters, hosts with one node) this is anywhere(), and
  /// that is no error, with either binding.
  [[nodiscard]] static constexpr numa_placement near_adapter(numa_binding how) noexcept {
    return {kind::adapter, 0, how};
  }
  /// On the node with the kernel's number `node`, as in /sys/devices/system/node/online.
  [[nodiscard]] static constexpr numa_placement on_node(unsigned node, numa_binding how) noexcept {
    return {kind::node, node, how};
  }

  /// The node for memory that the adapter of `near` uses; nothing if it may be anywhere.
  [[nodiscard]] std::optional<unsigned> node(const context& near) const;
  /// Whether that is a wish or a condition.
  [[nodiscard]] constexpr numa_binding binding() const noexcept { return how_; }
  /// Whether they say the same.
  friend constexpr bool operator==(const numa_placement&, const numa_placement&) = default;

 private:
  enum class kind : std::uint8_t { anywhere, adapter, node };
  constexpr numa_placement(kind what, unsigned node, numa_binding how) noexcept
      : what_(what), how_(how), node_(node) {}

  kind what_ = kind::anywhere;
  numa_binding how_ = numa_binding::preferred;
  unsigned node_ = 0;
};

/// How to allocate memory in a place.
struct placed_options {
  numa_placement placement;                                  ///< where it is
  verbena::huge_pages huge_pages = verbena::huge_pages::no;  ///< of what it consists
};

/// As protection_domain::allocate(), on a NUMA node. Strictly bound memory is there, every page of
/// it, before it is registered; other memory comes to be when the device or a thread needs it.
///
/// Errors: those of protection_domain::allocate(); `not_supported` in a library that was built
/// without hwloc; `unavailable` when hwloc cannot look at this host. With numa_binding::strict also
/// `invalid_argument` for a node that the host does not have or this process may not use; ENOMEM or
/// EIO when the node has not as much to spare; the errno of mbind(2) when the kernel refuses (EPERM
/// in containers without CAP_SYS_NICE). Allocates; blocks in the kernel, which clears and perhaps
/// moves the pages of strictly bound memory.
[[nodiscard]] result<memory_region> allocate_placed(const protection_domain& domain,
                                                    std::size_t bytes, access_flags rights,
                                                    placed_options options);

/// The NUMA node that the adapter behind `adapter` is attached to; nothing where sysfs does not
/// say: see device::numa_node(). Reads a file; does not need hwloc.
[[nodiscard]] std::optional<unsigned> numa_node_of(const context& adapter);

/// The NUMA nodes of the host that this process may use, in ascending order, as they were when
/// Verbena first asked. The first call in a process takes some milliseconds.
///
/// Errors: `not_supported` in a library that was built without hwloc; `unavailable` when hwloc
/// cannot look at this host. Thread-safe. Allocates.
[[nodiscard]] result<std::vector<unsigned>> numa_nodes();

/// The NUMA nodes that the pages of `memory` are on, in ascending order; pages that nobody has
/// touched are on none. Asks the kernel about each page: for tests and diagnosis.
///
/// Errors: the errno of move_pages(2). Does not need hwloc. Thread-safe. Allocates.
[[nodiscard]] result<std::vector<unsigned>> numa_nodes_of(std::span<const std::byte> memory);

/// Binds the calling thread to a NUMA node: it runs on the node's processors alone, and what it
/// touches first comes from the node: with numa_binding::strict from nowhere else (the kernel kills
/// somebody when the node is full), else preferably. Threads that it starts inherit both.
///
/// Errors: `invalid_argument` for a node that the host does not have, that this process may not use
/// or that has no processors; those of numa_nodes(); otherwise the errno of sched_setaffinity(2) or
/// set_mempolicy(2). After an error the thread runs where it ran before.
[[nodiscard]] result<void> bind_thread_to_numa_node(unsigned node, numa_binding how);

/// Binds the calling thread to the node of the adapter, and returns it. Nothing happens, and
/// nothing is returned, if the adapter is attached to none. Errors: as bind_thread_to_numa_node().
[[nodiscard]] result<std::optional<unsigned>> bind_thread_near(const context& adapter,
                                                               numa_binding how);

/// Lets the calling thread run on all processors that this process may use, and takes memory from
/// wherever the kernel sees fit: not as it was before a binding, but as a process starts.
///
/// Errors: those of numa_nodes(); the errno of sched_setaffinity(2) or set_mempolicy(2).
[[nodiscard]] result<void> unbind_thread_from_numa_node();

}  // namespace verbena::inline VERBENA_ABI
