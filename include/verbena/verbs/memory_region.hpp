// SPDX-License-Identifier: MIT
// Memory that the device may access.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/call_site.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/close_result.hpp"
#include "verbena/verbs/detail/flights.hpp"
#include "verbena/verbs/detail/handle.hpp"
#include "verbena/verbs/detail/states.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

class protection_domain;

namespace detail {

class memory_block;  // memory that the library allocated
template <>
struct native_traits<ibv_mr> {
  static constexpr auto destroy = &sys::verbs_table::dereg_mr;
  static constexpr const char* moved_from = "a moved-from memory_region must not be used";
  static constexpr const char* in_use = "memory windows are still bound to it";
  using watched = watched_region;
};
struct memory_region_parents {
  std::shared_ptr<protection_domain_state> pd;
  std::shared_ptr<const memory_block> memory;  ///< null when the memory is the caller's
};
using memory_region_state = native_state<ibv_mr, memory_region_parents>;

}  // namespace detail

/// Registered memory, made by protection_domain::allocate() (the library's memory) or
/// register_memory() (the caller's). Move-only: the last owner deregisters, and only then is memory
/// of the library freed. No work request that names the region may be outstanding by then.
///
/// Threads: one thread at a time; the bytes are shared with the device and perhaps with peers.
class [[nodiscard]] memory_region : public detail::handle<detail::memory_region_state> {
 public:
  /// Takes over the region of `other`, which must not be used afterwards.
  memory_region(memory_region&& other) noexcept
      : handle(static_cast<handle&&>(other)), view_(std::exchange(other.view_, {})) {}
  /// Drops its own region and takes over that of `other`, which must not be used afterwards.
  memory_region& operator=(memory_region&& other) noexcept {
    handle::operator=(static_cast<handle&&>(other));
    view_ = std::exchange(other.view_, {});
    return *this;
  }
  memory_region(const memory_region&) = delete;
  memory_region& operator=(const memory_region&) = delete;
  ~memory_region() = default;

  /// A region made by the C API from `pd`, whose memory is the caller's; `rights` are those it was
  /// registered with, `base_address` the `iova` if it was given one. `region` must be of `pd`.
  [[nodiscard]] static memory_region adopt(ibv_mr* region, const protection_domain& pd,
                                           access_flags rights, ownership owner,
                                           std::optional<std::uint64_t> base_address = {});

  /// The memory, when the library allocated it. Reading it while the device or a peer writes it, or
  /// writing it while they read it, is a data race that only the protocol between you can exclude.
  /// Precondition: owns_memory().
  [[nodiscard]] std::span<std::byte> bytes() const {
    VERBENA_ASSERT(owns_memory(), "bytes() is for memory that the library allocated");
    return {view_.memory, view_.length};
  }
  /// True when the library allocated the memory; false when it is the caller's.
  [[nodiscard]] bool owns_memory() const noexcept { return view_.memory != nullptr; }
  /// Bytes of the region.
  [[nodiscard]] std::size_t length() const noexcept { return view_.length; }

  /// The key that work requests here name it by.
  [[nodiscard]] verbena::local_key local_key() const noexcept { return view_.lkey; }
  /// The key that peers name it by.
  [[nodiscard]] verbena::remote_key remote_key() const noexcept { return view_.rkey; }
  /// What it was registered with.
  [[nodiscard]] access_flags rights() const noexcept { return view_.rights; }

  /// The whole region, for work requests. Precondition: length() <= local_slice::max_length.
  [[nodiscard]] local_slice slice() const {
    VERBENA_CHECK(view_.length != 0, detail::memory_region_state::traits::moved_from);
    return {view_.base, view_.length, view_.lkey};
  }
  /// The part of `part_length` bytes at `offset`. Precondition: it lies inside, and is not empty.
  [[nodiscard]] local_slice slice(std::size_t offset, std::size_t part_length) const {
    VERBENA_CHECK(view_.length != 0, detail::memory_region_state::traits::moved_from);
    VERBENA_ASSERT(offset <= view_.length && part_length <= view_.length - offset,
                   "a slice lies inside its memory region");
    return {view_.base + offset, part_length, view_.lkey};
  }
  /// What a peer needs to reach the region, as far as rights() let it.
  [[nodiscard]] remote_region remote() const {
    VERBENA_CHECK(view_.length != 0, detail::memory_region_state::traits::moved_from);
    return remote_region({.address = view_.base, .length = view_.length, .key = view_.rkey});
  }

  /// The protection domain that the region belongs to.
  [[nodiscard]] protection_domain domain() const;

  /// Deregisters now, then frees memory of the library. Hands the region back when the verb
  /// refuses. Blocks while peers are in the middle of an access.
  close_result<memory_region> close([[maybe_unused]] call_site where = call_site::here()) && {
#ifdef VERBENA_CHECKED
    const detail::closing_place place(where);
#endif
    auto outcome = close_handle(std::move(*this));
    view_ = {};
    return outcome;
  }

 private:
  friend struct detail::internals;
  memory_region(std::shared_ptr<detail::memory_region_state> state, access_flags rights,
                std::optional<std::uint64_t> base_address) noexcept;

  // What the data path needs, without a detour through the shared state.
  struct view {
    std::uint64_t base = 0;  // what the first byte is called; 0 in a zero-based region
    std::size_t length = 0;
    std::byte* memory = nullptr;  // of the library, or nullptr
    verbena::local_key lkey;
    verbena::remote_key rkey;
    access_flags rights;
  };

  view view_;
};

}  // namespace verbena::inline VERBENA_ABI
