// SPDX-License-Identifier: MIT
// Contiguous ranges of registered memory, for work requests.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>  // std::hash
#include <type_traits>

#include "verbena/base/assert.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/detail/slice_bounds.hpp"

struct ibv_sge;

namespace verbena::inline VERBENA_ABI {

/// A scatter/gather element (SGE): address, length and local key. A slice has at least one byte.
///
/// The class has the layout of `ibv_sge`, so an array of slices is a scatter/gather list. A slice
/// does not keep the region alive: the region must outlive all work requests with the slice.
/// Threads: immutable value.
class local_slice {
 public:
  /// The largest length of a slice: `ibv_sge` has 32 bits for it.
  static constexpr std::size_t max_length = 0xffff'ffff;

  /// Makes a slice of `length` bytes at `address`. In a zero-based region `address` is an offset.
  /// Precondition: 1 <= length <= max_length.
  constexpr local_slice(std::uint64_t address, std::size_t length, local_key key)
      : address_(address), length_(static_cast<std::uint32_t>(length)), key_(key.value()) {
    VERBENA_ASSERT(
        length != 0,
        "a slice has 0 bytes: for a message without bytes, pass an empty list of slices");
    VERBENA_ASSERT(length <= max_length, "a slice exceeds 4 GiB - 1 bytes");
  }
  /// Makes a slice from the C API. Precondition: sge.length >= 1.
  template <std::same_as<ibv_sge> Native>  // this header does not include <infiniband/verbs.h>
  [[nodiscard]] static constexpr local_slice from_native(const Native& sge) {
    return {sge.addr, sge.length, local_key(sge.lkey)};
  }

  /// Returns the address of the first byte in work requests.
  [[nodiscard]] constexpr std::uint64_t address() const noexcept { return address_; }
  /// Returns the number of bytes, at least 1.
  [[nodiscard]] constexpr std::size_t length() const noexcept { return length_; }
  /// Returns the local key of the region.
  [[nodiscard]] constexpr local_key key() const noexcept { return local_key(key_); }
  /// Returns the scatter/gather element of the C API.
  template <std::same_as<ibv_sge> Native = ibv_sge>
  [[nodiscard]] constexpr Native native() const noexcept {
    return {address_, length_, key_};
  }

  /// Returns the part of `part_length` bytes at `offset`.
  /// Precondition: the part is inside the slice and not empty; try_slice() checks it.
  [[nodiscard]] constexpr local_slice slice(std::size_t offset, std::size_t part_length) const {
    detail::check_slice({offset, part_length}, length(), outside);
    return {address() + offset, part_length, key()};
  }
  /// Returns the part from `offset` to the end. Precondition: offset < length().
  [[nodiscard]] constexpr local_slice slice(std::size_t offset) const {
    detail::check_slice({offset, 1}, length(), outside);
    return {address() + offset, length() - offset, key()};
  }
  /// Returns `count` elements of type T from element `index`, counted from the first byte.
  /// Precondition: the elements are inside the slice, and `count` is not 0.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] constexpr local_slice element(std::size_t index, std::size_t count = 1) const {
    const auto part = detail::range_of_elements(index, count, sizeof(T));
    detail::check_slice(part, length(), outside);
    return {address() + part.offset, part.length, key()};
  }

  /// Returns the part of `part_length` bytes at `offset`, or an error.
  ///
  /// Errors: `invalid_argument` if the part is empty or exceeds the slice.
  [[nodiscard]] result<local_slice> try_slice(std::size_t offset, std::size_t part_length) const;
  /// Returns `count` elements of type T from element `index`, or an error. Errors: see try_slice().
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] result<local_slice> try_element(std::size_t index, std::size_t count = 1) const {
    const auto part = detail::range_of_elements(index, count, sizeof(T));
    return try_slice(part.offset, part.length);
  }

  /// Returns whether address, length and key are equal.
  friend constexpr bool operator==(const local_slice& a, const local_slice& b) noexcept {
    return a.address() == b.address() && a.length() == b.length() && a.key() == b.key();
  }

 private:
  static constexpr const char* outside = "slice [{}, {}) exceeds the slice of {} bytes";

  std::uint64_t address_;
  std::uint32_t length_;
  std::uint32_t key_;
};

static_assert(std::is_standard_layout_v<local_slice> && std::is_trivially_copyable_v<local_slice>);

namespace detail {
/// The memory that contains a slice.
struct sliced_memory {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  local_key key;
};
/// Returns `part` of the memory, or an error with the text `outside` if it exceeds the memory.
[[nodiscard]] result<local_slice> try_local_slice(const sliced_memory& of, slice_range part,
                                                  const char* outside);
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI

/// Hashes address, length and key.
template <>
struct std::hash<verbena::local_slice> {
  /// Returns the hash of `of`.
  std::size_t operator()(const verbena::local_slice& of) const noexcept;
};
