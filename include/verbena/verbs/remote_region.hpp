// SPDX-License-Identifier: MIT
// Memory of a peer: what a peer hands out so that others can read or write its memory.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "verbena/base/assert.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {
/// Address and remote key, laid out as in ibv_send_wr.
struct remote_target {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};
}  // namespace detail

/// Address, length and remote key of memory of a peer. It is a description, not a promise: the peer
/// can take the memory away, and its device checks every access. Threads: immutable value.
class remote_region {
 public:
  /// Bytes of the wire format, version 1: version (1), address (8), length (8), key (4), integers
  /// in network order.
  static constexpr std::size_t encoded_size = 21;
  /// The version that encode() writes and decode() reads.
  static constexpr std::uint8_t wire_version = 1;

  /// What a region consists of.
  struct parts {
    std::uint64_t address = 0;  ///< the first byte, as the peer's device names it
    std::uint64_t length = 0;   ///< bytes
    remote_key key;             ///< the key of the peer's device
  };

  constexpr remote_region() noexcept = default;
  /// Precondition: the end of the region does not lie beyond 2^64.
  constexpr explicit remote_region(parts of)
      : target_{of.address, of.key.value()}, length_(of.length) {
    VERBENA_ASSERT(fits(of), "a remote region ends within the 64-bit address space");
  }

  /// The first byte, as the peer's device names it.
  [[nodiscard]] constexpr std::uint64_t address() const noexcept { return target_.address; }
  /// Bytes.
  [[nodiscard]] constexpr std::uint64_t length() const noexcept { return length_; }
  /// The key of the peer's device.
  [[nodiscard]] constexpr remote_key key() const noexcept { return remote_key(target_.key); }

  /// Address and key, as work requests have them.
  [[nodiscard]] constexpr const detail::remote_target& target() const noexcept { return target_; }

  /// The part of `part_length` bytes at `offset`; it may be empty. Precondition: it lies inside.
  [[nodiscard]] constexpr remote_region slice(std::uint64_t offset,
                                              std::uint64_t part_length) const {
    VERBENA_ASSERT(offset <= length() && part_length <= length() - offset,
                   "a part of a remote region lies inside the region");
    return remote_region({.address = address() + offset, .length = part_length, .key = key()});
  }
  /// The part from `offset` to the end. Precondition: offset <= length().
  [[nodiscard]] constexpr remote_region slice(std::uint64_t offset) const {
    VERBENA_ASSERT(offset <= length(), "a part of a remote region lies inside the region");
    return slice(offset, length() - offset);
  }

  /// The wire format, for the peer.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Reads the wire format. Errors: `protocol` for a wrong size, an unknown version, or a region
  /// that ends beyond the address space or is larger than this machine can address.
  [[nodiscard]] static result<remote_region> decode(std::span<const std::byte> bytes);

  /// Whether address, length and key are the same.
  friend constexpr bool operator==(const remote_region& a, const remote_region& b) noexcept {
    return a.address() == b.address() && a.length() == b.length() && a.key() == b.key();
  }

 private:
  static constexpr bool fits(const parts& of) noexcept {
    return of.length <= std::numeric_limits<std::uint64_t>::max() - of.address;
  }

  detail::remote_target target_;
  std::uint64_t length_ = 0;
};

/// `0x7f0012340000+4096 (rkey 0x1a2b)`.
[[nodiscard]] std::string to_string(const remote_region& region);

}  // namespace verbena::inline VERBENA_ABI
