// SPDX-License-Identifier: MIT
#include "softdev/host/page_fault.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace verbena::softdev {
namespace {

// The C library's headers are older than these.
constexpr int populate_read = 22;   // MADV_POPULATE_READ
constexpr int populate_write = 23;  // MADV_POPULATE_WRITE

std::uintptr_t page_size() noexcept {
  static const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return size;
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

}  // namespace verbena::softdev
