// SPDX-License-Identifier: MIT
// Registered memory with one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/attributes.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/memory/memory_owner.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/detail/memory_users.hpp"
#include "verbena/verbs/detail/slice_bounds.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/remote_region.hpp"

struct ibv_pd;

namespace verbena::inline VERBENA_ABI {

class memory_region;

namespace detail {

/// The state that the buffers of one registration share; the rest is in src/memory.
struct buffer_home {
  const ibv_pd* domain = nullptr;
  access_flags access;
  bool is_of_program = false;
  std::span<std::byte> of_program;  ///< the memory as the program accesses it
};
/// Returns a buffer to its home, and destroys the home if the buffer was its last user.
void give_back(buffer_home& home, std::uint32_t number) noexcept;
struct buffer_sharing;

inline constexpr const char* empty_buffer = "an empty or moved-from buffer was used";

}  // namespace detail

/// Registered memory: a part of a buffer_pool or a whole memory region. Move-only.
///
/// The destructor returns the buffer to its pool. The destructor may run on any thread, even after
/// the last handle of the pool has been destroyed: registration and memory exist until the last
/// buffer is destroyed. No request that uses the buffer may be in flight when the buffer is
/// destroyed; operations of a scope of this thread are checked. A default-constructed or moved-from
/// buffer is empty.
///
/// Destroying a buffer does not block, allocate or call the device, with two exceptions: the last
/// buffer of a destroyed pool and a buffer of a whole region deregister the region, like
/// memory_region::close().
/// Threads: one thread at a time; the bytes are shared with the device and perhaps with peers.
class [[nodiscard]] buffer {
 public:
  /// Creates an empty buffer.
  buffer() noexcept = default;
  /// Takes the memory of `other`, which is empty afterwards.
  buffer(buffer&& other) noexcept
      : home_(std::exchange(other.home_, nullptr)),
        memory_(std::exchange(other.memory_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)),
        number_(other.number_),
        local_key_(other.local_key_),
        remote_key_(other.remote_key_) {}
  /// Returns its own memory to its pool and takes the memory of `other`, which is empty afterwards.
  buffer& operator=(buffer&& other) noexcept {
    if (this == &other) return *this;
    give_back();
    home_ = std::exchange(other.home_, nullptr);
    memory_ = std::exchange(other.memory_, nullptr);
    capacity_ = std::exchange(other.capacity_, 0);
    number_ = other.number_;
    local_key_ = other.local_key_;
    remote_key_ = other.remote_key_;
    return *this;
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() { give_back(); }

  /// Makes a buffer of all of `region`. The buffer deregisters the region when it is destroyed.
  ///
  /// Preconditions: the library allocated the memory; the region is not zero-based; length() <=
  /// local_slice::max_length. Allocates.
  [[nodiscard]] static buffer of(memory_region&& region);
  /// Makes a buffer of memory of the program, such as mmap(2), huge pages or a dma-buf.
  ///
  /// `memory` is the region as the program accesses it; empty for a dma-buf without a mapping.
  /// `owner` owns the memory, for example `std::shared_ptr<void>(address, deleter)`. `owner` is
  /// destroyed once, after the buffer has been destroyed and the region deregistered. An operation
  /// in flight owns its buffer, so `owner` exists until the operation has completed, even if the
  /// channel is flushed or destroyed. If deregistration fails, `owner` is leaked, and an error is
  /// logged.
  ///
  /// Preconditions: `owner` is not empty; the region is not zero-based; length() <=
  /// local_slice::max_length; `memory` has that length or is empty. Allocates.
  [[nodiscard]] static buffer adopt(memory_region&& region, std::span<std::byte> memory,
                                    memory_owner owner);

  /// Returns true if the buffer has no memory.
  [[nodiscard]] bool empty() const noexcept { return home_ == nullptr; }
  /// Returns true if the buffer has memory.
  explicit operator bool() const noexcept { return !empty(); }

  /// Returns the memory; an empty span for an empty buffer and for a dma-buf without a mapping.
  ///
  /// A pool does not clear its buffers. Reading the memory while the device or a peer writes it, or
  /// writing it while they read it, is a data race.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept VERBENA_LIFETIMEBOUND {
    if (home_ != nullptr && home_->is_of_program) [[unlikely]]
      return home_->of_program;
    return {memory_, capacity_};
  }
  /// Returns the number of bytes; 0 for an empty buffer.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  /// Returns the whole buffer, for work requests. Precondition: not empty().
  [[nodiscard]] local_slice slice() const& {
    VERBENA_CHECK(home_ != nullptr, detail::empty_buffer);
    return {address(), capacity_, local_key()};
  }
  local_slice slice() const&& = delete;  // a temporary returns its memory to the pool
  /// Returns the slice [offset, offset + length). Precondition: the slice is inside the buffer and
  /// not empty.
  [[nodiscard]] local_slice slice(std::size_t offset, std::size_t length) const& {
    VERBENA_CHECK(home_ != nullptr, detail::empty_buffer);
    VERBENA_ASSERT(offset <= capacity_ && length <= capacity_ - offset,
                   "a slice exceeds its buffer");
    return {address() + offset, length, local_key()};
  }
  local_slice slice(std::size_t offset, std::size_t length) const&& = delete;
  /// Returns the slice [offset, offset + length), or an error.
  ///
  /// Errors: `invalid_argument` if the part is empty or exceeds the buffer. An empty buffer has 0
  /// bytes.
  [[nodiscard]] result<local_slice> try_slice(std::size_t offset, std::size_t length) const& {
    return tried({offset, length});
  }
  result<local_slice> try_slice(std::size_t offset, std::size_t length) const&& = delete;
  /// Returns `count` elements of type T from element `index`, or an error. Errors: see try_slice().
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] result<local_slice> try_element(std::size_t index, std::size_t count = 1) const& {
    return tried(detail::range_of_elements(index, count, sizeof(T)));
  }
  template <class T>
  result<local_slice> try_element(std::size_t index, std::size_t count = 1) const&& = delete;
  /// Returns address, length and rkey, for RDMA and atomic operations of a peer within access().
  ///
  /// The remote key is that of the whole pool: a peer that has the key can access every buffer of
  /// the pool. Precondition: not empty().
  [[nodiscard]] remote_region remote() const& {
    VERBENA_ASSERT(home_ != nullptr, detail::empty_buffer);
    return remote_region({.address = address(), .length = capacity_, .key = remote_key()});
  }
  remote_region remote() const&& = delete;

  /// Returns the local key.
  [[nodiscard]] verbena::local_key local_key() const noexcept {
    return verbena::local_key(local_key_);
  }
  /// Returns the remote key.
  [[nodiscard]] verbena::remote_key remote_key() const noexcept {
    return verbena::remote_key(remote_key_);
  }
  /// Returns the access flags of the registration. Precondition: not empty().
  [[nodiscard]] access_flags access() const {
    VERBENA_ASSERT(home_ != nullptr, detail::empty_buffer);
    return home_->access;
  }
  /// Returns the protection domain, for comparison with protection_domain::native(); nullptr for an
  /// empty buffer.
  [[nodiscard]] const ibv_pd* native_pd() const noexcept {
    return home_ == nullptr ? nullptr : home_->domain;
  }

  /// Returns the memory to its pool; the buffer is empty afterwards.
  void reset() noexcept { *this = buffer(); }

 private:
  friend class buffer_pool;
  friend struct detail::buffer_sharing;
  [[nodiscard]] static buffer whole(memory_region&& region, memory_owner owner,
                                    std::span<std::byte> memory);
  struct parts {
    detail::buffer_home* home;
    std::byte* memory;  // the address that work requests use
    std::uint32_t capacity;
    std::uint32_t number;
    verbena::local_key lkey;
    verbena::remote_key rkey;
  };
  explicit buffer(const parts& of) noexcept
      : home_(of.home),
        memory_(of.memory),
        capacity_(of.capacity),
        number_(of.number),
        local_key_(of.lkey.value()),
        remote_key_(of.rkey.value()) {}

  // Returns the memory to its pool, if there is any. The members remain as they are.
  void give_back() noexcept {
    if (home_ == nullptr) return;
    if (detail::innermost_user != nullptr) [[unlikely]]
      detail::stop_if_in_use({.address = address(), .length = capacity_, .key = local_key()});
    detail::give_back(*home_, number_);
  }
  [[nodiscard]] std::uint64_t address() const noexcept {
    return reinterpret_cast<std::uintptr_t>(memory_);
  }
  [[nodiscard]] result<local_slice> tried(detail::slice_range part) const {
    return detail::try_local_slice({.address = address(), .length = capacity_, .key = local_key()},
                                   part, "slice [{}, {}) exceeds the buffer of {} bytes");
  }

  detail::buffer_home* home_ = nullptr;
  std::byte* memory_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t number_ = 0;
  std::uint32_t local_key_ = 0;
  std::uint32_t remote_key_ = 0;
};

static_assert(sizeof(buffer) == 32 || sizeof(void*) != 8);

}  // namespace verbena::inline VERBENA_ABI
