// SPDX-License-Identifier: MIT
// What the host can do about NUMA nodes: hwloc's answers, or a test's.
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
  unsigned number = 0;  ///< the kernel's
  std::uint64_t bytes = 0;
  bool has_processors = false;
};

/// The outcome of a call: 0 or its errno, and its name.
struct numa_outcome {
  int code = 0;
  const char* call = "";
};

/// Where the pages of some memory are.
struct page_nodes {
  std::vector<unsigned> nodes = {};  ///< in ascending order
  bool complete = true;              ///< whether each page is on one: untouched ones are on none
};

/// Threads: thread-safe.
class numa_host {
 public:
  numa_host() = default;
  numa_host(const numa_host&) = delete;
  numa_host& operator=(const numa_host&) = delete;
  virtual ~numa_host() = default;

  /// In ascending order of their numbers.
  [[nodiscard]] virtual std::vector<numa_node> nodes() const = 0;
  /// Returns the unused bytes of the node, or nullopt if the kernel does not report them.
  [[nodiscard]] virtual std::optional<std::uint64_t> free_bytes(unsigned node) const = 0;

  /// Pages of `memory` that come to be, come from `node` if it has some.
  [[nodiscard]] virtual numa_outcome prefer(std::span<std::byte> memory, unsigned node) const = 0;
  /// Moves the pages of `memory` to `node`, and those that come to be come from nowhere else. EIO
  /// if some cannot be moved. Never wakes the kernel's OOM killer.
  [[nodiscard]] virtual numa_outcome bind(std::span<std::byte> memory, unsigned node) const = 0;
  /// Takes both back.
  [[nodiscard]] virtual numa_outcome release(std::span<std::byte> memory) const = 0;
  /// Sets `found` to where the pages of `memory` are.
  [[nodiscard]] virtual numa_outcome locate(std::span<const std::byte> memory,
                                            page_nodes& found) const = 0;

  /// For the calling thread.
  [[nodiscard]] virtual numa_outcome bind_thread(unsigned node, numa_binding how) const = 0;
  /// For the calling thread.
  [[nodiscard]] virtual numa_outcome unbind_thread() const = 0;
};

/// This host, looked at once per process. Errors: as numa_nodes(); `object` is what `call` wants to
/// do it for.
[[nodiscard]] result<const numa_host*> this_numa_host(std::string_view call,
                                                      std::string_view object);

/// Asks the kernel where the pages of `memory` are. (hwloc would pass over those that are nowhere.)
[[nodiscard]] numa_outcome locate_pages(std::span<const std::byte> memory, page_nodes& found);

/// `NUMA node 1`.
[[nodiscard]] std::string node_text(unsigned node);
/// That `host` has `node`, for `call`.
[[nodiscard]] result<numa_node> find_node(const numa_host& host, std::string_view call,
                                          unsigned node);
/// The meaning of a refusal, and the remedy.
[[nodiscard]] std::string explain_numa(int code);

}  // namespace verbena::inline VERBENA_ABI::detail
