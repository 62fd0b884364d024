// SPDX-License-Identifier: MIT
// Memory of a peer, for RDMA and atomic operations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "verbena/base/assert.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/detail/slice_bounds.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {
/// Address and remote key, with the layout of `ibv_send_wr::wr.rdma`.
struct remote_target {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};
}  // namespace detail

/// Address, length and remote key (rkey) of memory of a peer.
///
/// A remote_region does not keep the memory registered: the peer may deregister the memory at any
/// time. The adapter of the peer checks each access. Threads: immutable value.
class remote_region {
 public:
  /// The number of bytes of the wire format, version 1. The fields are, with their bytes in
  /// parentheses and integers in network order: version (1), address (8), length (8), key (4).
  static constexpr std::size_t encoded_size = 21;
  /// The version that encode() writes and decode() reads.
  static constexpr std::uint8_t wire_version = 1;

  /// The parts of a remote region.
  struct parts {
    std::uint64_t address = 0;  ///< the address of the first byte in work requests
    std::uint64_t length = 0;   ///< the number of bytes
    remote_key key;             ///< the rkey of the region
  };

  constexpr remote_region() noexcept = default;
  /// Makes a region. Precondition: the region ends within the 64-bit address space; try_make()
  /// checks it.
  constexpr explicit remote_region(parts of)
      : target_{of.address, of.key.value()}, length_(of.length) {
    VERBENA_ASSERT(fits(of), "a remote region exceeds the 64-bit address space");
  }
  /// Makes a region from values that a peer sent.
  ///
  /// Errors: `protocol` if the region ends beyond the 64-bit address space, or if its length does
  /// not fit into std::size_t.
  [[nodiscard]] static result<remote_region> try_make(parts of);

  /// Returns the address of the first byte in work requests.
  [[nodiscard]] constexpr std::uint64_t address() const noexcept { return target_.address; }
  /// Returns the number of bytes.
  [[nodiscard]] constexpr std::uint64_t length() const noexcept { return length_; }
  /// Returns the rkey of the region.
  [[nodiscard]] constexpr remote_key key() const noexcept { return remote_key(target_.key); }

  /// Returns address and key in the layout of work requests.
  [[nodiscard]] constexpr const detail::remote_target& target() const noexcept { return target_; }

  /// Returns the part of `part_length` bytes at `offset`; it may be empty.
  /// Precondition: the part is inside the region. For values that a peer sent use try_slice().
  [[nodiscard]] constexpr remote_region slice(std::uint64_t offset,
                                              std::uint64_t part_length) const {
    detail::check_slice({offset, part_length}, length(), outside);
    return remote_region({.address = address() + offset, .length = part_length, .key = key()});
  }
  /// Returns the part from `offset` to the end. Precondition: offset <= length().
  [[nodiscard]] constexpr remote_region slice(std::uint64_t offset) const {
    detail::check_slice({offset, 0}, length(), outside);
    return slice(offset, length() - offset);
  }
  /// Returns `count` elements of type T from element `index`, counted from the first byte.
  /// Precondition: the elements are inside the region. For values that a peer sent use
  /// try_element().
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] constexpr remote_region element(std::uint64_t index,
                                                std::uint64_t count = 1) const {
    const auto part = detail::range_of_elements(index, count, sizeof(T));
    return slice(part.offset, part.length);
  }

  /// Returns the part of `part_length` bytes at `offset`, or an error; it may be empty.
  ///
  /// Errors: `invalid_argument` if the part exceeds the region.
  [[nodiscard]] result<remote_region> try_slice(std::uint64_t offset,
                                                std::uint64_t part_length) const;
  /// Returns `count` elements of type T from element `index`, or an error. Errors: see try_slice().
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] result<remote_region> try_element(std::uint64_t index,
                                                  std::uint64_t count = 1) const {
    const auto part = detail::range_of_elements(index, count, sizeof(T));
    return try_slice(part.offset, part.length);
  }

  /// Returns the wire format, for the peer.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Reads the wire format.
  ///
  /// Errors: `protocol` for a wrong size or an unknown version; those of try_make().
  [[nodiscard]] static result<remote_region> decode(std::span<const std::byte> bytes);

  /// Returns whether address, length and key are equal.
  friend constexpr bool operator==(const remote_region& a, const remote_region& b) noexcept {
    return a.address() == b.address() && a.length() == b.length() && a.key() == b.key();
  }

 private:
  static constexpr const char* outside = "slice [{}, {}) exceeds the remote region of {} bytes";

  static constexpr bool fits(const parts& of) noexcept {
    return of.length <= std::numeric_limits<std::uint64_t>::max() - of.address;
  }

  detail::remote_target target_;
  std::uint64_t length_ = 0;
};

/// Returns `0x7f0012340000+4096 (rkey 0x1a2b)`.
[[nodiscard]] std::string to_string(const remote_region& region);

}  // namespace verbena::inline VERBENA_ABI

/// Hashes address, length and key.
template <>
struct std::hash<verbena::remote_region> {
  /// Returns the hash of `of`.
  std::size_t operator()(const verbena::remote_region& of) const noexcept;
};
