// SPDX-License-Identifier: MIT
// Registrations of parts of large memory, made when they are asked for and kept for the next time.
// It knows when memory goes, since all of it is its own: no hooks in malloc or munmap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/result.hpp"
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

/// How much a registration cache keeps that nobody uses.
struct registration_cache_options {
  std::size_t max_entries = 1024;                 ///< registrations
  std::size_t max_bytes = std::size_t{1} << 30U;  ///< bytes of them, overlaps counted twice
};

/// What a registration cache did. Threads: immutable value.
struct registration_cache_statistics {
  std::uint64_t hits = 0;       ///< parts that were registered already
  std::uint64_t misses = 0;     ///< parts that had to be registered
  std::uint64_t evictions = 0;  ///< registrations that went to make room
  std::size_t entries = 0;      ///< registrations that it keeps now
  std::size_t bytes = 0;        ///< bytes of them
};

/// Memory of a registration cache, not registered as such. Move-only; destroying it drops all its
/// registrations and then frees it; but what part of it is still held as a cached_registration, or
/// could not be deregistered, keeps it. Threads: one thread at a time; the bytes are shared with
/// the device and perhaps with peers, as far as parts are registered.
class [[nodiscard]] cached_memory {
 public:
  /// Takes over the memory of `other`, which must not be used afterwards.
  cached_memory(cached_memory&& other) noexcept;
  /// Frees its own memory and takes over that of `other`, which must not be used afterwards.
  cached_memory& operator=(cached_memory&& other) noexcept;
  ~cached_memory();

  /// All of it, zeroed at first, on a multiple of 4 KiB; nothing when moved from.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  friend class registration_cache;
  explicit cached_memory(std::shared_ptr<detail::cached_block> block) noexcept;
  void free() noexcept;

  std::shared_ptr<detail::cached_block> block_;
  std::span<std::byte> bytes_;
};

/// A registration of a part of cached_memory, for as long as it is held. Copies share it. It keeps
/// the memory, too: no address of it comes to mean anything else. No request that names it may be
/// under way when the last copy is destroyed. Threads: one thread at a time; copies may be used by
/// several.
class [[nodiscard]] cached_registration {
 public:
  /// The part that was asked for.
  [[nodiscard]] local_slice slice() const { return slice(0, length_); }
  /// The part of `part_length` bytes at `offset` of it. Precondition: it lies inside, and is not
  /// empty.
  [[nodiscard]] local_slice slice(std::size_t offset, std::size_t part_length) const {
    VERBENA_ASSERT(offset <= length_ && part_length <= length_ - offset,
                   "a slice lies inside its cached registration");
    return region_->slice(offset_ + offset, part_length);
  }
  /// What a peer needs to reach the part, as far as rights() let it.
  [[nodiscard]] remote_region remote() const { return region_->remote().slice(offset_, length_); }
  /// Bytes of the part.
  [[nodiscard]] std::size_t length() const noexcept { return length_; }
  /// What it is registered with.
  [[nodiscard]] access_flags rights() const { return region_->rights(); }

 private:
  friend class registration_cache;
  cached_registration(std::shared_ptr<const memory_region> region, std::size_t offset,
                      std::size_t length) noexcept
      : region_(std::move(region)), offset_(offset), length_(length) {}

  std::shared_ptr<const memory_region> region_;
  std::size_t offset_;  // of the part in the region
  std::size_t length_;
};

/// Registers parts of its own memory, and keeps the registrations that were used last. A cheap
/// handle: copies share the cache, which lives until the last copy and the last cached_memory are
/// gone. Threads: thread-safe, but for assignment to a handle. Takes a lock; registering and
/// deregistering are done outside it.
class registration_cache {
 public:
  /// A cache of registrations in `domain`.
  explicit registration_cache(const protection_domain& domain,
                              registration_cache_options options = {});

  /// Allocates memory whose parts can be registered. Blocks in the kernel.
  ///
  /// Errors: `invalid_argument` for 0 bytes; otherwise the errno of mmap(2).
  [[nodiscard]] result<cached_memory> allocate(std::size_t bytes,
                                               allocate_options options = {}) const;

  /// The registration of `length` bytes at `offset` of `memory` with `rights`: one that is there,
  /// or a new one. If peers have rights, only a registration of just these bytes will do, since its
  /// key opens all of it; else also a longer one that begins at or nearest before `offset`. Then
  /// drops what was used longest ago, as far as the options say; what is still held is deregistered
  /// when it is not. Parts of more than `max_bytes` are not kept. Blocks in the kernel if it
  /// registers or deregisters.
  ///
  /// Errors: `invalid_argument` for rights that contradict each other and for `zero_based`;
  /// otherwise the errno of ibv_reg_mr(3). Precondition: `memory` is of this cache, and the part
  /// lies inside and is not empty.
  [[nodiscard]] result<cached_registration> registered(const cached_memory& memory,
                                                       std::size_t offset, std::size_t length,
                                                       access_flags rights) const;

  /// Drops all registrations that nobody holds. Blocks in the kernel.
  void clear() const;

  /// What it did until now.
  [[nodiscard]] registration_cache_statistics statistics() const;

 private:
  std::shared_ptr<detail::cache_state> state_;
};

}  // namespace verbena::inline VERBENA_ABI
