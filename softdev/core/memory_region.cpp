// SPDX-License-Identifier: MIT
// A key is random, and its low bits are its place in a table of slot numbers. A new key is drawn
// until its place is free, so that a lookup needs no search and no lock. Slots are reused in the
// reverse order of their release: the first access to new memory costs a page fault, which takes
// longer than a registration.
#include "softdev/core/memory_region.hpp"

#include <cstdlib>
#include <mutex>
#include <new>

#include "verbena/base/assert.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev {
namespace {
constexpr std::uint32_t places = limits::max_regions * 2;
/// The word of a place whose key must not be used yet. (0: a free place; i + 1: slot i.)
constexpr std::uint32_t in_quarantine = ~0U;

/// Allocates zeroed memory. Pages that are never accessed use no memory.
template <class T>
T* make_zeroed(std::size_t count) {
  void* const memory = std::calloc(count, sizeof(T));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

bool writes(access_flags needed) noexcept {
  return !(needed & (access_flags(access::local_write) | access_flags(access::remote_write) |
                     access_flags(access::remote_atomic)))
              .empty();
}
}  // namespace

void memory_region_table::free_deleter::operator()(void* memory) const noexcept {
  std::free(memory);
}

memory_region_table::memory_region_table()
    : places_(make_zeroed<place>(places)), slots_(make_zeroed<slot>(limits::max_regions)) {}
memory_region_table::~memory_region_table() = default;

memory_region_table::slot* memory_region_table::slot_of(std::uint32_t key) const noexcept {
  const std::uint32_t number = place_of(key).load(std::memory_order_relaxed) - 1;
  if (key == 0 || number >= limits::max_regions) return nullptr;
  slot& found = slots_[number];
  return found.given_key == key ? &found : nullptr;
}

std::uint32_t memory_region_table::unused_key() const {
  for (;;) {
    const std::uint32_t key = random_u32();
    if (key != 0 && key != ~0U && place_of(key).load(std::memory_order_relaxed) == 0) return key;
  }
}

std::uint32_t memory_region_table::add(const memory_region& region) {
  const std::lock_guard lock(lock_);
  if (count_.load(std::memory_order_relaxed) >= limits::max_regions) return 0;
  const std::uint32_t key = unused_key();
  const bool reused = free_slot_ != 0;
  const std::uint32_t number = reused ? free_slot_ - 1 : fresh_slot_++;
  slot& taken = slots_[number];
  if (reused) free_slot_ = taken.next_free;
  taken.given_key = key;
  taken.region = region;
  taken.key.store(key);
  place_of(key).store(number + 1);
  count_.fetch_add(1, std::memory_order_relaxed);
  return key;
}

bool memory_region_table::invalidate(std::uint32_t key) noexcept {
  const std::lock_guard lock(lock_);
  slot* const found = slot_of(key);
  if (found == nullptr || found->key.load() != key) return false;
  found->key.store(0);
  return true;
}

void memory_region_table::release(std::uint32_t key) noexcept {
  const std::lock_guard lock(lock_);
  slot* const found = slot_of(key);
  VERBENA_ASSERT(found != nullptr && found->key.load() == 0,
                 "a key is invalidated before it is released");
  count_.fetch_sub(1, std::memory_order_relaxed);
  found->given_key = 0;
  found->next_free = free_slot_;
  free_slot_ = static_cast<std::uint32_t>(found - slots_.get()) + 1;
  place_of(key).store(in_quarantine, std::memory_order_relaxed);
  if (const auto oldest = quarantine_.add(key))
    place_of(*oldest).store(0, std::memory_order_relaxed);
}

void memory_region_table::restore(std::uint32_t key, const memory_region& region) noexcept {
  const std::lock_guard lock(lock_);
  slot* const found = slot_of(key);
  VERBENA_ASSERT(found != nullptr && found->key.load() == 0,
                 "a key is invalidated before it is reused");
  found->region = region;
  found->key.store(key);
}

failure memory_region_table::reason_of_refusal(const memory_region* region,
                                               const region_access& wanted,
                                               access_side side) noexcept {
  if (region == nullptr) return check_region(nullptr, wanted, side);
  const region_view view{.domain = region->domain,
                         .iova = region->iova,
                         .length = region->length,
                         .rights = region->rights};
  return check_region(&view, wanted, side);
}

std::byte* memory_region_table::check_pages(const memory_region& region, std::byte* data,
                                            const region_access& wanted, failure& why,
                                            access_side side) noexcept {
  const auto refuse = [&](reason local) -> std::byte* {
    why = {.why = reason_at(side, local),
           .key = wanted.key,
           .address = wanted.address,
           .length = wanted.length,
           .base = region.iova,
           .limit = region.length};
    return nullptr;
  };
  if (data == nullptr)
    return refuse(reason::local_range);  // a null pointer in a region of all addresses
  if (region.fault_in != nullptr && !region.fault_in(data, wanted.length, writes(wanted.needed)))
    return refuse(reason::local_not_mapped);
  return data;
}

}  // namespace verbena::softdev
