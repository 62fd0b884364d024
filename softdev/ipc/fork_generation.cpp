// SPDX-License-Identifier: MIT
#include "softdev/ipc/fork_generation.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace verbena::softdev {
namespace {

// Stands in when the kernel gives no page: then pthread_atfork alone tells a child.
std::uint32_t ordinary_word = 0;
std::uint32_t* word = &ordinary_word;
std::atomic<std::uint32_t> last_generation{0};

void forget_in_child() { *word = 0; }

void set_up() noexcept {
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
  // A fork while another thread is in here is the program's data race: the child would see a lock
  // of a thread that it does not have. So there is none; two first calls agree on the number.
  static const bool ready = (set_up(), true);
  static_cast<void>(ready);
  const std::atomic_ref<std::uint32_t> here(*word);
  std::uint32_t seen = here.load();
  if (seen != 0) return seen;
  const std::uint32_t next = last_generation.fetch_add(1) + 1;
  return here.compare_exchange_strong(seen, next) ? next : seen;
}

}  // namespace verbena::softdev
