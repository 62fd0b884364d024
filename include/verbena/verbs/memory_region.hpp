// SPDX-License-Identifier: MIT
// Memory regions. Source: ibv_reg_mr(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

#include "verbena/base/assert.hpp"
#include "verbena/base/attributes.hpp"
#include "verbena/base/call_site.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/close_result.hpp"
#include "verbena/verbs/detail/in_flight.hpp"
#include "verbena/verbs/detail/memory_users.hpp"
#include "verbena/verbs/detail/slice_bounds.hpp"
#include "verbena/verbs/detail/states.hpp"
#include "verbena/verbs/handle.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

class protection_domain;

namespace detail {

class memory_block;  // memory that the library allocated
template <>
struct native_traits<ibv_mr> {
  static constexpr auto destroy = &sys::verbs_table::dereg_mr;
  static constexpr const char* moved_from = "a moved-from memory_region was used";
  static constexpr const char* in_use = "memory windows are still bound to it";
  using watched = watched_region;
};
struct memory_region_parents {
  std::shared_ptr<protection_domain_state> pd;
  std::shared_ptr<const memory_block> memory;  ///< nullptr for memory of the caller
};
using memory_region_state = native_state<ibv_mr, memory_region_parents>;
/// The attributes of a registration that ibv_mr does not contain.
struct region_attributes {
  access_flags access;
  std::optional<std::uint64_t> iova = {};
  bool is_mapped = true;  ///< false for a dma-buf: the process does not map the memory
};

}  // namespace detail

/// A memory region (MR), created by protection_domain::allocate() with memory of the library, or by
/// register_memory() with memory of the caller. Move-only.
///
/// The destructor deregisters the memory, then frees memory of the library. No outstanding work
/// request may use the region at that time; operations of a scope of this thread are checked.
/// Threads: thread-safe for const use; other members by one thread at a time. The device and peers
/// access the bytes concurrently.
class [[nodiscard]] memory_region : public handle<detail::memory_region_state> {
 public:
  /// Takes the region of `other`, which must not be used afterwards.
  memory_region(memory_region&& other) noexcept
      : handle(static_cast<handle&&>(other)), view_(other.view_) {
    other.view_ = {};
  }
  /// Destroys its own region and takes that of `other`, which must not be used afterwards.
  memory_region& operator=(memory_region&& other) noexcept {
    check_unused();
    handle::operator=(static_cast<handle&&>(other));
    const view taken = other.view_;
    other.view_ = {};
    view_ = taken;
    return *this;
  }
  memory_region(const memory_region&) = delete;
  memory_region& operator=(const memory_region&) = delete;
  ~memory_region() { check_unused(); }

  /// Adopts a region of the C API; the caller owns the memory. `access` and `iova` are
  /// the values of the registration. Precondition: `region` belongs to `pd`.
  [[nodiscard]] static memory_region adopt(ibv_mr* region, const protection_domain& pd,
                                           access_flags access, ownership owner,
                                           std::optional<std::uint64_t> iova = {});

  /// Returns the memory that the library allocated. Precondition: owns_memory().
  ///
  /// The program must not read bytes that the device or a peer writes at the same time, and must
  /// not write bytes that they access.
  [[nodiscard]] std::span<std::byte> bytes() const& VERBENA_LIFETIMEBOUND {
    VERBENA_ASSERT(owns_memory(), "bytes() of a memory region that the library did not allocate");
    return {view_.memory, view_.length};
  }
  std::span<std::byte> bytes() && = delete;  // a temporary frees its memory
  /// Returns whether the library allocated the memory.
  [[nodiscard]] bool owns_memory() const noexcept { return view_.owned; }
  /// Returns the number of bytes.
  [[nodiscard]] std::size_t length() const noexcept { return view_.length; }

  /// Returns the lkey, for work requests of this process.
  [[nodiscard]] verbena::local_key local_key() const noexcept { return view_.lkey; }
  /// Returns the rkey, for work requests of peers.
  [[nodiscard]] verbena::remote_key remote_key() const noexcept { return view_.rkey; }
  /// Returns the access flags that the region was registered with.
  [[nodiscard]] access_flags access() const noexcept { return view_.access; }

  /// Returns a slice of the whole region. Precondition: length() <= local_slice::max_length.
  [[nodiscard]] local_slice slice() const& {
    VERBENA_CHECK(view_.length != 0, detail::memory_region_state::traits::moved_from);
    return {view_.base, view_.length, view_.lkey};
  }
  local_slice slice() const&& = delete;  // a temporary deregisters its memory
  /// Returns the part of `part_length` bytes at `offset`.
  /// Precondition: the part is inside the region and not empty; try_slice() checks it.
  [[nodiscard]] local_slice slice(std::size_t offset, std::size_t part_length) const& {
    return checked({offset, part_length});
  }
  local_slice slice(std::size_t offset, std::size_t part_length) const&& = delete;
  /// Returns the slice of `part`. Precondition: `part` is inside the registered memory and not
  /// empty; the memory is not a dma-buf.
  [[nodiscard]] local_slice slice(std::span<const std::byte> part) const& {
    return checked(range_of(part.data(), part.data() + part.size()));
  }
  local_slice slice(std::span<const std::byte> part) const&& = delete;
  /// Returns the slice of the memory [first, last). Precondition: that of slice(part).
  template <class T>
  [[nodiscard]] local_slice slice(const T* first, const T* last) const& {
    return checked(range_of(first, last));
  }
  template <class T>
  local_slice slice(const T* first, const T* last) const&& = delete;
  /// Returns `count` elements of type T from element `index`, counted from the first byte.
  /// Precondition: the elements are inside the region, and `count` is not 0.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] local_slice element(std::size_t index, std::size_t count = 1) const& {
    return checked(detail::range_of_elements(index, count, sizeof(T)));
  }
  template <class T>
  local_slice element(std::size_t index, std::size_t count = 1) const&& = delete;

  /// Returns the part of `part_length` bytes at `offset`, or an error.
  ///
  /// Errors: `invalid_argument` if the part is empty, longer than local_slice::max_length, or
  /// exceeds the region.
  [[nodiscard]] result<local_slice> try_slice(std::size_t offset, std::size_t part_length) const& {
    return tried({offset, part_length});
  }
  result<local_slice> try_slice(std::size_t offset, std::size_t part_length) const&& = delete;
  /// Returns the slice of `part`, or an error. Errors: those of try_slice(offset, part_length).
  [[nodiscard]] result<local_slice> try_slice(std::span<const std::byte> part) const& {
    return tried(range_of(part.data(), part.data() + part.size()));
  }
  result<local_slice> try_slice(std::span<const std::byte> part) const&& = delete;
  /// Returns the slice of the memory [first, last), or an error. Errors: those of
  /// try_slice(offset, part_length).
  template <class T>
  [[nodiscard]] result<local_slice> try_slice(const T* first, const T* last) const& {
    return tried(range_of(first, last));
  }
  template <class T>
  result<local_slice> try_slice(const T* first, const T* last) const&& = delete;
  /// Returns `count` elements of type T from element `index`, or an error. Errors: those of
  /// try_slice(offset, part_length).
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] result<local_slice> try_element(std::size_t index, std::size_t count = 1) const& {
    return tried(detail::range_of_elements(index, count, sizeof(T)));
  }
  template <class T>
  result<local_slice> try_element(std::size_t index, std::size_t count = 1) const&& = delete;

  /// Returns address, length and rkey, for RDMA and atomic operations of a peer within access().
  [[nodiscard]] remote_region remote() const& {
    VERBENA_CHECK(view_.length != 0, detail::memory_region_state::traits::moved_from);
    return remote_region({.address = view_.base, .length = view_.length, .key = view_.rkey});
  }
  remote_region remote() const&& = delete;

  /// Returns the protection domain of the region.
  [[nodiscard]] protection_domain domain() const;

  /// Deregisters the memory, then frees memory of the library: ibv_dereg_mr(3). If the verb fails,
  /// returns the region with the error. Blocks while an access of a peer is in progress.
  close_result<memory_region> close(call_site where = call_site::here()) &&;

 private:
  friend struct detail::internals;
  memory_region(std::shared_ptr<detail::memory_region_state> state,
                const detail::region_attributes& how) noexcept;

  // Stops the program if an operation of a scope uses the region.
  void check_unused() const {
    if (detail::innermost_user != nullptr && view_.length != 0) [[unlikely]]
      detail::stop_if_in_use({.address = view_.base, .length = view_.length, .key = view_.lkey});
  }

  static constexpr const char* outside = "slice [{}, {}) exceeds the region of {} bytes";

  [[nodiscard]] detail::slice_range range_of(const void* first, const void* last) const noexcept {
    return detail::range_of_pointers(view_.memory, first, last);
  }
  [[nodiscard]] local_slice checked(detail::slice_range part) const {
    VERBENA_CHECK(view_.length != 0, detail::memory_region_state::traits::moved_from);
    detail::check_slice(part, view_.length, outside);
    return {view_.base + part.offset, part.length, view_.lkey};
  }
  [[nodiscard]] result<local_slice> tried(detail::slice_range part) const {
    return detail::try_local_slice(
        {.address = view_.base, .length = view_.length, .key = view_.lkey}, part, outside);
  }

  // The values for the data path, without an indirection through the shared state.
  struct view {
    std::uint64_t base = 0;  // the address of the first byte in work requests
    std::size_t length = 0;
    std::byte* memory = nullptr;  // nullptr for a dma-buf
    bool owned = false;           // the library allocated the memory
    verbena::local_key lkey;
    verbena::remote_key rkey;
    access_flags access;
  };

  view view_;
};

}  // namespace verbena::inline VERBENA_ABI
