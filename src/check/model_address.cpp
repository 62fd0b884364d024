// SPDX-License-Identifier: MIT
// Memory in flight under AddressSanitizer. The sanitizer reports code that accesses a sink before
// its completion. Freed memory is detected at the completion. The sanitizer does not see accesses
// of the device: soft0 copies with code that is not instrumented.
#include "src/check/model.hpp"

#if defined(VERBENA_CHECKED) && defined(VERBENA_ADDRESS_SANITIZER)

#include <sanitizer/asan_interface.h>

#include <cstdint>

namespace verbena::inline VERBENA_ABI::detail::in_flight {
namespace {

constexpr std::uintptr_t granule = 8;
constexpr unsigned char poisoned_by_user = 0xf7;  // asan_internal.h: kAsanUserPoisonedMemoryMagic

struct shadow {
  std::size_t scale = 0;
  std::size_t offset = 0;
  shadow() noexcept { __asan_get_shadow_mapping(&scale, &offset); }
};

// Returns the whole granules inside `range`.
memory_range inside(memory_range range) noexcept {
  return {(range.begin + granule - 1) / granule * granule, range.end / granule * granule};
}

void* at(std::uintptr_t address) noexcept {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): memory is a range
}

__attribute__((no_sanitize("address"))) bool is_ours(std::uintptr_t address,
                                                     const shadow& by) noexcept {
  return *static_cast<const unsigned char*>(at((address >> by.scale) + by.offset)) ==
         poisoned_by_user;
}

}  // namespace

void poison(memory_range sink) noexcept {
  const memory_range part = inside(sink);
  if (part.begin < part.end) __asan_poison_memory_region(at(part.begin), part.end - part.begin);
}

bool unpoison(memory_range sink) noexcept {
  static const shadow by;
  const memory_range part = inside(sink);
  bool all_ours = true;
  for (std::uintptr_t begin = part.begin; begin < part.end;) {
    std::uintptr_t end = begin;
    while (end < part.end && is_ours(end, by)) end += granule;
    if (end != begin) __asan_unpoison_memory_region(at(begin), end - begin);
    if (end < part.end) all_ours = false;
    begin = end + granule;
  }
  return all_ours;
}

bool is_addressable(memory_range range) noexcept {
  return __asan_region_is_poisoned(at(range.begin), range.end - range.begin) == nullptr;
}

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
