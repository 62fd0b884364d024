// SPDX-License-Identifier: MIT
// Registrations of parts of large memory, created on demand and cached. The arena owns the memory,
// or an object that owns the memory. Therefore it can deregister the memory before the memory is
// freed, without hooks in malloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/attributes.hpp"
#include "verbena/base/result.hpp"
#include "verbena/memory/memory_owner.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {
class cache_state;
struct cached_block;
}  // namespace detail

/// Limits of the cached registrations of an arena. Threads: immutable value.
struct registered_arena_options {
  std::size_t max_entries = 1024;                 ///< number of registrations
  std::size_t max_bytes = std::size_t{1} << 30U;  ///< their bytes; overlaps count twice
};

/// Statistics of an arena. Threads: immutable value.
struct registered_arena_statistics {
  std::uint64_t hits = 0;       ///< parts found in the cache
  std::uint64_t misses = 0;     ///< parts that were registered
  std::uint64_t evictions = 0;  ///< registrations removed because of the limits
  std::size_t entries = 0;      ///< cached registrations
  std::size_t bytes = 0;        ///< their bytes
};

/// Memory of an arena, whose parts are registered on demand. Move-only.
///
/// The destructor removes its registrations from the cache and frees the memory. If a
/// cached_registration still exists, the memory is freed with the last one. If deregistration
/// fails, the memory is leaked.
/// Threads: one thread at a time; registered parts are shared with the device and perhaps with
/// peers.
class [[nodiscard]] cached_memory {
 public:
  /// Takes the memory of `other`, which must not be used afterwards.
  cached_memory(cached_memory&& other) noexcept;
  /// Frees its own memory and takes that of `other`, which must not be used afterwards.
  cached_memory& operator=(cached_memory&& other) noexcept;
  ~cached_memory();

  /// Returns the memory; an empty span if moved from. Allocated memory is zeroed and aligned to
  /// 4 KiB.
  [[nodiscard]] std::span<std::byte> bytes() const& noexcept VERBENA_LIFETIMEBOUND {
    return bytes_;
  }
  std::span<std::byte> bytes() const&& = delete;  // a temporary frees its memory

 private:
  friend class registered_arena;
  explicit cached_memory(std::shared_ptr<detail::cached_block> block) noexcept;
  void free() noexcept;

  std::shared_ptr<detail::cached_block> block_;
  std::span<std::byte> bytes_;
};

/// A registered part of cached_memory. Copies share the registration, which also keeps the memory
/// allocated.
///
/// No request that uses the registration may be in flight when the last copy is destroyed.
/// Threads: one thread at a time; several threads may use copies.
class [[nodiscard]] cached_registration {
 public:
  /// Returns the registered part, for work requests.
  [[nodiscard]] local_slice slice() const& { return slice(0, length_); }
  local_slice slice() const&& = delete;  // without a copy, the cache may deregister the part
  /// Returns the slice [offset, offset + length) of the part. Precondition: the slice is inside the
  /// part and not empty.
  [[nodiscard]] local_slice slice(std::size_t offset, std::size_t length) const& {
    VERBENA_ASSERT(offset <= length_ && length <= length_ - offset,
                   "a slice exceeds its cached registration");
    return region_->slice(offset_ + offset, length);
  }
  local_slice slice(std::size_t offset, std::size_t length) const&& = delete;
  /// Returns address, length and rkey, for RDMA and atomic operations of a peer within access().
  [[nodiscard]] remote_region remote() const& { return region_->remote().slice(offset_, length_); }
  remote_region remote() const&& = delete;
  /// Returns the number of bytes of the part.
  [[nodiscard]] std::size_t length() const noexcept { return length_; }
  /// Returns the access flags of the registration.
  [[nodiscard]] access_flags access() const { return region_->access(); }

 private:
  friend class registered_arena;
  cached_registration(std::shared_ptr<const memory_region> region, std::size_t offset,
                      std::size_t length) noexcept
      : region_(std::move(region)), offset_(offset), length_(length) {}

  std::shared_ptr<const memory_region> region_;
  std::size_t offset_;  // of the part in the region
  std::size_t length_;
};

/// Registers parts of memory and caches the most recently used registrations. A registered_arena is
/// a handle: copies share the cache, which exists until the last copy and the last cached_memory
/// have been destroyed.
/// Threads: thread-safe, except assignment to a handle. Locks a mutex, but not while it registers
/// or deregisters.
class registered_arena {
 public:
  /// Creates an empty arena of `domain`.
  explicit registered_arena(const protection_domain& domain, registered_arena_options options = {});

  /// Allocates memory whose parts registered() can register. Blocks in the kernel.
  ///
  /// Errors: `invalid_argument` for 0 bytes; otherwise the errno of mmap(2).
  [[nodiscard]] result<cached_memory> allocate(std::size_t bytes,
                                               allocate_options options = {}) const;
  /// Adopts memory of the program, such as mmap(2) or huge pages, which `owner` owns.
  ///
  /// `owner`, for example `std::shared_ptr<void>(address, deleter)`, is destroyed once, after the
  /// returned object and its last registration. If a deregistration fails, `owner` is leaked, and
  /// an error is logged. Preconditions: `memory` is not empty; `owner` is not empty. Allocates.
  [[nodiscard]] cached_memory adopt(std::span<std::byte> memory, memory_owner owner) const;

  /// Returns a registration of `length` bytes at `offset` of `memory`, cached or new.
  ///
  /// If `access` permits access by peers, the registration has exactly this range, because its
  /// remote key gives access to the whole registration. Otherwise the cached registration that
  /// begins at or nearest before `offset` is used if it contains the range. Then the least recently
  /// used registrations are removed from the cache until the limits hold; they are deregistered
  /// when their last copy is destroyed. Parts of more than `max_bytes` are not cached. Blocks in
  /// the kernel if memory is registered or deregistered.
  ///
  /// Errors: `invalid_argument` for contradictory access flags and for `zero_based`; otherwise the
  /// errno of ibv_reg_mr(3). Preconditions: `memory` belongs to this arena; the part is inside
  /// `memory` and not empty.
  [[nodiscard]] result<cached_registration> registered(const cached_memory& memory,
                                                       std::size_t offset, std::size_t length,
                                                       access_flags access) const;

  /// Removes all cached registrations without other users, and deregisters them. Blocks in the
  /// kernel.
  void clear() const;

  /// Returns the statistics of the cache.
  [[nodiscard]] registered_arena_statistics statistics() const;

 private:
  std::shared_ptr<detail::cache_state> state_;
};

}  // namespace verbena::inline VERBENA_ABI
