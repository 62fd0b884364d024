// SPDX-License-Identifier: MIT
// A key is random, and its low bits are its place in the table: a new key is drawn until its place
// is free, so that a lookup is one access and needs no lock.
#include "softdev/core/memory_region.hpp"

#include <cstdlib>
#include <mutex>
#include <new>

#include "verbena/base/assert.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev {
namespace {

bool writes(access_flags needed) noexcept {
  return !(needed & (access_flags(access::local_write) | access_flags(access::remote_write) |
                     access_flags(access::remote_atomic)))
              .empty();
}
}  // namespace

void memory_region_table::free_deleter::operator()(slot* slots) const noexcept { std::free(slots); }

// calloc: places that are never used are never touched.
memory_region_table::memory_region_table()
    : slots_(static_cast<slot*>(std::calloc(places_, sizeof(slot)))) {
  if (!slots_) throw std::bad_alloc();
}
memory_region_table::~memory_region_table() = default;

std::uint32_t memory_region_table::add(const memory_region& region) {
  const std::lock_guard lock(lock_);
  if (count_.load(std::memory_order_relaxed) >= limits::max_regions) return 0;
  for (;;) {
    const std::uint32_t key = random_u32();
    slot& place = slot_of(key);
    if (key == 0 || key == ~0U || place.taken || place.last_key == key) continue;
    place.taken = true;
    place.last_key = key;
    place.region = region;
    place.key.store(key);
    count_.fetch_add(1, std::memory_order_relaxed);
    return key;
  }
}

bool memory_region_table::invalidate(std::uint32_t key) noexcept {
  const std::lock_guard lock(lock_);
  slot& place = slot_of(key);
  if (key == 0 || place.key.load() != key) return false;
  place.key.store(0);
  return true;
}

void memory_region_table::release(std::uint32_t key) noexcept {
  const std::lock_guard lock(lock_);
  const slot& place = slot_of(key);
  VERBENA_ASSERT(place.taken && place.last_key == key && place.key.load() == 0,
                 "a key is invalidated before it is released");
  count_.fetch_sub(1, std::memory_order_relaxed);
  if (const auto oldest = quarantine_.add(key)) slot_of(*oldest).taken = false;
}

void memory_region_table::restore(std::uint32_t key, const memory_region& region) noexcept {
  const std::lock_guard lock(lock_);
  slot& place = slot_of(key);
  VERBENA_ASSERT(place.taken && place.last_key == key && place.key.load() == 0,
                 "a key is invalidated before it is reused");
  place.region = region;
  place.key.store(key);
}

const memory_region* memory_region_table::find(std::uint32_t key) const noexcept {
  const slot& place = slot_of(key);
  return key != 0 && place.key.load() == key ? &place.region : nullptr;
}

std::byte* memory_region_table::check(const region_access& wanted, failure& why,
                                      access_side side) const noexcept {
  const memory_region* const region = find(wanted.key);
  if (region == nullptr) {
    why = check_region(nullptr, wanted, side);
    return nullptr;
  }
  const region_view view{.domain = region->domain,
                         .iova = region->iova,
                         .length = region->length,
                         .rights = region->rights};
  if (!permits(view, wanted)) {
    why = check_region(&view, wanted, side);
    return nullptr;
  }
  const auto refuse = [&](reason local) -> std::byte* {
    why = {.why = reason_at(side, local),
           .key = wanted.key,
           .address = wanted.address,
           .length = wanted.length,
           .base = region->iova,
           .limit = region->length};
    return nullptr;
  };
  const std::uintptr_t first =
      reinterpret_cast<std::uintptr_t>(region->base) + (wanted.address - region->iova);
  if (first == 0) return refuse(reason::local_range);  // a region of everything has no byte there
  auto* const data = reinterpret_cast<std::byte*>(first);
  if (region->fault_in != nullptr && !region->fault_in(data, wanted.length, writes(wanted.needed)))
    return refuse(reason::local_not_mapped);
  return data;
}

}  // namespace verbena::softdev
