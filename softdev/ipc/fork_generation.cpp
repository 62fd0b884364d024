// SPDX-License-Identifier: MIT
#include "softdev/ipc/fork_generation.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace verbena::softdev {
namespace {

// Used if MADV_WIPEONFORK fails. Then only the pthread_atfork handler detects a child.
std::uint32_t ordinary_word = 0;
std::uint32_t* word = &ordinary_word;
std::atomic<std::uint32_t> last_generation{0};

void forget_in_child() { *word = 0; }

// Runs when the library is loaded, before other constructors. A function-local static could still
// be in construction in the parent when another thread forks, and its guard would block the child.
[[gnu::constructor(101)]] void set_up() noexcept {
  const long page = sysconf(_SC_PAGESIZE);
  const auto bytes = static_cast<std::size_t>(page > 0 ? page : 4096);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED && madvise(memory, bytes, MADV_WIPEONFORK) == 0) {
    word = static_cast<std::uint32_t*>(memory);
    detail::generation_word = word;
  }
  pthread_atfork(nullptr, nullptr, &forget_in_child);
}

}  // namespace

namespace detail {
const volatile std::uint32_t* generation_word = &ordinary_word;
}  // namespace detail

std::uint32_t current_generation() noexcept {
  // The number is set without a lock: a child of fork could inherit a lock that none of its threads
  // releases. If two first calls run at once, they agree on one number.
  const std::atomic_ref<std::uint32_t> here(*word);
  std::uint32_t seen = here.load();
  if (seen != 0) return seen;
  const std::uint32_t next = last_generation.fetch_add(1) + 1;
  return here.compare_exchange_strong(seen, next) ? next : seen;
}

}  // namespace verbena::softdev
