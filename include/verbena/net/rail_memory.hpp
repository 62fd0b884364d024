// SPDX-License-Identifier: MIT
// Memory that is registered with the protection domain of each rail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verbena/base/assert.hpp"
#include "verbena/base/result.hpp"
#include "verbena/net/rail.hpp"
#include "verbena/verbs/detail/slice_bounds.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// Memory of a peer, with a remote key for each rail. Like a remote_region, it does not keep the
/// memory registered. Threads: immutable value.
class rail_region {
 public:
  /// The largest number of bytes of the wire format, version 1. The fields are, with their bytes in
  /// parentheses and integers in network order: version (1), number of rails (1), address (8),
  /// length (8), and the key of each rail (4).
  static constexpr std::size_t max_encoded_size = 18 + 4 * max_rails;
  /// The version that encode() writes and decode() reads.
  static constexpr std::uint8_t wire_version = 1;

  /// Makes a region of 0 bytes without rails.
  rail_region() noexcept = default;

  /// Returns the number of rails.
  [[nodiscard]] std::uint32_t rails() const noexcept { return rails_; }
  /// Returns the number of bytes.
  [[nodiscard]] std::uint64_t length() const noexcept { return length_; }
  /// Returns the memory as rail `rail` accesses it. Precondition: rail < rails().
  [[nodiscard]] remote_region on(std::uint32_t rail) const {
    VERBENA_ASSERT(rail < rails_, "a rail is not less than the number of rails of the region");
    return remote_region({.address = address_, .length = length_, .key = remote_key(keys_[rail])});
  }
  /// Returns the part of `length` bytes at `offset`. Precondition: the part is inside the region.
  [[nodiscard]] rail_region slice(std::uint64_t offset, std::uint64_t length) const {
    VERBENA_ASSERT(verbena::detail::is_inside({offset, length}, length_),
                   "a slice exceeds the region of the rails");
    rail_region part = *this;
    part.address_ += offset;
    part.length_ = length;
    return part;
  }

  /// Returns the wire format, for the peer. Allocates.
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Reads the wire format. Errors: `protocol` for a wrong size, an unknown version, more than
  /// `max_rails` rails or none; those of remote_region::try_make().
  [[nodiscard]] static result<rail_region> decode(std::span<const std::byte> bytes);

  friend bool operator==(const rail_region&, const rail_region&) noexcept = default;

 private:
  friend class rail_memory;

  std::uint64_t address_ = 0;
  std::uint64_t length_ = 0;
  std::uint32_t rails_ = 0;
  std::array<std::uint32_t, max_rails> keys_{};
};

/// Returns `0x7f0012340000+4096 (rkeys 0x1a2b, 0x1a2c)`.
[[nodiscard]] std::string to_string(const rail_region& of);

/// Memory that all rails can access: one registration for each protection domain. Move-only.
/// Precondition of the destructor: no operation of this process or of a peer uses the memory.
/// Threads: thread-safe for const use; other members by one thread at a time.
class [[nodiscard]] rail_memory {
 public:
  /// Takes the memory of `other`, which must not be used afterwards.
  rail_memory(rail_memory&& other) noexcept = default;
  /// Destroys its own registrations and takes those of `other`, which must not be used afterwards.
  rail_memory& operator=(rail_memory&& other) noexcept;
  rail_memory(const rail_memory&) = delete;
  rail_memory& operator=(const rail_memory&) = delete;
  ~rail_memory() = default;

  /// Allocates and registers `bytes` bytes of zeroed memory.
  ///
  /// Errors: `invalid_argument` for no rails or more than `max_rails`; those of
  /// protection_domain::allocate() and register_memory(). Allocates; may block in the kernel.
  [[nodiscard]] static result<rail_memory> allocate(std::span<const rail_port> rails,
                                                    std::size_t bytes, access_flags access);
  /// Registers memory of the caller, which must outlive the object. Errors: as allocate().
  [[nodiscard]] static result<rail_memory> register_memory(std::span<const rail_port> rails,
                                                           std::span<std::byte> memory,
                                                           access_flags access);

  /// Returns the memory. Reading the bytes while the device or a peer writes them, or writing them
  /// while they read them, is a data race.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return memory_; }
  /// Returns the number of bytes.
  [[nodiscard]] std::size_t length() const noexcept { return memory_.size(); }
  /// Returns the number of rails.
  [[nodiscard]] std::uint32_t rails() const noexcept {
    return static_cast<std::uint32_t>(of_rail_.size());
  }
  /// Returns the registration for a rail. Precondition: rail < rails().
  [[nodiscard]] const memory_region& region(std::uint32_t rail) const {
    VERBENA_ASSERT(rail < rails(), "a rail is not less than the number of rails of the memory");
    const std::size_t index = of_rail_[rail];
    return index == 0 ? *first_ : others_[index - 1];
  }
  /// Returns the memory for peers: send them encode() of the result.
  [[nodiscard]] rail_region remote() const;

 private:
  rail_memory() = default;
  // Registers memory_ with the domains behind the first one.
  [[nodiscard]] static result<rail_memory> make(std::span<const rail_port> rails,
                                                memory_region first, std::span<std::byte> memory,
                                                access_flags access);

  std::span<std::byte> memory_;
  std::optional<memory_region> first_;  // can own the memory, so it is destroyed last
  std::vector<memory_region> others_;   // one for each further protection domain
  std::vector<std::size_t> of_rail_;    // 0: first_; i: others_[i - 1]
};

/// Bytes that an operation over rails reads. The memory must outlive the operation and must not be
/// moved before its end.
/// Threads: immutable value.
class rail_source {
 public:
  /// Names all of `memory`.
  explicit rail_source(const rail_memory& memory) : rail_source(memory, 0, memory.length()) {}
  /// Names `length` bytes at `offset`. Preconditions: they lie inside; 1 <= length.
  rail_source(const rail_memory& memory, std::size_t offset, std::size_t length)
      : memory_(&memory), offset_(offset), length_(length) {
    VERBENA_ASSERT(length != 0 && verbena::detail::is_inside({offset, length}, memory.length()),
                   "a source exceeds the memory of the rails, or is empty");
  }
  /// Refuses temporary memory, which is destroyed before the operation.
  explicit rail_source(const rail_memory&&) = delete;
  /// Refuses temporary memory, which is destroyed before the operation.
  rail_source(const rail_memory&&, std::size_t, std::size_t) = delete;

  /// Returns the memory.
  [[nodiscard]] const rail_memory& memory() const noexcept { return *memory_; }
  /// Returns the offset of the first byte.
  [[nodiscard]] std::size_t offset() const noexcept { return offset_; }
  /// Returns the number of bytes.
  [[nodiscard]] std::size_t length() const noexcept { return length_; }

 private:
  const rail_memory* memory_;
  std::size_t offset_;
  std::size_t length_;
};

/// Bytes that a read over rails writes. The memory must outlive the operation and must not be moved
/// before its end.
/// Threads: immutable value.
class rail_sink {
 public:
  /// Names all of `memory`. Precondition: it was registered with local_write.
  explicit rail_sink(const rail_memory& memory) : rail_sink(memory, 0, memory.length()) {}
  /// Names `length` bytes at `offset`. Preconditions: the memory was registered with local_write;
  /// they lie inside; 1 <= length.
  rail_sink(const rail_memory& memory, std::size_t offset, std::size_t length)
      : bytes_(memory, offset, length) {
    VERBENA_ASSERT(memory.region(0).access().contains(access::local_write),
                   "a sink was created from memory that was registered without "
                   "access::local_write");
  }
  /// Refuses temporary memory, which is destroyed before the operation.
  explicit rail_sink(const rail_memory&&) = delete;
  /// Refuses temporary memory, which is destroyed before the operation.
  rail_sink(const rail_memory&&, std::size_t, std::size_t) = delete;

  /// Returns the memory.
  [[nodiscard]] const rail_memory& memory() const noexcept { return bytes_.memory(); }
  /// Returns the offset of the first byte.
  [[nodiscard]] std::size_t offset() const noexcept { return bytes_.offset(); }
  /// Returns the number of bytes.
  [[nodiscard]] std::size_t length() const noexcept { return bytes_.length(); }

 private:
  rail_source bytes_;
};

}  // namespace verbena::inline VERBENA_ABI::net
