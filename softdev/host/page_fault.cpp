// SPDX-License-Identifier: MIT
#include "softdev/host/page_fault.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "softdev/core/copy.hpp"
#include "softdev/host/memory_faults.hpp"

namespace verbena::softdev {
namespace {

// The headers of the C library may not have these values.
constexpr int populate_read = 22;   // MADV_POPULATE_READ
constexpr int populate_write = 23;  // MADV_POPULATE_WRITE

std::uintptr_t page_size() noexcept {
  static const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// Returns whether the page at `address` is mapped. One system call.
bool is_mapped(std::byte* address) noexcept {
  unsigned char resident = 0;
  const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(address) & ~(page_size() - 1);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a page, which is no object
  return mincore(reinterpret_cast<void*>(page), 1, &resident) == 0 || errno != ENOMEM;
}

// Returns false if the page at `address` is known to be read-only. One system call.
bool may_be_written(std::byte* address) noexcept {
  return fault_in(address, 1, true) || errno != EINVAL || !can_fault_in();
}

}  // namespace

bool fault_in(std::byte* first, std::uint64_t bytes, bool for_writing) noexcept {
  if (bytes == 0) return true;
  const std::uintptr_t page = page_size();
  const auto begin = reinterpret_cast<std::uintptr_t>(first);
  const std::uintptr_t start = begin & ~(page - 1);
  if (bytes > ~std::uintptr_t{0} - begin - page)
    return false;  // the kernel's half of the addresses
  const std::uintptr_t end = (begin + bytes + page - 1) & ~(page - 1);
  int done = 0;
  do {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a page, which is no object
    done = madvise(reinterpret_cast<void*>(start), end - start,
                   for_writing ? populate_write : populate_read);
  } while (done != 0 && errno == EINTR);
  return done == 0;
}

bool can_fault_in() noexcept {
  static std::byte ours{};
  static const bool known = fault_in(&ours, 1, true);
  return known;
}

bool ends_are_accessible(std::byte* first, std::uint64_t bytes, bool for_writing) noexcept {
  const std::uintptr_t last = reinterpret_cast<std::uintptr_t>(first) + (bytes - 1);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the memory need not be an object
  const std::array<std::byte*, 2> ends = {first, reinterpret_cast<std::byte*>(last)};
#if defined(__x86_64__)
  catch_memory_faults();
  if (memory_faults_are_caught()) {
    for (std::byte* const end : ends)
      if (!(for_writing ? touch_to_write(end) : touch_to_read(end))) return false;
    return true;
  }
#endif
  const std::uintptr_t differing_bits = reinterpret_cast<std::uintptr_t>(first) ^ last;
  for (std::byte* const end : ends) {
    if (!is_mapped(end) || (for_writing && !may_be_written(end))) return false;
    if (differing_bits < page_size()) break;  // both ends are in one page
  }
  return true;
}

}  // namespace verbena::softdev
