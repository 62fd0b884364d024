// SPDX-License-Identifier: MIT
// Memory that operations of a channel read: what is sent and what is written.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "verbena/base/attributes.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

/// A piece of registered memory that operations may read. Several operations may read the same
/// piece at once; meanwhile nobody may write it. It does not keep the memory alive: its region or
/// buffer has to outlive it, and the scope or the call that it is given to.
/// Threads: immutable value.
class source {
 public:
  /// The whole of `region`. Precondition: length() <= local_slice::max_length.
  explicit source(const memory_region& region VERBENA_LIFETIMEBOUND)
      : slice_(region.slice()), domain_(region.native()->pd) {}
  /// The part of `length` bytes at `offset`. Precondition: it lies inside, and is not empty.
  source(const memory_region& region VERBENA_LIFETIMEBOUND, std::size_t offset, std::size_t length)
      : slice_(region.slice(offset, length)), domain_(region.native()->pd) {}
  /// A whole buffer. Precondition: not empty().
  explicit source(const buffer& memory VERBENA_LIFETIMEBOUND)
      : slice_(memory.slice()), domain_(memory.domain_identity()) {}
  /// The part of `length` bytes at `offset`. Precondition: it lies inside, and is not empty.
  source(const buffer& memory VERBENA_LIFETIMEBOUND, std::size_t offset, std::size_t length)
      : slice_(memory.slice(offset, length)), domain_(memory.domain_identity()) {}
  /// Memory that is gone with the expression cannot be read later.
  explicit source(memory_region&&) = delete;
  /// As above.
  source(memory_region&&, std::size_t, std::size_t) = delete;
  /// As above.
  explicit source(buffer&&) = delete;
  /// As above.
  source(buffer&&, std::size_t, std::size_t) = delete;

  /// The part of `length` bytes at `offset`. Precondition: it lies inside, and is not empty.
  [[nodiscard]] source part(std::size_t offset, std::size_t length) const {
    return {slice_.slice(offset, length), domain_};
  }
  /// As verbs name it.
  [[nodiscard]] const local_slice& slice() const noexcept { return slice_; }
  /// Bytes; at least 1.
  [[nodiscard]] std::size_t length() const noexcept { return slice_.length(); }
  /// The protection domain in the C API, by which a channel knows its own memory.
  [[nodiscard]] const ibv_pd* domain() const noexcept { return domain_; }

 private:
  source(const local_slice& slice, const ibv_pd* domain) noexcept
      : slice_(slice), domain_(domain) {}

  local_slice slice_;
  const ibv_pd* domain_;
};

/// What a message or a write is made of, as a parameter of functions: a source, a list of sources,
/// bytes that travel inside the request, or nothing. It names what it was made from, and does not
/// copy it: make it in the call. Threads: immutable value.
class outgoing {
 public:
  /// A message without bytes.
  outgoing() noexcept = default;
  /// One piece of memory.
  // NOLINTNEXTLINE(google-explicit-constructor): a parameter takes what it is made of
  outgoing(const source& one) noexcept : sources_(&one, 1) {}
  /// Several, gathered one after the other. Precondition of operations: at most `max_send_sge`.
  // NOLINTNEXTLINE(google-explicit-constructor): as above
  outgoing(std::span<const source> list) noexcept : sources_(list) {}
  /// As above.
  // NOLINTNEXTLINE(google-explicit-constructor): as above
  outgoing(const std::vector<source>& list) noexcept : sources_(list) {}
  /// As above.
  template <std::size_t Count>
  // NOLINTNEXTLINE(google-explicit-constructor): as above
  outgoing(const std::array<source, Count>& list) noexcept : sources_(list) {}
  /// Bytes of any memory, copied when the operation is posted: at most `max_inline_data`.
  // NOLINTNEXTLINE(google-explicit-constructor): as above
  outgoing(const inline_data& bytes) noexcept : bytes_(&bytes) {}

  /// The pieces of memory; empty for inline bytes.
  [[nodiscard]] std::span<const source> sources() const noexcept { return sources_; }
  /// The inline bytes; nullptr for memory.
  [[nodiscard]] const inline_data* inlined() const noexcept { return bytes_; }

 private:
  std::span<const source> sources_;
  const inline_data* bytes_ = nullptr;
};

}  // namespace verbena::inline VERBENA_ABI
