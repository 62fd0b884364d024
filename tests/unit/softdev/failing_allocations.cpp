// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/failing_allocations.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbena::softdev::testing {
namespace {

/// Code whose allocations do not fail.
struct code_range {
  std::uintptr_t first = 0;
  std::uintptr_t end = 0;
};

// The C library has no error for these: it ends the process.
code_range loader;           // thread-local storage of libraries loaded by dlopen
code_range exit_of_threads;  // destructors of thread-local objects
std::atomic<bool> allocations_may_fail{false};
std::atomic<std::uint32_t> allocations{0};
std::atomic<std::uint32_t> failing_allocation{0};

bool contains(const code_range& range, const void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return address >= range.first && address < range.end;
}

int find_loader(dl_phdr_info* object, std::size_t /*bytes*/, void* /*unused*/) {
  if (std::strstr(object->dlpi_name, "/ld-linux") == nullptr) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    loader = {object->dlpi_addr + part.p_vaddr, object->dlpi_addr + part.p_vaddr + part.p_memsz};
  }
  return 1;
}

void find_code() {
  dl_iterate_phdr(&find_loader, nullptr);
  constexpr std::uintptr_t most_bytes = 1024;
  const auto first =
      reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, "__cxa_thread_atexit_impl"));
  exit_of_threads = {first, first + most_bytes};
}

}  // namespace

void fail_allocation(std::uint32_t last) {
  find_code();
  allocations = 0;
  failing_allocation = last;
  allocations_may_fail = true;
}

std::uint32_t permit_allocations() {
  allocations_may_fail = false;
  return allocations;
}

bool allocation_fails(const void* caller) {
  if (!allocations_may_fail.load(std::memory_order_relaxed)) return false;
  if (contains(loader, caller) || contains(exit_of_threads, caller)) return false;
  if (allocations.fetch_add(1) + 1 != failing_allocation) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace verbena::softdev::testing

#ifdef VERBENA_FAILS_ALLOCATIONS

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

using verbena::softdev::testing::allocation_fails;

void* malloc(std::size_t bytes) {
  return allocation_fails(__builtin_return_address(0)) ? nullptr : __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  return allocation_fails(__builtin_return_address(0)) ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  return allocation_fails(__builtin_return_address(0)) ? nullptr : __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return allocation_fails(__builtin_return_address(0)) ? nullptr
                                                       : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  void* const memory =
      allocation_fails(__builtin_return_address(0)) ? nullptr : __libc_memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
}

#endif
