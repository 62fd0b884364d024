// SPDX-License-Identifier: MIT
// Memory that operations of a channel read: the data of sends and writes.
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

/// A slice of registered memory that operations read. Several operations may read it at once.
///
/// While an operation reads it, the program does not write it. A source does not keep the memory
/// alive: the region or buffer must outlive it, and the scope or call that it is passed to.
/// Threads: immutable value.
class source {
 public:
  /// Names all of `region`. Precondition: length() <= local_slice::max_length.
  explicit source(const memory_region& region VERBENA_LIFETIMEBOUND)
      : slice_(region.slice()), domain_(region.native()->pd) {}
  /// Names `length` bytes at `offset`. Preconditions: they lie inside; 1 <= length.
  source(const memory_region& region VERBENA_LIFETIMEBOUND, std::size_t offset, std::size_t length)
      : slice_(region.slice(offset, length)), domain_(region.native()->pd) {}
  /// Names a whole buffer. Precondition: not empty().
  explicit source(const buffer& memory VERBENA_LIFETIMEBOUND)
      : slice_(memory.slice()), domain_(memory.native_pd()) {}
  /// Names `length` bytes at `offset`. Preconditions: they lie inside; 1 <= length.
  source(const buffer& memory VERBENA_LIFETIMEBOUND, std::size_t offset, std::size_t length)
      : slice_(memory.slice(offset, length)), domain_(memory.native_pd()) {}
  /// Refuses a temporary region, which is destroyed before the operation.
  explicit source(const memory_region&&) = delete;
  /// Refuses a temporary region, which is destroyed before the operation.
  source(const memory_region&&, std::size_t, std::size_t) = delete;
  /// Refuses a temporary buffer, which is destroyed before the operation.
  explicit source(const buffer&&) = delete;
  /// Refuses a temporary buffer, which is destroyed before the operation.
  source(const buffer&&, std::size_t, std::size_t) = delete;

  /// Returns a source of `length` bytes at `offset`. Preconditions: they lie inside; 1 <= length.
  [[nodiscard]] source part(std::size_t offset, std::size_t length) const {
    return {slice_.slice(offset, length), domain_};
  }
  /// Returns the scatter/gather element.
  [[nodiscard]] const local_slice& slice() const noexcept { return slice_; }
  /// Returns the number of bytes; at least 1.
  [[nodiscard]] std::size_t length() const noexcept { return slice_.length(); }
  /// Returns the native protection domain of the memory.
  [[nodiscard]] const ibv_pd* domain() const noexcept { return domain_; }

 private:
  source(const local_slice& slice, const ibv_pd* domain) noexcept
      : slice_(slice), domain_(domain) {}

  local_slice slice_;
  const ibv_pd* domain_;
};

/// The data of a message or write, as a parameter type: a source, a list of sources, inline data,
/// or no bytes. It refers to its argument: construct it in the call. Threads: immutable value.
class outgoing {
 public:
  /// Creates an empty message.
  outgoing() noexcept = default;
  /// Refers to one source.
  // NOLINTNEXTLINE(google-explicit-constructor): a parameter type converts implicitly
  outgoing(const source& one) noexcept : sources_(&one, 1) {}
  /// Refers to several sources, gathered in order; operations accept at most `max_send_sge`.
  // NOLINTNEXTLINE(google-explicit-constructor): a parameter type converts implicitly
  outgoing(std::span<const source> list) noexcept : sources_(list) {}
  /// Refers to several sources, gathered in order.
  // NOLINTNEXTLINE(google-explicit-constructor): a parameter type converts implicitly
  outgoing(const std::vector<source>& list) noexcept : sources_(list.data(), list.size()) {}
  /// Refers to several sources, gathered in order.
  template <std::size_t Count>
  // NOLINTNEXTLINE(google-explicit-constructor): a parameter type converts implicitly
  outgoing(const std::array<source, Count>& list) noexcept : sources_(list.data(), Count) {}
  /// Refers to bytes of any memory, copied when posted; at most `max_inline_data`.
  // NOLINTNEXTLINE(google-explicit-constructor): a parameter type converts implicitly
  outgoing(const inline_data& bytes) noexcept : bytes_(&bytes) {}

  /// Returns the sources; an empty span for inline data.
  [[nodiscard]] std::span<const source> sources() const noexcept { return sources_; }
  /// Returns the inline data; nullptr for sources.
  [[nodiscard]] const inline_data* inlined() const noexcept { return bytes_; }

 private:
  std::span<const source> sources_;
  const inline_data* bytes_ = nullptr;
};

}  // namespace verbena::inline VERBENA_ABI
