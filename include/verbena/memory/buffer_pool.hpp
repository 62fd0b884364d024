// SPDX-License-Identifier: MIT
// Pools of buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/memory/numa.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {
struct pool_home;
}

/// A number of buffers of one size. Threads: immutable value.
struct size_class {
  std::size_t bytes = 4096;  ///< size of each buffer, 1 to local_slice::max_length
  std::uint32_t count = 64;  ///< number of buffers, 1 to buffer_pool::max_count
};

/// Options of a pool. Threads: immutable value.
struct buffer_pool_options {
  /// The size classes in any order; 1 to buffer_pool::max_classes.
  std::vector<size_class> classes = {size_class{}};
  access_flags access = access::local_write;                 ///< for all buffers; not `zero_based`
  verbena::huge_pages huge_pages = verbena::huge_pages::no;  ///< whether to use huge pages
  numa_placement placement = {};                             ///< NUMA node; default: anywhere
};

/// Buffers of one or more sizes in memory that is allocated and registered once.
///
/// Buffers of 4 KiB or more are aligned to 4 KiB, smaller ones to 64 bytes; no two buffers share a
/// cache line. A buffer_pool is a handle: copies share the pool. Memory and registration exist
/// until the last handle and the last buffer have been destroyed. Threads: thread-safe, except
/// assignment to a handle.
class buffer_pool {
 public:
  /// The maximum number of classes of a pool.
  static constexpr std::size_t max_classes = 64;
  /// The maximum number of buffers of one class.
  static constexpr std::uint32_t max_count = (1U << 26U) - 1;

  /// Allocates and registers the memory of a pool in `domain`.
  ///
  /// Errors: `invalid_argument` for options out of range and for more memory than the address space
  /// has; otherwise those of allocate_placed(). Allocates; blocks in the kernel.
  [[nodiscard]] static result<buffer_pool> create(const protection_domain& domain,
                                                  const buffer_pool_options& options);

  /// Creates another handle of the pool.
  buffer_pool(const buffer_pool& other) noexcept;
  /// Takes the handle of `other`, which must not be used afterwards.
  buffer_pool(buffer_pool&& other) noexcept : home_(std::exchange(other.home_, nullptr)) {}
  /// Makes this a handle of the pool of `other`.
  buffer_pool& operator=(buffer_pool other) noexcept {
    std::swap(home_, other.home_);
    return *this;
  }
  ~buffer_pool();

  /// Returns a buffer of at least `bytes` bytes, or nullopt if no buffer of that size is free.
  ///
  /// Takes a buffer of the smallest size that fits and has a free buffer. Does not block, lock,
  /// allocate or call the kernel.
  [[nodiscard]] std::optional<buffer> take(std::size_t bytes) const;

  /// Returns the size of the largest buffers.
  [[nodiscard]] std::size_t largest() const;
  /// Returns the number of buffers.
  [[nodiscard]] std::size_t count() const;
  /// Returns the number of buffers in use.
  [[nodiscard]] std::size_t taken() const;
  /// Returns the number of registered bytes.
  [[nodiscard]] std::size_t registered_bytes() const;
  /// Returns the access flags of the registration.
  [[nodiscard]] access_flags access() const;
  /// Returns the protection domain, for comparison with protection_domain::native().
  [[nodiscard]] const ibv_pd* native_pd() const;

 private:
  explicit buffer_pool(detail::pool_home* home) noexcept : home_(home) {}
  [[nodiscard]] detail::pool_home& home() const;

  detail::pool_home* home_;
};

}  // namespace verbena::inline VERBENA_ABI
