// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI::cm {

namespace detail {
class session_side;
}

/// Memory that a buffer was made of, given back. Threads: one thread at a time.
struct released_memory {
  /// The memory; empty when it was the library's and is freed.
  std::span<std::byte> bytes = {};
  /// What owns `bytes` when the buffer did; empty when they are the caller's.
  std::vector<std::byte> storage = {};
};

/// Registered memory of this side, made by a session, its caller or its client: memory of the
/// library, of the caller, or a vector that it owns. It may outlive the session, and every session
/// with the same protection domain can use it. Dropping it deregisters; no request that names it
/// may be outstanding then, and no peer that was told of it may still use it.
/// Threads: one thread at a time; the bytes are shared with the device and perhaps with the peer.
class [[nodiscard]] local_buffer {
 public:
  /// Takes over the buffer of the other, which must not be used afterwards.
  local_buffer(local_buffer&&) noexcept = default;
  /// Drops its own buffer and takes over the other's.
  local_buffer& operator=(local_buffer&& other) noexcept {
    region_ = std::move(other.region_);  // before its memory
    bytes_ = std::exchange(other.bytes_, {});
    storage_ = std::move(other.storage_);
    return *this;
  }
  ~local_buffer() = default;

  /// The memory, for reading and writing by the program.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// Bytes of it.
  [[nodiscard]] std::size_t length() const noexcept { return bytes_.size(); }
  /// All of it, for requests.
  [[nodiscard]] local_slice slice() const { return region_.slice(); }
  /// The part of `part_length` bytes at `offset`. Precondition: it lies inside, and is not empty.
  [[nodiscard]] local_slice slice(std::size_t offset, std::size_t part_length) const {
    return region_.slice(offset, part_length);
  }
  /// The region, for what this class does not offer.
  [[nodiscard]] const memory_region& region() const noexcept { return region_; }

  /// Deregisters, frees what is the library's, and gives back what is not. Errors: the errno of
  /// ibv_dereg_mr(3), as while memory windows are bound to it; the buffer is then as before.
  [[nodiscard]] result<released_memory> release() &&;

 private:
  friend class detail::session_side;
  local_buffer(memory_region region, std::span<std::byte> bytes, std::vector<std::byte> storage)
      : storage_(std::move(storage)), bytes_(bytes), region_(std::move(region)) {}

  std::vector<std::byte> storage_;
  std::span<std::byte> bytes_;
  memory_region region_;  // goes before the memory
};

}  // namespace verbena::inline VERBENA_ABI::cm
