// SPDX-License-Identifier: MIT
// An interface to the NUMA nodes of a host. hwloc implements it; tests use other implementations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/memory/numa.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// A node that this process may use.
struct numa_node {
  unsigned number = 0;  ///< the number in the kernel
  std::uint64_t bytes = 0;
  bool has_processors = false;
};

/// The outcome of a call: 0 or an errno, and the name of the called function.
struct numa_outcome {
  int code = 0;
  const char* call = "";
};

/// The NUMA nodes of the pages of a range of memory.
struct page_nodes {
  std::vector<unsigned> nodes = {};  ///< in ascending order
  bool complete = true;              ///< whether each page has a node; untouched pages have none
};

/// The NUMA nodes of a host. Threads: thread-safe.
class numa_host {
 public:
  numa_host() = default;
  numa_host(const numa_host&) = delete;
  numa_host& operator=(const numa_host&) = delete;
  virtual ~numa_host() = default;

  /// Returns the nodes in ascending order of their numbers.
  [[nodiscard]] virtual std::vector<numa_node> nodes() const = 0;
  /// Returns the unused bytes of the node, or nullopt if the kernel does not report them.
  [[nodiscard]] virtual std::optional<std::uint64_t> free_bytes(unsigned node) const = 0;

  /// Sets a preference: new pages of `memory` are allocated on `node` if it has free memory.
  [[nodiscard]] virtual numa_outcome prefer(std::span<std::byte> memory, unsigned node) const = 0;
  /// Moves the pages of `memory` to `node`. New pages are allocated only on `node`. EIO if a page
  /// cannot be moved. Never starts the OOM killer of the kernel.
  [[nodiscard]] virtual numa_outcome bind(std::span<std::byte> memory, unsigned node) const = 0;
  /// Removes the effect of prefer() and bind() on new pages.
  [[nodiscard]] virtual numa_outcome release(std::span<std::byte> memory) const = 0;
  /// Sets `found` to the nodes of the pages of `memory`.
  [[nodiscard]] virtual numa_outcome locate(std::span<const std::byte> memory,
                                            page_nodes& found) const = 0;

  /// Binds the calling thread to the processors and the memory of `node`.
  [[nodiscard]] virtual numa_outcome bind_thread(unsigned node, numa_binding how) const = 0;
  /// Removes the binding of the calling thread.
  [[nodiscard]] virtual numa_outcome unbind_thread() const = 0;
};

/// Returns this host, whose topology is loaded once per process. Errors: those of numa_nodes().
/// `call` and `object` are for the message.
[[nodiscard]] result<const numa_host*> this_numa_host(std::string_view call,
                                                      std::string_view object);

/// Queries the kernel for the nodes of the pages of `memory`. hwloc would skip pages without a
/// node.
[[nodiscard]] numa_outcome locate_pages(std::span<const std::byte> memory, page_nodes& found);

/// Returns `NUMA node 1`.
[[nodiscard]] std::string node_text(unsigned node);
/// Returns `node` of `host`. Errors: `invalid_argument` of `call` if `host` does not have the node.
[[nodiscard]] result<numa_node> find_node(const numa_host& host, std::string_view call,
                                          unsigned node);
/// Returns the meaning of an errno of these functions, and the remedy; empty for other values.
[[nodiscard]] std::string explain_numa(int code);

}  // namespace verbena::inline VERBENA_ABI::detail
