// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/attributes.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI::cm {

class session_base;

/// The memory of a released buffer. Threads: one thread at a time.
struct released_memory {
  /// The memory; empty if the library allocated it and has freed it.
  std::span<std::byte> bytes = {};
  /// The owner of `bytes` if the buffer owned a vector; otherwise empty.
  std::vector<std::byte> storage = {};
};

/// Registered memory of this side, created by a session: memory of the library, of the caller, or a
/// vector that it owns. It may outlive the session, and all sessions of its protection domain can
/// use it. Destroying it deregisters the memory; no request may use it then, and no peer may access
/// it. Threads: one thread at a time; device and peer may access the bytes at the same time.
class [[nodiscard]] local_buffer {
 public:
  /// Moves the buffer; the other object must not be used afterwards.
  local_buffer(local_buffer&&) noexcept = default;
  /// Destroys this buffer and moves the other one.
  local_buffer& operator=(local_buffer&& other) noexcept {
    if (this == &other) return *this;
    region_ = std::move(other.region_);  // before its memory is destroyed
    bytes_ = std::exchange(other.bytes_, {});
    storage_ = std::move(other.storage_);
    return *this;
  }
  ~local_buffer() = default;

  /// Returns the memory.
  [[nodiscard]] std::span<std::byte> bytes() const& noexcept VERBENA_LIFETIMEBOUND {
    return bytes_;
  }
  std::span<std::byte> bytes() const&& = delete;  // a temporary frees and deregisters its memory
  /// Returns the number of bytes.
  [[nodiscard]] std::size_t length() const noexcept { return bytes_.size(); }
  /// Returns the whole buffer as a slice.
  [[nodiscard]] local_slice slice() const& { return region_.slice(); }
  local_slice slice() const&& = delete;
  /// Returns the slice of `part_length` bytes at `offset`. Precondition: it is inside the buffer
  /// and not empty.
  [[nodiscard]] local_slice slice(std::size_t offset, std::size_t part_length) const& {
    return region_.slice(offset, part_length);
  }
  local_slice slice(std::size_t offset, std::size_t part_length) const&& = delete;
  /// Returns the memory region, for calls that this class does not offer.
  [[nodiscard]] const memory_region& region() const& noexcept VERBENA_LIFETIMEBOUND {
    return region_;
  }
  const memory_region& region() const&& = delete;

  /// Deregisters the memory; frees memory of the library and returns other memory. Errors: the
  /// errno of ibv_dereg_mr(3), for example while memory windows are bound; the buffer is then
  /// unchanged.
  [[nodiscard]] result<released_memory> release() &&;

 private:
  friend class session_base;
  local_buffer(memory_region region, std::span<std::byte> bytes, std::vector<std::byte> storage)
      : storage_(std::move(storage)), bytes_(bytes), region_(std::move(region)) {}

  std::vector<std::byte> storage_;
  std::span<std::byte> bytes_;
  memory_region region_;  // destroyed before the memory
};

}  // namespace verbena::inline VERBENA_ABI::cm
