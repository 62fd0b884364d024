// SPDX-License-Identifier: MIT
#include "verbena/memory/registered_arena.hpp"

#include <compare>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <mutex>

#include "src/verbs/memory_block.hpp"
#include "src/verbs/memory_region_creation.hpp"

namespace verbena::inline VERBENA_ABI {
namespace detail {

/// The key of a cached registration.
struct cached_part {
  access_flags::mask_type access;
  std::size_t offset;
  std::size_t length;
  friend auto operator<=>(const cached_part&, const cached_part&) = default;
};

struct cached_entry {
  std::shared_ptr<const memory_region> region;
  cached_block* block;
  cached_part of;
};

namespace {

bool open_to_peers(access_flags access) { return !(access & remote_access).empty(); }

}  // namespace

/// One block of memory. The mutex of the cache guards its entries.
struct cached_block {
  std::shared_ptr<cache_state> cache;
  std::shared_ptr<const memory_block> memory;
  std::size_t bytes;
  std::map<cached_part, std::list<cached_entry>::iterator> entries = {};
};

/// The entries, most recently used first. Removed entries are returned, without an allocation: the
/// caller destroys their regions without the lock.
class cache_state {
 public:
  using removed = std::list<cached_entry>;

  cache_state(const protection_domain& of, registered_arena_options limits)
      : domain_(of), limits_(limits) {}

  [[nodiscard]] const protection_domain& domain() const noexcept { return domain_; }

  /// Returns an entry that covers `wanted` and marks it as most recently used, or returns nullptr.
  [[nodiscard]] std::shared_ptr<const memory_region> find(cached_block& block,
                                                          const cached_part& wanted) {
    const std::lock_guard lock(mutex_);
    const auto found = covering(block, wanted);
    ++(found != block.entries.end() ? counts_.hits : counts_.misses);
    if (found == block.entries.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->region;
  }

  /// Adds `region`, unless another thread has added it, and removes entries beyond the limits.
  [[nodiscard]] removed keep(cached_block& block, const cached_part& of,
                             std::shared_ptr<const memory_region> region) {
    removed dropped;
    if (of.length > limits_.max_bytes || limits_.max_entries == 0) return dropped;
    // An entry joins the others when both allocations have succeeded.
    removed added;
    added.push_front({std::move(region), &block, of});
    const std::lock_guard lock(mutex_);
    if (!block.entries.try_emplace(of, added.begin()).second) return dropped;
    entries_.splice(entries_.begin(), added);
    counts_.bytes += of.length;
    while (!entries_.empty() &&
           (entries_.size() > limits_.max_entries || counts_.bytes > limits_.max_bytes)) {
      take_out(std::prev(entries_.end()), dropped);
      ++counts_.evictions;
    }
    return dropped;
  }

  /// Removes all entries of one block.
  [[nodiscard]] removed drop(const cached_block& block) noexcept {
    removed dropped;
    const std::lock_guard lock(mutex_);
    while (!block.entries.empty()) take_out(block.entries.begin()->second, dropped);
    return dropped;
  }

  /// Removes the entries without other users.
  [[nodiscard]] removed drop_unused() {
    removed dropped;
    const std::lock_guard lock(mutex_);
    for (auto each = entries_.begin(); each != entries_.end();) {
      const auto next = std::next(each);
      if (each->region.use_count() == 1) take_out(each, dropped);
      each = next;
    }
    return dropped;
  }

  [[nodiscard]] registered_arena_statistics statistics() {
    const std::lock_guard lock(mutex_);
    auto now = counts_;
    now.entries = entries_.size();
    return now;
  }

 private:
  static std::map<cached_part, std::list<cached_entry>::iterator>::iterator covering(
      cached_block& block, const cached_part& wanted) {
    if (const auto exact = block.entries.find(wanted); exact != block.entries.end()) return exact;
    if (open_to_peers(access_flags::from_mask(wanted.access))) return block.entries.end();
    // The longest entry that begins at the offset, or at the nearest offset before it.
    auto behind = block.entries.upper_bound(
        {wanted.access, wanted.offset, std::numeric_limits<std::size_t>::max()});
    if (behind == block.entries.begin()) return block.entries.end();
    const auto& [at, where] = *--behind;
    const bool covers = at.access == wanted.access && wanted.offset - at.offset <= at.length &&
                        wanted.length <= at.length - (wanted.offset - at.offset);
    return covers ? behind : block.entries.end();
  }

  void take_out(std::list<cached_entry>::iterator which, removed& to) noexcept {
    counts_.bytes -= which->of.length;
    which->block->entries.erase(which->of);
    to.splice(to.end(), entries_, which);
  }

  protection_domain domain_;
  registered_arena_options limits_;
  std::mutex mutex_;
  std::list<cached_entry> entries_;
  registered_arena_statistics counts_;
};

}  // namespace detail

cached_memory::cached_memory(std::shared_ptr<detail::cached_block> block) noexcept
    : block_(std::move(block)), bytes_(block_->memory->data(), block_->bytes) {}

cached_memory::cached_memory(cached_memory&& other) noexcept
    : block_(std::move(other.block_)), bytes_(std::exchange(other.bytes_, {})) {}

cached_memory& cached_memory::operator=(cached_memory&& other) noexcept {
  if (this == &other) return *this;
  free();
  block_ = std::move(other.block_);
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

cached_memory::~cached_memory() { free(); }

void cached_memory::free() noexcept {
  if (block_ != nullptr) static_cast<void>(block_->cache->drop(*block_));
  block_.reset();
}

registered_arena::registered_arena(const protection_domain& domain,
                                   registered_arena_options options)
    : state_(std::make_shared<detail::cache_state>(domain, options)) {}

result<cached_memory> registered_arena::allocate(std::size_t bytes,
                                                 allocate_options options) const {
  const protection_domain& domain = state_->domain();
  if (bytes == 0)
    return error::invalid_argument("registered_arena::allocate", domain.name(),
                                   "0 bytes: allocate at least 1");
  VERBENA_TRY(auto memory, detail::memory_block::allocate(domain.provider(), bytes, options));
  return cached_memory(std::make_shared<detail::cached_block>(state_, std::move(memory), bytes));
}

cached_memory registered_arena::adopt(std::span<std::byte> memory, memory_owner owner) const {
  VERBENA_ASSERT(!memory.empty(), "registered_arena::adopt() of an empty span");
  VERBENA_ASSERT(owner, "registered_arena::adopt() without an owner that keeps the memory");
  return cached_memory(std::make_shared<detail::cached_block>(
      state_, detail::memory_block::adopt(memory, std::make_shared<memory_owner>(std::move(owner))),
      memory.size()));
}

result<cached_registration> registered_arena::registered(const cached_memory& memory,
                                                         std::size_t offset, std::size_t length,
                                                         access_flags access) const {
  VERBENA_ASSERT(memory.block_ != nullptr && memory.block_->cache == state_,
                 "registered() with memory of another arena, or moved-from memory");
  VERBENA_ASSERT(
      length != 0 && offset <= memory.bytes_.size() && length <= memory.bytes_.size() - offset,
      "registered() with a part that is empty or exceeds the memory");
  if (access.contains(access::zero_based))
    return error::invalid_argument("registered_arena::registered", state_->domain().name(),
                                   "an arena does not support access::zero_based: leave it out");
  detail::cached_block& block = *memory.block_;
  const auto begin = memory.bytes_.data();
  if (auto found = state_->find(block, {access.mask(), offset, length}); found != nullptr) {
    const auto skipped = offset - static_cast<std::size_t>(found->bytes().data() - begin);
    return cached_registration(std::move(found), skipped, length);
  }
  VERBENA_TRY(auto made,
              detail::register_part(state_->domain(), memory.bytes_.subspan(offset, length), access,
                                    block.memory));
  auto shared = std::make_shared<const memory_region>(std::move(made));
  const auto dropped = state_->keep(block, {access.mask(), offset, length}, shared);
  return cached_registration(std::move(shared), 0, length);
}

void registered_arena::clear() const { static_cast<void>(state_->drop_unused()); }

registered_arena_statistics registered_arena::statistics() const { return state_->statistics(); }

}  // namespace verbena::inline VERBENA_ABI
