// SPDX-License-Identifier: MIT
// Memory that operations of a channel write: receives, reads, and the old values of atomics.
#pragma once

#include <cstddef>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/attributes.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI {

/// A slice of registered memory that one operation may write.
///
/// Posting in a scope consumes the sink, so that it cannot be posted twice; the completion returns
/// it. A program that makes two sinks of the same bytes must not post both at once; split() makes
/// disjoint sinks.
///
/// A sink does not keep the memory alive: the region or buffer must outlive it, and the scope or
/// call that it is passed to. While it is posted, the program neither reads nor writes the memory.
/// Threads: one thread at a time.
class [[nodiscard]] sink {
 public:
  /// Creates an empty sink, which cannot be posted.
  sink() noexcept = default;
  /// Names all of `region`. Preconditions: it was registered with local_write; length() <=
  /// local_slice::max_length.
  explicit sink(const memory_region& region VERBENA_LIFETIMEBOUND)
      : sink(region.slice(), region.native()->pd, region.access()) {}
  /// Names `length` bytes at `offset`. Preconditions: the region was registered with local_write;
  /// the bytes lie inside; 1 <= length.
  sink(const memory_region& region VERBENA_LIFETIMEBOUND, std::size_t offset, std::size_t length)
      : sink(region.slice(offset, length), region.native()->pd, region.access()) {}
  /// Names a whole buffer. Preconditions: it is not empty; its pool has local_write.
  explicit sink(const buffer& memory VERBENA_LIFETIMEBOUND)
      : sink(memory.slice(), memory.native_pd(), memory.access()) {}
  /// Names `length` bytes at `offset`. Preconditions: the buffer is not empty; its pool has
  /// local_write; the bytes lie inside; 1 <= length.
  sink(const buffer& memory VERBENA_LIFETIMEBOUND, std::size_t offset, std::size_t length)
      : sink(memory.slice(offset, length), memory.native_pd(), memory.access()) {}
  /// Refuses a temporary region, which is destroyed before the operation.
  explicit sink(const memory_region&&) = delete;
  /// Refuses a temporary region, which is destroyed before the operation.
  sink(const memory_region&&, std::size_t, std::size_t) = delete;
  /// Refuses a temporary buffer, which is destroyed before the operation.
  explicit sink(const buffer&&) = delete;
  /// Refuses a temporary buffer, which is destroyed before the operation.
  sink(const buffer&&, std::size_t, std::size_t) = delete;

  /// Takes the slice of `other`, which is empty afterwards.
  sink(sink&& other) noexcept
      : slice_(other.slice_), domain_(std::exchange(other.domain_, nullptr)) {}
  /// Replaces its slice by that of `other`, which is empty afterwards.
  sink& operator=(sink&& other) noexcept {
    slice_ = other.slice_;
    domain_ = std::exchange(other.domain_, nullptr);
    return *this;
  }
  sink(const sink&) = delete;
  sink& operator=(const sink&) = delete;
  ~sink() = default;

  /// Returns true for a sink that was posted, moved from or default-constructed.
  [[nodiscard]] bool empty() const noexcept { return domain_ == nullptr; }
  /// Returns the number of bytes; 0 if empty.
  [[nodiscard]] std::size_t length() const noexcept { return empty() ? 0 : slice_.length(); }
  /// Returns the scatter/gather element. Precondition: !empty().
  [[nodiscard]] const local_slice& slice() const {
    VERBENA_ASSERT(!empty(), "a sink that was posted or moved from was used");
    return slice_;
  }
  /// Returns the native protection domain of the memory.
  [[nodiscard]] const ibv_pd* domain() const noexcept { return domain_; }

  /// Splits at `offset`: keeps the bytes before it and returns a sink of the others.
  /// Precondition: 0 < offset < length().
  [[nodiscard]] sink split(std::size_t offset) {
    VERBENA_ASSERT(offset != 0 && offset < length(), "a sink was split into an empty part");
    sink behind;
    behind.slice_ = slice_.slice(offset);
    behind.domain_ = domain_;
    slice_ = slice_.slice(0, offset);
    return behind;
  }

 private:
  sink(const local_slice& slice, const ibv_pd* domain, access_flags access)
      : slice_(slice), domain_(domain) {
    VERBENA_ASSERT(
        access.contains(access::local_write),
        "a sink was created from memory that was registered without access::local_write");
  }

  local_slice slice_{0, 1, local_key(0)};  // invalid if empty
  const ibv_pd* domain_ = nullptr;
};

}  // namespace verbena::inline VERBENA_ABI
