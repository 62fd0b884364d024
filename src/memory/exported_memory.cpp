// SPDX-License-Identifier: MIT
#include "verbena/memory/exported_memory.hpp"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/verbs/memory_block.hpp"
#include "src/verbs/memory_region_creation.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The memory and, while access is granted, its registration, which also keeps the memory
/// allocated.
class window_state {
 public:
  window_state(protection_domain of, std::shared_ptr<const memory_block> memory, std::size_t size)
      : domain(std::move(of)), block(std::move(memory)), bytes(size) {}

  protection_domain domain;
  std::shared_ptr<const memory_block> block;
  std::size_t bytes;
  std::optional<memory_region> granted;
};

namespace {

// Calls `whole(offset)` for each aligned word of 8 bytes of `window`, and `single(offset)` for each
// other byte.
template <class Whole, class Single>
void for_each_word(const std::byte* window, std::size_t bytes, Whole whole, Single single) {
  std::size_t done = 0;
  const std::size_t before = (8 - std::bit_cast<std::uintptr_t>(window) % 8) % 8;
  for (; done < bytes && done < before; ++done) single(done);
  for (; bytes - done >= 8; done += 8) whole(done);
  for (; done < bytes; ++done) single(done);
}

template <class Word>
std::atomic_ref<Word> word(const std::byte* at) {
  // C++20 has no atomic_ref of a const type; load() does not write.
  return std::atomic_ref<Word>(*reinterpret_cast<Word*>(const_cast<std::byte*>(at)));
}

}  // namespace

void copy_from_window(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  for_each_word(
      from, bytes,
      [&](std::size_t i) {
        const auto value = word<std::uint64_t>(from + i).load(std::memory_order_acquire);
        std::memcpy(to + i, &value, sizeof value);
      },
      [&](std::size_t i) { to[i] = word<std::byte>(from + i).load(std::memory_order_acquire); });
}

void copy_into_window(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  for_each_word(
      to, bytes,
      [&](std::size_t i) {
        std::uint64_t value = 0;
        std::memcpy(&value, from + i, sizeof value);
        word<std::uint64_t>(to + i).store(value, std::memory_order_release);
      },
      [&](std::size_t i) { word<std::byte>(to + i).store(from[i], std::memory_order_release); });
}

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(window_state& state) noexcept { delete &state; }

window_state& window_base::state() const {
  VERBENA_ASSERT(state_.get() != nullptr, moved_from);
  return *state_;
}

result<window_base> window_base::create(const protection_domain& pd, std::size_t count,
                                        std::size_t size) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (count == 0 || count > most / size)
    return error::invalid_argument(
        "exported_memory::create", pd.name(),
        "the number of elements must be at least 1 and fit into the address space, not " +
            std::to_string(count));
  VERBENA_TRY(auto block, memory_block::allocate(pd.provider(), count * size, {}));
  auto* const memory = block->data();
  auto state = std::make_unique<window_state>(pd, std::move(block), count * size);
  return window_base(state.release(), memory, count);
}

result<remote_region> window_base::grant(access_flags peers) {
  window_state& own = state();
  VERBENA_ASSERT(!own.granted, "grant() of exported_memory that is granted: call revoke() first");
  if (peers.empty() || !remote_access.contains(peers))
    return error::invalid_argument("exported_memory::grant", own.domain.name(),
                                   "grant remote_read, remote_write or remote_atomic and no other "
                                   "access flag, not " +
                                       to_string(peers));
  const bool writes = peers != access_flags(access::remote_read);
  VERBENA_TRY(auto region, register_part(own.domain, {own.block->data(), own.bytes},
                                         writes ? peers | access::local_write : peers, own.block));
  own.granted.emplace(std::move(region));
  return own.granted->remote();
}

result<void> window_base::check_index(std::size_t index, const char* call) const {
  if (index < count_) return {};
  return error::invalid_argument(call, {},
                                 "element " + std::to_string(index) +
                                     " exceeds the exported memory of " + std::to_string(count_) +
                                     " elements");
}

result<void> window_base::revoke() {
  window_state& own = state();
  if (!own.granted) return {};
  auto closed = std::move(*own.granted).close();
  if (closed) {
    own.granted.reset();
    return {};
  }
  auto why = closed.error();
  own.granted.emplace(std::move(closed).object());
  return why;
}

bool window_base::granted() const { return state().granted.has_value(); }

}  // namespace verbena::inline VERBENA_ABI::detail
