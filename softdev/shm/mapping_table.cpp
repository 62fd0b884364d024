// SPDX-License-Identifier: MIT
#include "softdev/shm/mapping_table.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <new>
#include <utility>

namespace verbena::softdev {

namespace {
constexpr std::size_t window = 16;

std::size_t place_of(std::uint64_t arena) noexcept {
  return static_cast<std::size_t>((arena * 0x9e37'79b9'7f4a'7c15U) >> 54);
}
static_assert(mapping_table::capacity == std::size_t{1} << (64 - 54));

using stage = mapping_table::node::stage;
}  // namespace

mapping_table::mapping_table() : table_(new std::atomic<node*>[capacity]()) {}

mapping_table::~mapping_table() {
  for (std::size_t index = 0; index < capacity; ++index) {
    delete table_[index].load(std::memory_order_relaxed);
  }
}

mapping_table::node* mapping_table::look(std::uint64_t arena) const noexcept {
  const std::size_t first = place_of(arena);
  for (std::size_t step = 0; step < window; ++step) {
    node* at = table_[(first + step) % capacity].load(std::memory_order_seq_cst);
    if (at != nullptr && at->arena == arena) return at;
  }
  return nullptr;
}

mapping_table::found mapping_table::find(std::uint64_t arena, std::uint64_t offset,
                                         std::uint64_t bytes, map_access access) noexcept {
  if (arena == 0) return {};
  node* at = look(arena);
  if (at == nullptr) return {map_status::ask};
  switch (at->at.load(std::memory_order_acquire)) {
    case stage::asked:
      return {map_status::pending};
    case stage::refused:
      return {};
    case stage::ready:
      break;
  }
  if (bytes > at->map.size() || offset > at->map.size() - bytes) return {};
  if (access == map_access::read_write && !at->writable.load(std::memory_order_acquire)) {
    // The mapping becomes writable at the first write: until then a stray store of this process
    // could not change the peer's memory.
    if (::mprotect(at->map.data(), at->map.size(), PROT_READ | PROT_WRITE) != 0) return {};
    at->writable.store(true, std::memory_order_release);
  }
  return {map_status::ready, at->map.data() + offset};
}

bool mapping_table::mark_asked(std::uint64_t arena) {
  if (arena == 0) return false;
  const std::lock_guard lock(mutex_);
  if (look(arena) != nullptr) return false;
  const std::size_t first = place_of(arena);
  for (std::size_t step = 0; step < window; ++step) {
    std::atomic<node*>& place = table_[(first + step) % capacity];
    if (place.load(std::memory_order_relaxed) != nullptr) continue;
    node* const asked = new (std::nothrow) node(arena);
    place.store(asked, std::memory_order_release);
    return asked != nullptr;
  }
  return false;
}

void mapping_table::forget(std::uint64_t arena) { retire(arena); }

bool mapping_table::insert(std::uint64_t arena, unique_fd fd, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  node* at = look(arena);
  if (at == nullptr || at->at.load(std::memory_order_relaxed) != stage::asked) return false;
  const bool sound = bytes != 0 && is_sealed_memory(fd.get(), bytes, sealed_for::everybody) &&
                     (::fcntl(fd.get(), F_GET_SEALS) & F_SEAL_WRITE) == 0;
  if (!sound) {
    at->at.store(stage::refused, std::memory_order_release);
    return false;
  }
  // Maps without MAP_NORESERVE: if huge pages are missing, mmap fails. Otherwise a later access
  // would raise a signal.
  auto map = map_shared(fd.get(), bytes, map_access::read_only);
  if (!map) {
    at->at.store(stage::refused, std::memory_order_release);
    return true;  // a shortage of this process, not an error of the owner
  }
  at->map = *std::move(map);
  at->at.store(stage::ready, std::memory_order_release);
  return true;
}

void mapping_table::refuse(std::uint64_t arena) {
  const std::lock_guard lock(mutex_);
  node* at = look(arena);
  if (at != nullptr && at->at.load(std::memory_order_relaxed) == stage::asked) {
    at->at.store(stage::refused, std::memory_order_release);
  }
}

void mapping_table::retire(std::uint64_t arena) {
  const std::lock_guard lock(mutex_);
  const std::size_t first = place_of(arena);
  for (std::size_t step = 0; step < window; ++step) {
    std::atomic<node*>& place = table_[(first + step) % capacity];
    node* at = place.load(std::memory_order_relaxed);
    if (at == nullptr || at->arena != arena) continue;
    place.store(nullptr, std::memory_order_seq_cst);
    retired_.emplace_back(at);
    has_retired_.store(true, std::memory_order_release);
    return;
  }
}

bool mapping_table::has_retired() const noexcept {
  return has_retired_.load(std::memory_order_acquire);
}

std::vector<std::unique_ptr<mapping_table::node>> mapping_table::take_retired() {
  const std::lock_guard lock(mutex_);
  has_retired_.store(false, std::memory_order_relaxed);
  return std::exchange(retired_, {});
}

}  // namespace verbena::softdev
