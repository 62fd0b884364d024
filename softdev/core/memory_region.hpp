// SPDX-License-Identifier: MIT
// Memory regions: the accesses that each key permits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "softdev/core/failure.hpp"
#include "softdev/core/quarantine.hpp"
#include "softdev/core/region_check.hpp"
#include "softdev/core/spin_lock.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// A registered range. `iova` is the address that work requests use for `base`; with zero_based it
/// is 0. Threads: immutable value.
struct memory_region {
  std::byte* base = nullptr;
  std::uint64_t length = 0;
  std::uint64_t iova = 0;
  access_flags rights;
  domain_id domain{};
  /// Brings in the pages of an access and returns whether they are accessible; nullptr: not needed.
  /// Called with locks of queue pairs held.
  bool (*fault_in)(std::byte* first, std::uint64_t bytes, bool for_writing) = nullptr;
};

/// Finds the regions of a process by key. A key is both lkey and rkey: 32 random bits, unique among
/// the registered regions and the last 1024 that were deregistered.
///
/// Threads: thread-safe. Lookups take no lock; their result is valid while the caller is inside an
/// `access_epoch`. Other functions lock. Only the constructor allocates.
class memory_region_table {
 public:
  memory_region_table();
  ~memory_region_table();
  memory_region_table(const memory_region_table&) = delete;
  memory_region_table& operator=(const memory_region_table&) = delete;

  /// Adds a region and returns its key; 0 if limits::max_regions regions are registered.
  [[nodiscard]] std::uint32_t add(const memory_region& region);
  /// Makes `key` unusable for accesses that begin from now on. Returns false if it is not
  /// registered. The caller waits for earlier accesses (access_epoch::synchronize), then calls
  /// `release`.
  [[nodiscard]] bool invalidate(std::uint32_t key) noexcept;
  /// Puts an invalidated key into quarantine.
  void release(std::uint32_t key) noexcept;
  /// Makes an invalidated key usable again, for another region. The caller has waited as for
  /// `release`.
  void restore(std::uint32_t key, const memory_region& region) noexcept;

  /// Returns the region of `key`, or nullptr.
  [[nodiscard]] const memory_region* find(std::uint32_t key) const noexcept {
    const std::uint32_t number = place_of(key).load() - 1;
    if (number >= limits::max_regions) return nullptr;  // the place is free, or in quarantine
    const slot& found = slots_[number];
    return key != 0 && found.key.load() == key ? &found.region : nullptr;
  }
  /// Checks an access to a region that `find` returned. Returns its first byte, or nullptr if the
  /// access is refused or the region has a `fault_in`.
  [[nodiscard]] static std::byte* reach(const memory_region& region,
                                        const region_access& wanted) noexcept {
    if (!is_permitted(region, wanted) || region.fault_in != nullptr) return nullptr;
    return data_of(region, wanted);
  }
  /// Checks an access and returns its first byte, or nullptr with the failed check in `why`
  /// (`local_…` or `remote_…` reasons). Overflow-safe. The caller must skip accesses of zero
  /// bytes, whose key must not be checked.
  [[nodiscard]] std::byte* check_local(const region_access& wanted, failure& why) const noexcept {
    return check(wanted, why, access_side::local);
  }
  [[nodiscard]] std::byte* check_remote(const region_access& wanted, failure& why) const noexcept {
    return check(wanted, why, access_side::remote);
  }

  [[nodiscard]] std::uint32_t count() const noexcept {
    return count_.load(std::memory_order_relaxed);
  }

 private:
  struct slot {
    std::atomic<std::uint32_t> key;  ///< 0 while accesses are refused
    std::uint32_t given_key;         ///< remains after invalidate(); 0: the slot is free
    std::uint32_t next_free;         ///< 1 + the next free slot
    memory_region region;
  };
  using place = std::atomic<std::uint32_t>;
  [[nodiscard]] place& place_of(std::uint32_t key) const noexcept {
    static_assert((limits::max_regions & (limits::max_regions - 1)) == 0);
    return places_[key & (limits::max_regions * 2 - 1)];
  }
  /// Returns the slot of a key that was added and not released, or nullptr.
  [[nodiscard]] slot* slot_of(std::uint32_t key) const noexcept;
  [[nodiscard]] std::uint32_t unused_key() const;
  [[nodiscard]] static failure reason_of_refusal(const memory_region* region,
                                                 const region_access& wanted,
                                                 access_side side) noexcept;
  [[nodiscard]] static std::byte* data_of(const memory_region& region,
                                          const region_access& wanted) noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the base of a region of everything is null
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(region.base) +
                                        (wanted.address - region.iova));
  }
  [[nodiscard]] std::byte* check(const region_access& wanted, failure& why,
                                 access_side side) const noexcept {
    const memory_region* const region = find(wanted.key);
    if (region == nullptr || !is_permitted(*region, wanted)) [[unlikely]] {
      why = reason_of_refusal(region, wanted, side);
      return nullptr;
    }
    std::byte* const data = data_of(*region, wanted);
    if (data != nullptr && region->fault_in == nullptr) [[likely]]
      return data;
    return check_pages(*region, data, wanted, why, side);
  }
  /// The rest of `check`, for a region that has a `fault_in` and for the null pointer.
  [[nodiscard]] static std::byte* check_pages(const memory_region& region, std::byte* data,
                                              const region_access& wanted, failure& why,
                                              access_side side) noexcept;

  struct free_deleter {
    void operator()(void* memory) const noexcept;
  };
  std::unique_ptr<place[], free_deleter> places_;
  std::unique_ptr<slot[], free_deleter> slots_;
  std::atomic<std::uint32_t> count_{0};
  spin_lock lock_;
  std::uint32_t fresh_slot_ = 0;  ///< the first slot that was never used
  std::uint32_t free_slot_ = 0;   ///< 1 + the slot that was released last; 0: no slot is free
  quarantine quarantine_;         ///< keys of ended registrations
};

/// Remembers the region of the last key. Valid within one access epoch. Threads: thread-bound.
class recent_region {
 public:
  /// Checks an access and returns its first byte. Returns nullptr if the access is refused, or if
  /// memory_region_table::check_local() or check_remote() must check it.
  [[nodiscard]] std::byte* find(const memory_region_table& table,
                                const region_access& wanted) noexcept {
    if (region_ == nullptr || key_ != wanted.key) {
      region_ = table.find(wanted.key);
      key_ = wanted.key;
      if (region_ == nullptr) return nullptr;
    }
    return memory_region_table::reach(*region_, wanted);
  }

 private:
  const memory_region* region_ = nullptr;
  std::uint32_t key_ = 0;
};

}  // namespace verbena::softdev
