// SPDX-License-Identifier: MIT
// Allocations of up to small_limit bytes are runs of pages in chunks, which share the memfd of
// their chunk. Larger allocations and those in huge pages have one memfd each.
#include "softdev/shm/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {

namespace {
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
constexpr std::size_t chunk_bytes = std::size_t{2} << 20;
constexpr std::size_t chunk_pages = chunk_bytes / page_bytes;
constexpr std::size_t small_limit = std::size_t{256} << 10;
constexpr unsigned huge_2mb_flag = 21U << 26;  // MFD_HUGE_2MB, missing in older C libraries

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

std::uintptr_t number(const void* memory) noexcept {
  return reinterpret_cast<std::uintptr_t>(memory);
}

/// Maps a whole memfd; if `where` is given, there, replacing the mapping at that address. Children
/// of fork inherit only these mappings of the device: a program may use its buffers in a child.
void* map_whole(int fd, std::size_t bytes, void* where) noexcept {
  const int flags = where == nullptr ? MAP_SHARED : MAP_SHARED | MAP_FIXED;
  void* base = ::mmap(where, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  return base == MAP_FAILED ? nullptr : base;
}

error shortage(std::size_t bytes) {
  return error::from_errno(ENOMEM, "verbena_soft_allocate", std::to_string(bytes) + " bytes",
                           "there is not enough memory or address space");
}
}  // namespace

/// One memfd. Its destructor retires its id; the registry's mutex must be held.
struct arena_registry::backing {
  backing(arena_registry& registry, std::uint64_t new_id, unique_fd new_fd, std::size_t size)
      : owner(registry), id(new_id), fd(std::move(new_fd)), bytes(size) {}
  ~backing() {
    owner.backings_.erase(id);
    owner.retired_.push_back(id);  // make_backing() has reserved the room
  }
  backing(const backing&) = delete;
  backing& operator=(const backing&) = delete;

  arena_registry& owner;
  std::uint64_t id;
  unique_fd fd;
  std::size_t bytes;
};

/// A mapped memfd that small allocations share.
struct arena_registry::chunk {
  std::shared_ptr<backing> store;
  mapping map;
  std::bitset<chunk_pages> used;

  [[nodiscard]] std::size_t find_run(std::size_t pages) const noexcept {
    std::size_t run = 0;
    for (std::size_t page = 0; page < chunk_pages; ++page) {
      run = used[page] ? 0 : run + 1;
      if (run == pages) return page + 1 - pages;
    }
    return chunk_pages;
  }
  void mark(std::size_t first, std::size_t pages, bool taken) noexcept {
    for (std::size_t page = first; page < first + pages; ++page) used[page] = taken;
  }
};

struct arena_registry::allocation {
  std::size_t bytes = 0;
  pages kind = pages::normal;
  std::shared_ptr<backing> store;
  std::uint64_t offset = 0;     ///< in the memfd
  std::shared_ptr<chunk> home;  ///< of a small allocation
  mapping map;                  ///< of a large allocation
  std::uint32_t uses = 0;
};

arena_registry::arena_registry() = default;

arena_registry::~arena_registry() {
  const std::lock_guard lock(mutex_);
  allocations_.clear();
  chunks_.clear();
}

result<std::shared_ptr<arena_registry::backing>> arena_registry::make_backing(std::size_t bytes,
                                                                              pages kind) {
  const unsigned huge = kind == pages::huge ? MFD_HUGETLB | huge_2mb_flag : 0U;
  unique_fd fd(::memfd_create("verbena-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING | huge));
  if (!fd) return error::from_errno(errno, "memfd_create", "verbena-memory");
  if (auto sized = set_size(fd.get(), bytes, "verbena-memory"); !sized) {
    const int code = sized.error().code();
    if (code != EINVAL && code != EFBIG) return sized.error();
    return error::from_errno(ENOMEM, "ftruncate", "verbena-memory", sized.error().diagnosis());
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return error::from_errno(errno, "fcntl(F_ADD_SEALS)", "verbena-memory");
  }
  // Reserves room for the ids of all backings: a backing is destroyed in destructors, which must
  // not allocate.
  const std::size_t most_retired = retired_.size() + backings_.size() + 1;
  if (retired_.capacity() < most_retired) retired_.reserve(2 * most_retired);
  const std::uint64_t id = next_arena_++;
  auto store = std::make_shared<backing>(*this, id, std::move(fd), bytes);
  backings_.emplace(id, store);
  return store;
}

result<void*> arena_registry::allocate(std::size_t bytes, pages kind) {
  if (bytes == 0) {
    return error::invalid_argument("verbena_soft_allocate", "0 bytes",
                                   "the size must be at least 1 byte");
  }
  if (bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / 2) {
    return shortage(bytes);
  }
  const std::lock_guard lock(mutex_);
  if (kind == pages::normal && bytes <= small_limit) return allocate_small(bytes);
  return allocate_large(bytes, kind);
}

result<std::shared_ptr<arena_registry::chunk>> arena_registry::make_chunk() {
  VERBENA_TRY(auto store, make_backing(chunk_bytes, pages::normal));
  void* base = map_whole(store->fd.get(), chunk_bytes, nullptr);
  if (base == nullptr) return shortage(chunk_bytes);
  auto made = std::make_shared<chunk>();
  made->store = std::move(store);
  made->map = mapping(base, chunk_bytes);
  chunks_.push_back(made);
  return made;
}

result<void*> arena_registry::allocate_small(std::size_t bytes) {
  const std::size_t length = round_up(bytes, page_bytes);
  const std::size_t count = length / page_bytes;
  std::shared_ptr<chunk> home;
  std::size_t first = chunk_pages;
  for (const auto& each : chunks_) {
    first = each->find_run(count);
    if (first == chunk_pages) continue;
    home = each;
    break;
  }
  if (!home) {
    VERBENA_TRY(home, make_chunk());
    first = 0;
  }
  home->mark(first, count, true);
  std::byte* memory = home->map.data() + first * page_bytes;
  allocations_.emplace(number(memory), allocation{.bytes = length,
                                                  .store = home->store,
                                                  .offset = first * page_bytes,
                                                  .home = home,
                                                  .map = {}});
  return static_cast<void*>(memory);
}

result<void*> arena_registry::allocate_large(std::size_t bytes, pages kind) {
  const std::size_t length = round_up(bytes, kind == pages::huge ? huge_page_bytes : page_bytes);
  VERBENA_TRY(auto store, make_backing(length, kind));
  void* base = map_whole(store->fd.get(), length, nullptr);
  if (base == nullptr) {
    if (kind == pages::huge) {
      return error::from_errno(
          ENOMEM, "mmap", "huge pages",
          "there are not enough free huge pages; reserve pages of 2 MiB: sysctl vm.nr_hugepages=N");
    }
    return shortage(length);
  }
  allocation made{.bytes = length, .kind = kind, .store = std::move(store), .home = {}, .map = {}};
  made.map = mapping(base, length);
  allocations_.emplace(number(base), std::move(made));
  return base;
}

int arena_registry::free(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto at = allocations_.find(number(memory));
  if (memory == nullptr || at == allocations_.end()) return EINVAL;
  allocation& gone = at->second;
  if (gone.uses != 0) return EBUSY;
  if (gone.home && gone.store == gone.home->store) {
    // The kernel frees the pages; they read as zeros when they are used again.
    constexpr int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    const int fd = gone.store->fd.get();
    if (::fallocate(fd, mode, static_cast<off_t>(gone.offset), static_cast<off_t>(gone.bytes)) !=
        0) {
      std::memset(memory, 0, gone.bytes);
    }
    gone.home->mark(gone.offset / page_bytes, gone.bytes / page_bytes, false);
  }
  // Pages that were replaced stay marked as used: a process may still write the old ones.
  const std::shared_ptr<chunk> home = gone.home;
  allocations_.erase(at);
  // A count of 2 (`home` and `chunks_`) means that no allocation uses the chunk. The last chunk is
  // kept, even if it is empty.
  if (home && home.use_count() == 2 && chunks_.size() > 1) std::erase(chunks_, home);
  return 0;
}

arena_registry::allocation_map::iterator arena_registry::find(const void* memory) {
  auto at = allocations_.upper_bound(number(memory));
  if (at == allocations_.begin()) return allocations_.end();
  --at;
  return number(memory) - at->first < at->second.bytes ? at : allocations_.end();
}

std::optional<arena_location> arena_registry::acquire(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto at = find(memory);
  if (at == allocations_.end()) return std::nullopt;
  const std::uint64_t inside = number(memory) - at->first;
  if (bytes > at->second.bytes - inside) return std::nullopt;
  ++at->second.uses;
  return arena_location{at->second.store->id, at->second.offset + inside};
}

void arena_registry::release(const void* memory) {
  const std::lock_guard lock(mutex_);
  const auto at = find(memory);
  VERBENA_ASSERT(at != allocations_.end() && at->second.uses != 0,
                 "shareable memory is released as often as it was acquired");
  --at->second.uses;
}

std::optional<arena_registry::allocated_range> arena_registry::range_of(
    const void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = find(memory);
  if (at == allocations_.end()) return std::nullopt;
  return allocated_range{at->first, at->second.bytes};
}

result<arena_registry::replaced> arena_registry::replace_pages(const void* memory) {
  const std::lock_guard lock(mutex_);
  const auto at = find(memory);
  if (at == allocations_.end()) {
    return error::invalid_argument("replace_pages", "memory", "it is not shareable memory");
  }
  allocation& moved = at->second;
  auto made = make_backing(moved.bytes, moved.kind);
  void* copy = made ? map_whole((*made)->fd.get(), moved.bytes, nullptr) : nullptr;
  if (copy == nullptr) {  // no huge pages are left: uses normal ones
    VERBENA_TRY(made, make_backing(moved.bytes, pages::normal));
    copy = map_whole((*made)->fd.get(), moved.bytes, nullptr);
  }
  if (copy == nullptr) return shortage(moved.bytes);
  const mapping second_view(copy, moved.bytes);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the key of the map is the address
  void* base = reinterpret_cast<void*>(at->first);
  std::memcpy(copy, base, moved.bytes);
  if (map_whole((*made)->fd.get(), moved.bytes, base) == nullptr) {
    return error::from_errno(errno, "mmap", "replacement of shareable memory");
  }
  moved.store = *std::move(made);
  moved.offset = 0;
  return replaced{at->first, moved.bytes, moved.store->id, at->first};
}

std::optional<arena_registry::share> arena_registry::share_arena(std::uint64_t arena) const {
  const std::lock_guard lock(mutex_);
  const auto at = backings_.find(arena);
  if (at == backings_.end()) return std::nullopt;
  const auto store = at->second.lock();
  if (!store) return std::nullopt;
  share out{unique_fd(::fcntl(store->fd.get(), F_DUPFD_CLOEXEC, 0)), store->bytes};
  if (!out.fd) return std::nullopt;
  return out;
}

void arena_registry::close_all() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  for (const auto& [id, store] : backings_)
    if (const auto open = store.lock()) open->fd.reset();
}

std::vector<std::uint64_t> arena_registry::take_retired() {
  const std::lock_guard lock(mutex_);
  if (retired_.empty()) return {};
  std::vector<std::uint64_t> next;
  next.reserve(2 * backings_.size());
  next.swap(retired_);
  return next;
}

std::size_t arena_registry::size() const {
  const std::lock_guard lock(mutex_);
  return allocations_.size();
}

}  // namespace verbena::softdev
