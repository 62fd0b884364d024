// SPDX-License-Identifier: MIT
// A piece of registered memory with one owner: what requests are made of when somebody must see to
// it that the memory lives as long as the device may touch it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {

/// What the buffers of one registration share; the rest of it is in src/memory.
struct buffer_home {
  const ibv_pd* domain = nullptr;
  access_flags rights;
};
/// Takes a piece back; the last one of a home that nobody else holds takes the home along.
void give_back(buffer_home& home, std::uint32_t piece) noexcept;

inline constexpr const char* empty_buffer = "a buffer that is moved-from or empty has no memory";

}  // namespace detail

/// A piece of registered memory: of a buffer_pool, which gets it back when the buffer is destroyed,
/// or a whole memory region. Move-only. It may be destroyed on any thread, at any time, also after
/// the last handle of its pool: registration and memory live until the last buffer is gone. It is
/// empty when default-constructed and when moved from. No request that names it may be under way
/// when it is destroyed.
///
/// Destroying it does not block, allocate or call the device; but the last buffer of a pool that is
/// no more, and a buffer of a whole region, deregister, which blocks as memory_region::close().
/// Threads: one thread at a time; the bytes are shared with the device and perhaps with peers.
class [[nodiscard]] buffer {
 public:
  /// An empty buffer.
  buffer() noexcept = default;
  /// Takes over the piece of `other`, which is empty afterwards.
  buffer(buffer&& other) noexcept
      : home_(std::exchange(other.home_, nullptr)),
        memory_(std::exchange(other.memory_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)),
        piece_(other.piece_),
        local_key_(other.local_key_),
        remote_key_(other.remote_key_) {}
  /// Gives its own piece back and takes over that of `other`, which is empty afterwards.
  buffer& operator=(buffer&& other) noexcept {
    buffer taken(std::move(other));
    std::swap(home_, taken.home_);
    std::swap(memory_, taken.memory_);
    std::swap(capacity_, taken.capacity_);
    std::swap(piece_, taken.piece_);
    std::swap(local_key_, taken.local_key_);
    std::swap(remote_key_, taken.remote_key_);
    return *this;
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() {
    if (home_ != nullptr) detail::give_back(*home_, piece_);
  }

  /// A buffer over all of `region`, which it deregisters when it is destroyed.
  /// Precondition: the library allocated the region's memory, the region is not zero-based, and
  /// length() <= local_slice::max_length. Allocates.
  [[nodiscard]] static buffer of(memory_region&& region);

  /// Whether it has no memory.
  [[nodiscard]] bool empty() const noexcept { return home_ == nullptr; }
  /// Whether it has memory.
  explicit operator bool() const noexcept { return !empty(); }

  /// All its memory; nothing of an empty buffer. What is in it when it comes from a pool is what
  /// its last user left. Reading it while the device or a peer writes it, or writing it while they
  /// read it, is a data race.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {memory_, capacity_}; }
  /// Bytes of it; 0 of an empty buffer.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  /// All of it, for work requests. Precondition: not empty().
  [[nodiscard]] local_slice slice() const {
    VERBENA_CHECK(home_ != nullptr, detail::empty_buffer);
    return {address(), capacity_, local_key()};
  }
  /// The part of `part_length` bytes at `offset`. Precondition: it lies inside, and is not empty.
  [[nodiscard]] local_slice slice(std::size_t offset, std::size_t part_length) const {
    VERBENA_CHECK(home_ != nullptr, detail::empty_buffer);
    VERBENA_ASSERT(offset <= capacity_ && part_length <= capacity_ - offset,
                   "a slice lies inside its buffer");
    return {address() + offset, part_length, local_key()};
  }
  /// What a peer needs to reach it, as far as rights() let it. The key is that of the whole pool:
  /// what the peer may do here, its device lets it do to every buffer of the pool.
  /// Precondition: not empty().
  [[nodiscard]] remote_region remote() const {
    VERBENA_ASSERT(home_ != nullptr, detail::empty_buffer);
    return remote_region({.address = address(), .length = capacity_, .key = remote_key()});
  }

  /// The key that work requests here name it by.
  [[nodiscard]] verbena::local_key local_key() const noexcept {
    return verbena::local_key(local_key_);
  }
  /// The key that peers name it by.
  [[nodiscard]] verbena::remote_key remote_key() const noexcept {
    return verbena::remote_key(remote_key_);
  }
  /// What it was registered with. Precondition: not empty().
  [[nodiscard]] access_flags rights() const {
    VERBENA_ASSERT(home_ != nullptr, detail::empty_buffer);
    return home_->rights;
  }
  /// The protection domain that it belongs to, to be compared with protection_domain::native();
  /// nullptr of an empty buffer.
  [[nodiscard]] const ibv_pd* domain_identity() const noexcept {
    return home_ == nullptr ? nullptr : home_->domain;
  }

  /// Gives the memory back now; the buffer is empty afterwards.
  void reset() noexcept { *this = buffer(); }

 private:
  friend class buffer_pool;
  struct parts {
    detail::buffer_home* home;
    std::byte* memory;
    std::uint32_t capacity;
    std::uint32_t piece;
    verbena::local_key lkey;
    verbena::remote_key rkey;
  };
  explicit buffer(const parts& of) noexcept
      : home_(of.home),
        memory_(of.memory),
        capacity_(of.capacity),
        piece_(of.piece),
        local_key_(of.lkey.value()),
        remote_key_(of.rkey.value()) {}

  [[nodiscard]] std::uint64_t address() const noexcept {
    return reinterpret_cast<std::uintptr_t>(memory_);
  }

  detail::buffer_home* home_ = nullptr;
  std::byte* memory_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t piece_ = 0;
  std::uint32_t local_key_ = 0;
  std::uint32_t remote_key_ = 0;
};

static_assert(sizeof(buffer) == 32 || sizeof(void*) != 8);

}  // namespace verbena::inline VERBENA_ABI
