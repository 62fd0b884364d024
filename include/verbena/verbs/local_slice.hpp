// SPDX-License-Identifier: MIT
// A piece of registered memory, as work requests name it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "verbena/base/assert.hpp"
#include "verbena/base/ids.hpp"

namespace verbena::inline VERBENA_ABI {

/// Address, length and local key of at least one byte of registered memory; laid out as `ibv_sge`,
/// so an array of slices is a gather or scatter list. It does not keep the memory alive: the region
/// must outlive every work request that names the slice. Threads: immutable value.
class local_slice {
 public:
  /// The most that one slice can cover: verbs count its bytes in 32 bits.
  static constexpr std::size_t max_length = 0xffff'ffff;

  /// A slice of memory at `address` (or, in a zero-based region, at that offset).
  /// Precondition: 1 <= length <= max_length.
  constexpr local_slice(std::uint64_t address, std::size_t length, local_key key)
      : sge_{address, static_cast<std::uint32_t>(length), key.value()} {
    VERBENA_ASSERT(length != 0,
                   "a slice has at least one byte; a message without bytes has no slices");
    VERBENA_ASSERT(length <= max_length, "a slice has at most 4 GiB - 1 byte");
  }
  /// The slice that `sge` describes. Precondition: sge.length >= 1.
  [[nodiscard]] static constexpr local_slice from_native(const ibv_sge& sge) {
    return {sge.addr, sge.length, local_key(sge.lkey)};
  }

  /// The first byte, as work requests name it.
  [[nodiscard]] constexpr std::uint64_t address() const noexcept { return sge_.addr; }
  /// Bytes; at least 1.
  [[nodiscard]] constexpr std::size_t length() const noexcept { return sge_.length; }
  /// The key of the region that it lies in.
  [[nodiscard]] constexpr local_key key() const noexcept { return local_key(sge_.lkey); }
  /// The same as verbs take it.
  [[nodiscard]] constexpr const ibv_sge& native() const noexcept { return sge_; }

  /// The part of `part_length` bytes at `offset`. Precondition: it lies inside, and is not empty.
  [[nodiscard]] constexpr local_slice slice(std::size_t offset, std::size_t part_length) const {
    VERBENA_ASSERT(offset <= length() && part_length <= length() - offset,
                   "a part of a slice lies inside the slice");
    return {address() + offset, part_length, key()};
  }
  /// The part from `offset` to the end. Precondition: offset < length().
  [[nodiscard]] constexpr local_slice slice(std::size_t offset) const {
    VERBENA_ASSERT(offset < length(), "a part of a slice lies inside the slice");
    return {address() + offset, length() - offset, key()};
  }

 private:
  ibv_sge sge_;
};

static_assert(sizeof(local_slice) == sizeof(ibv_sge) && alignof(local_slice) == alignof(ibv_sge));
static_assert(std::is_standard_layout_v<local_slice> && std::is_trivially_copyable_v<local_slice>);

}  // namespace verbena::inline VERBENA_ABI
