// SPDX-License-Identifier: MIT
// Buffers of a few sizes over one registration.
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

/// So many buffers of one size.
struct size_class {
  std::size_t bytes = 4096;  ///< of each: 1 to local_slice::max_length
  std::uint32_t count = 64;  ///< of them: 1 to buffer_pool::max_count
};

/// What a pool consists of.
struct buffer_pool_options {
  /// The sizes, 1 to buffer_pool::max_classes of them, in any order.
  std::vector<size_class> classes = {size_class{}};
  access_flags rights = access::local_write;  ///< of all its memory; `zero_based` is refused
  verbena::huge_pages huge_pages = verbena::huge_pages::no;  ///< of what the memory consists
  numa_placement placement = {};  ///< on which NUMA node it is: anywhere, if not said
};

/// Buffers of a few sizes, cut from memory that the library allocated and registered once. Buffers
/// of 4 KiB or more begin on a multiple of that, smaller ones on one of 64 bytes; no two share a
/// cache line.
///
/// A cheap handle: copies share the pool. Memory and registration live until the last handle and
/// the last buffer are gone. Threads: thread-safe, but for assignment to a handle.
class buffer_pool {
 public:
  /// The most classes of a pool.
  static constexpr std::size_t max_classes = 64;
  /// The most buffers of one class.
  static constexpr std::uint32_t max_count = (1U << 26U) - 1;

  /// Allocates the memory in `domain`, registers it, and cuts it into buffers.
  ///
  /// Errors: `invalid_argument` for options out of their ranges and for more memory than there are
  /// addresses; otherwise those of allocate_placed(). Allocates; blocks in the kernel.
  [[nodiscard]] static result<buffer_pool> create(const protection_domain& domain,
                                                  const buffer_pool_options& options);

  /// A handle of the same pool.
  buffer_pool(const buffer_pool& other) noexcept;
  /// Takes over the handle of `other`, which must not be used afterwards.
  buffer_pool(buffer_pool&& other) noexcept : home_(std::exchange(other.home_, nullptr)) {}
  /// Becomes a handle of the pool of `other`.
  buffer_pool& operator=(buffer_pool other) noexcept {
    std::swap(home_, other.home_);
    return *this;
  }
  ~buffer_pool();

  /// A buffer of at least `bytes`: of the smallest size that fits, or of larger ones if those are
  /// all taken; nothing if they are, too, or if no size fits. Does not block, lock, allocate or
  /// call the kernel.
  [[nodiscard]] std::optional<buffer> take(std::size_t bytes) const;

  /// The size of the largest buffers.
  [[nodiscard]] std::size_t largest() const;
  /// How many buffers there are in all.
  [[nodiscard]] std::size_t count() const;
  /// How many of them are taken at this moment.
  [[nodiscard]] std::size_t taken() const;
  /// Bytes of the registration.
  [[nodiscard]] std::size_t registered_bytes() const;
  /// What the memory was registered with.
  [[nodiscard]] access_flags rights() const;
  /// The protection domain of its buffers, to be compared with protection_domain::native().
  [[nodiscard]] const ibv_pd* domain_identity() const;

 private:
  explicit buffer_pool(detail::pool_home* home) noexcept : home_(home) {}
  [[nodiscard]] detail::pool_home& home() const;

  detail::pool_home* home_;
};

}  // namespace verbena::inline VERBENA_ABI
