// SPDX-License-Identifier: MIT
// Memory that operations of a channel write: receives, reads, and what atomics found.
#pragma once

#include <cstddef>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/attributes.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI {

/// A piece of registered memory that one operation may write. It is consumed when it is posted in a
/// scope, so that it cannot be posted twice, and comes back with the completion. Who makes two
/// sinks of the same bytes says that their uses do not overlap; split() cannot go wrong.
///
/// It does not keep the memory alive: its region or buffer has to outlive it, and the scope or the
/// call that it is given to. While it is posted, nobody may read or write the memory.
/// Threads: one thread at a time.
class [[nodiscard]] sink {
 public:
  /// Nothing: cannot be posted.
  sink() noexcept = default;
  /// The whole of `region`. Preconditions: it was registered with local_write; length() <=
  /// local_slice::max_length.
  explicit sink(const memory_region& region VERBENA_LIFETIMEBOUND)
      : sink(region.slice(), region.native()->pd, region.rights()) {}
  /// The part of `length` bytes at `offset`. Preconditions: the region was registered with
  /// local_write; the part lies inside, and is not empty.
  sink(const memory_region& region VERBENA_LIFETIMEBOUND, std::size_t offset, std::size_t length)
      : sink(region.slice(offset, length), region.native()->pd, region.rights()) {}
  /// A whole buffer. Preconditions: it is not empty; its pool has local_write.
  explicit sink(const buffer& memory VERBENA_LIFETIMEBOUND)
      : sink(memory.slice(), memory.domain_identity(), memory.rights()) {}
  /// The part of `length` bytes at `offset`. Preconditions: as above; the part lies inside, and is
  /// not empty.
  sink(const buffer& memory VERBENA_LIFETIMEBOUND, std::size_t offset, std::size_t length)
      : sink(memory.slice(offset, length), memory.domain_identity(), memory.rights()) {}
  /// Memory that is gone with the expression cannot be written later.
  explicit sink(memory_region&&) = delete;
  /// As above.
  sink(memory_region&&, std::size_t, std::size_t) = delete;
  /// As above.
  explicit sink(buffer&&) = delete;
  /// As above.
  sink(buffer&&, std::size_t, std::size_t) = delete;

  /// Takes what `other` was; `other` is then empty.
  sink(sink&& other) noexcept
      : slice_(other.slice_), domain_(std::exchange(other.domain_, nullptr)) {}
  /// As above; what it was is forgotten.
  sink& operator=(sink&& other) noexcept {
    slice_ = other.slice_;
    domain_ = std::exchange(other.domain_, nullptr);
    return *this;
  }
  sink(const sink&) = delete;
  sink& operator=(const sink&) = delete;
  ~sink() = default;

  /// True for a sink that was posted, moved from, or made of nothing.
  [[nodiscard]] bool empty() const noexcept { return domain_ == nullptr; }
  /// Bytes; 0 if empty.
  [[nodiscard]] std::size_t length() const noexcept { return empty() ? 0 : slice_.length(); }
  /// As verbs name it. Precondition: !empty().
  [[nodiscard]] const local_slice& slice() const {
    VERBENA_ASSERT(!empty(), "a sink that was posted or moved from must not be used");
    return slice_;
  }
  /// The protection domain in the C API, by which a channel knows its own memory.
  [[nodiscard]] const ibv_pd* domain() const noexcept { return domain_; }

  /// Cuts off what begins at `offset` and returns it; this sink keeps what lies before.
  /// Precondition: 0 < offset < length().
  [[nodiscard]] sink split(std::size_t offset) {
    VERBENA_ASSERT(offset != 0 && offset < length(),
                   "a sink is split in two parts that are not empty");
    sink behind;
    behind.slice_ = slice_.slice(offset);
    behind.domain_ = domain_;
    slice_ = slice_.slice(0, offset);
    return behind;
  }

 private:
  sink(const local_slice& slice, const ibv_pd* domain, access_flags rights)
      : slice_(slice), domain_(domain) {
    VERBENA_ASSERT(rights.contains(access::local_write),
                   "a sink is memory that was registered with local_write");
  }

  local_slice slice_{0, 1, local_key(0)};  // means nothing if empty
  const ibv_pd* domain_ = nullptr;
};

}  // namespace verbena::inline VERBENA_ABI
