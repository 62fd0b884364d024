// SPDX-License-Identifier: MIT
#include "verbena/memory/buffer_pool.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "src/memory/buffer_sharing.hpp"
#include "src/memory/placed_block.hpp"
#include "src/memory/pool_home.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI {
namespace detail {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t cache_line = 64;

// The number of a buffer: the class in the upper bits, the index in the class in the lower.
constexpr unsigned index_bits = 26;
constexpr std::uint32_t index_mask = (1U << index_bits) - 1;
// The number of a buffer of a whole region.
constexpr std::uint32_t whole_region = ~std::uint32_t{0};
static_assert(buffer_pool::max_count <= index_mask);
static_assert(buffer_pool::max_classes <= (1U << (32 - index_bits)));

error refused(const std::string& why) {
  return error::invalid_argument("buffer_pool::create", "buffer pool", why);
}

result<void> check(const std::vector<size_class>& wanted) {
  if (wanted.empty() || wanted.size() > buffer_pool::max_classes)
    return refused("a pool needs 1 to " + std::to_string(buffer_pool::max_classes) +
                   " sizes of buffers, not " + std::to_string(wanted.size()));
  for (const auto& [bytes, count] : wanted) {
    if (bytes == 0 || bytes > local_slice::max_length)
      return refused("a buffer needs 1 to " + std::to_string(local_slice::max_length) +
                     " bytes, not " + std::to_string(bytes));
    if (count == 0 || count > buffer_pool::max_count)
      return refused("a size has 1 to " + std::to_string(buffer_pool::max_count) +
                     " buffers, not " + std::to_string(count));
  }
  return {};
}

}  // namespace

result<pool_layout> lay_out(const std::vector<size_class>& wanted) {
  VERBENA_TRY_VOID(check(wanted));
  pool_layout made;
  for (const auto& [bytes, count] : wanted) {
    const std::size_t unit = bytes >= page ? page : cache_line;
    made.classes.push_back(
        {.bytes = bytes, .stride = (bytes + unit - 1) / unit * unit, .offset = 0, .count = count});
  }
  std::ranges::sort(made.classes, {}, &pool_class::bytes);
  // The class with the largest buffers is first in memory. Each class is then aligned without a
  // gap.
  for (auto each = made.classes.rbegin(); each != made.classes.rend(); ++each) {
    const std::size_t need = each->stride * each->count;  // < 2^59
    if (need > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) - made.bytes)
      return refused("the buffers exceed the address space: use fewer or smaller ones");
    each->offset = made.bytes;
    made.bytes += need;
  }
  return made;
}

pool_home::pool_home(memory_region of, pool_layout cut)
    : region(std::move(of)), owner(nullptr), layout(std::move(cut)), holders(one_handle) {
  domain = region->native()->pd;
  access = region->access();
  for (const auto& each : layout.classes) free.push_back(std::make_unique<free_list>(each.count));
}

pool_home::pool_home(memory_region of, memory_owner kept_alive)
    : region(std::move(of)), owner(std::move(kept_alive)), holders(one_buffer) {
  domain = region->native()->pd;
  access = region->access();
}

pool_home::pool_home(const buffer_home& of, memory_owner kept_alive, std::uint32_t views)
    : buffer_home(of), owner(std::move(kept_alive)), holders(views * one_buffer) {}

pool_home::~pool_home() {
  if (!owner || !region) return;
  auto closed = std::move(*region).close();
  if (closed) return;
  log(log_level::error, "memory of the program is leaked, because it could not be deregistered: " +
                            closed.error().message());
  abandon(std::make_shared<memory_owner>(std::move(owner)));
}

void pool_home::let_go(std::uint64_t count) noexcept {
  if (holders.fetch_sub(count, std::memory_order_acq_rel) == count) delete this;
}

void give_back(buffer_home& home, std::uint32_t number) noexcept {
  auto& owner = static_cast<pool_home&>(home);
  if (number != whole_region) owner.free[number >> index_bits]->push(number & index_mask);
  owner.let_go(pool_home::one_buffer);
}

std::vector<buffer> buffer_sharing::views(const std::shared_ptr<buffer>& of, std::uint32_t count) {
  VERBENA_ASSERT(!of->empty(), empty_buffer);
  std::vector<buffer> made;
  made.reserve(count);
  if (count == 0) return made;
  // The views own the home.
  auto* const home = std::make_unique<pool_home>(*of->home_, memory_owner(of), count).release();
  for (std::uint32_t i = 0; i < count; ++i)
    made.push_back(buffer({.home = home,
                           .memory = of->memory_,
                           .capacity = of->capacity_,
                           .number = whole_region,
                           .lkey = of->local_key(),
                           .rkey = of->remote_key()}));
  return made;
}

}  // namespace detail

buffer buffer::whole(memory_region&& region, memory_owner owner, std::span<std::byte> memory) {
  VERBENA_ASSERT(!region.access().contains(access::zero_based),
                 "a buffer was created from a zero-based region: register the memory without "
                 "access::zero_based");
  VERBENA_ASSERT(region.length() <= local_slice::max_length,
                 "a buffer exceeds 4 GiB - 1 bytes: use several regions");
  // If the allocation fails, the region is destroyed before `owner`, the memory.
  memory_region held = std::move(region);
  auto home = std::make_unique<detail::pool_home>(std::move(held), std::move(owner));
  const memory_region& kept = *home->region;
  home->is_of_program = static_cast<bool>(home->owner);
  home->of_program = memory;
  return buffer({.home = home.release(),
                 .memory = reinterpret_cast<std::byte*>(kept.slice().address()),
                 .capacity = static_cast<std::uint32_t>(kept.length()),
                 .number = detail::whole_region,
                 .lkey = kept.local_key(),
                 .rkey = kept.remote_key()});
}

buffer buffer::of(memory_region&& region) {
  VERBENA_ASSERT(region.owns_memory(),
                 "buffer::of() a region of memory of the program: use buffer::adopt()");
  return whole(std::move(region), nullptr, {});
}

buffer buffer::adopt(memory_region&& region, std::span<std::byte> memory, memory_owner owner) {
  VERBENA_ASSERT(owner, "buffer::adopt() without an owner that keeps the memory");
  VERBENA_ASSERT(memory.empty() || memory.size() == region.length(),
                 "buffer::adopt() of a region and a span of different sizes");
  return whole(std::move(region), std::move(owner), memory);
}

result<buffer_pool> buffer_pool::create(const protection_domain& domain,
                                        const buffer_pool_options& options) {
  if (options.access.contains(access::zero_based))
    return detail::refused("a pool does not support access::zero_based: leave it out");
  VERBENA_TRY(auto layout, detail::lay_out(options.classes));
  VERBENA_TRY(auto region, detail::allocate_region(
                               "buffer_pool::create", domain, {layout.bytes, options.access},
                               {.placement = options.placement, .huge_pages = options.huge_pages}));
  return buffer_pool(new detail::pool_home(std::move(region), std::move(layout)));
}

buffer_pool::buffer_pool(const buffer_pool& other) noexcept : home_(other.home_) {
  if (home_ != nullptr) home_->hold(detail::pool_home::one_handle);
}

buffer_pool::~buffer_pool() {
  if (home_ != nullptr) home_->let_go(detail::pool_home::one_handle);
}

detail::pool_home& buffer_pool::home() const {
  VERBENA_ASSERT(home_ != nullptr, "a moved-from buffer_pool was used");
  return *home_;
}

std::optional<buffer> buffer_pool::take(std::size_t bytes) const {
  detail::pool_home& home = this->home();
  for (std::size_t i = 0; i < home.layout.classes.size(); ++i) {
    const detail::pool_class& each = home.layout.classes[i];
    if (each.bytes < bytes) continue;
    const auto free = home.free[i]->pop();
    if (!free) continue;
    home.hold(detail::pool_home::one_buffer);
    return buffer({.home = &home,
                   .memory = home.region->bytes().data() + each.offset + *free * each.stride,
                   .capacity = static_cast<std::uint32_t>(each.bytes),
                   .number = static_cast<std::uint32_t>(i << detail::index_bits) | *free,
                   .lkey = home.region->local_key(),
                   .rkey = home.region->remote_key()});
  }
  return std::nullopt;
}

std::size_t buffer_pool::largest() const { return home().layout.classes.back().bytes; }

std::size_t buffer_pool::count() const {
  std::size_t sum = 0;
  for (const auto& each : home().layout.classes) sum += each.count;
  return sum;
}

std::size_t buffer_pool::taken() const {
  return home().holders.load(std::memory_order_relaxed) % detail::pool_home::one_handle;
}

std::size_t buffer_pool::registered_bytes() const { return home().region->length(); }

access_flags buffer_pool::access() const { return home().access; }

const ibv_pd* buffer_pool::native_pd() const { return home().domain; }

}  // namespace verbena::inline VERBENA_ABI
