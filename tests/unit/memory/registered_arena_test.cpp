// SPDX-License-Identifier: MIT
#include "verbena/memory/registered_arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/allocations.hpp"
#include "tests/unit/verbs/counting_provider.hpp"
#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena {
namespace {

using testing_support::counting_provider;
using testing_support::expect_error;
using testing_support::log_catcher;
using testing_support::open_soft;

constexpr access_flags local = access::local_write;
constexpr access_flags remote = access::local_write | access::remote_read;

class registered_arenas : public ::testing::Test {
 protected:
  /// Returns the number of existing objects that the verb `maker` created.
  [[nodiscard]] std::size_t live(std::string_view maker) const {
    std::size_t count = 0;
    const std::string all = counting.live();
    for (auto at = all.find(maker); at != std::string::npos; at = all.find(maker, at + 1)) ++count;
    return count;
  }
  [[nodiscard]] std::size_t regions() const { return live("ibv_reg_mr"); }

  counting_provider counting{*soft_provider().value()};
  failing_provider failing{counting.get()};
  protection_domain pd = open_soft(failing.get()).value().allocate_pd().value();
};

#ifdef VERBENA_COUNTS_ALLOCATIONS
// The last two allocations are those of the entry.
TEST_F(registered_arenas, failed_allocation_leaves_no_entry) {
  const registered_arena cache(pd);
  const auto memory = cache.allocate(10000).value();
  static_cast<void>(cache.registered(memory, 0, 60, local).value());
  cache.clear();
  const std::size_t before = test::allocations;
  const auto kept = cache.registered(memory, 0, 50, local).value();
  const std::size_t needed = test::allocations - before;
  const auto fail_at = [&](std::size_t nth) {
    test::failing_allocation = test::allocations + nth;
    const auto made = cache.registered(memory, 100, 100, local);
    test::failing_allocation = 0;
    return made.has_value();
  };
  EXPECT_THROW(static_cast<void>(fail_at(needed)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(fail_at(needed - 1)), std::bad_alloc);
  test::failing_allocation = 0;
  EXPECT_EQ(cache.statistics().entries, 1U);
  EXPECT_EQ(cache.statistics().bytes, 50U);
  EXPECT_EQ(regions(), 1U);
}
#endif

TEST_F(registered_arenas, second_request_uses_the_first_registration) {
  const registered_arena cache(pd);
  const auto memory = cache.allocate(10000).value();
  EXPECT_EQ(memory.bytes().size(), 10000U);
  EXPECT_EQ(regions(), 0U);
  const auto first = cache.registered(memory, 100, 500, local).value();
  const auto again = cache.registered(memory, 100, 500, local).value();
  EXPECT_EQ(regions(), 1U);
  EXPECT_EQ(first.slice().key(), again.slice().key());
  const auto address = reinterpret_cast<std::uintptr_t>(memory.bytes().data());
  EXPECT_EQ(again.slice().address(), address + 100);
  EXPECT_EQ(again.slice().length(), 500U);
  EXPECT_EQ(again.slice(20, 7).address(), address + 120);
  EXPECT_EQ(again.access(), local);
  const auto now = cache.statistics();
  EXPECT_EQ(now.hits, 1U);
  EXPECT_EQ(now.misses, 1U);
  EXPECT_EQ(now.evictions, 0U);
  EXPECT_EQ(now.entries, 1U);
  EXPECT_EQ(now.bytes, 500U);
}

TEST_F(registered_arenas, longer_registration_is_reused_without_remote_access) {
  const registered_arena cache(pd);
  const auto memory = cache.allocate(10000).value();
  const auto whole = cache.registered(memory, 1000, 5000, local).value();
  const auto inside = cache.registered(memory, 1500, 4500, local).value();
  EXPECT_EQ(inside.slice().key(), whole.slice().key());
  EXPECT_EQ(inside.slice().address(), whole.slice().address() + 500);
  EXPECT_EQ(inside.slice().length(), 4500U);
  EXPECT_NE(cache.registered(memory, 1500, 4501, local)->slice().key(), whole.slice().key());
  EXPECT_NE(cache.registered(memory, 999, 10, local)->slice().key(), whole.slice().key());
  EXPECT_NE(cache.registered(memory, 1000, 5000, {})->slice().key(), whole.slice().key());
  // The rkey of a longer registration would permit more access than requested.
  const auto open = cache.registered(memory, 1000, 5000, remote).value();
  const auto part = cache.registered(memory, 1500, 100, remote).value();
  EXPECT_NE(part.remote().key(), open.remote().key());
  EXPECT_EQ(part.remote().length(), 100U);
  EXPECT_EQ(cache.registered(memory, 1500, 100, remote)->remote(), part.remote());
  const auto now = cache.statistics();
  EXPECT_EQ(now.hits, 2U);
  EXPECT_EQ(now.misses, 6U);
}

TEST_F(registered_arenas, adopted_memory_is_freed_once_after_its_last_registration) {
  std::vector<std::byte> bytes(8192);
  int freed = 0;
  std::shared_ptr<const void> owner(bytes.data(), [&](const void*) { ++freed; });
  const registered_arena cache(pd);
  std::optional<cached_memory> memory(cache.adopt(bytes, std::move(owner)));
  EXPECT_EQ(memory->bytes().data(), bytes.data());
  std::optional<cached_registration> part(cache.registered(*memory, 100, 1000, local).value());
  EXPECT_EQ(part->slice().address(), reinterpret_cast<std::uintptr_t>(bytes.data()) + 100);
  EXPECT_EQ(cache.registered(*memory, 200, 100, local)->slice().key(), part->slice().key());
  memory.reset();
  EXPECT_EQ(freed, 0);
  part.reset();
  EXPECT_EQ(freed, 1);
}

TEST_F(registered_arenas, least_recently_used_registration_is_evicted) {
  const registered_arena cache(pd, {.max_entries = 3, .max_bytes = 1000});
  const auto memory = cache.allocate(5000).value();
  const auto use = [&](std::size_t offset, std::size_t length) {
    const auto part = cache.registered(memory, offset, length, local).value();
    return part.slice().key();
  };
  const auto hit = [&](std::size_t offset, std::size_t length) {
    const auto before = cache.statistics().hits;
    use(offset, length);
    return cache.statistics().hits != before;
  };
  use(0, 100);
  use(1000, 100);
  use(2000, 100);
  EXPECT_TRUE(hit(0, 100));
  use(3000, 100);  // evicts the registration at 1000
  EXPECT_EQ(regions(), 3U);
  EXPECT_EQ(cache.statistics().evictions, 1U);
  EXPECT_TRUE(hit(0, 100) && hit(2000, 100) && hit(3000, 100));
  use(4000, 850);  // evicts the registrations at 0 and 2000
  EXPECT_EQ(regions(), 2U);
  EXPECT_EQ(cache.statistics().bytes, 950U);
  EXPECT_TRUE(hit(3000, 100));
  EXPECT_FALSE(hit(0, 40));
  // A registration beyond the limit is not cached, and evicts no other.
  EXPECT_FALSE(hit(1000, 1001));
  EXPECT_FALSE(hit(1000, 1001));
  EXPECT_EQ(regions(), 3U);
  EXPECT_EQ(cache.statistics().evictions, 3U);
}

TEST_F(registered_arenas, held_registration_is_kept) {
  const registered_arena cache(pd, {.max_entries = 1});
  const auto memory = cache.allocate(5000).value();
  auto held = std::make_optional(cache.registered(memory, 0, 100, local).value());
  auto copy = held;
  static_cast<void>(cache.registered(memory, 1000, 100, local).value());
  EXPECT_EQ(cache.statistics().entries, 1U);
  EXPECT_EQ(regions(), 2U);
  held.reset();
  EXPECT_EQ(regions(), 2U);
  EXPECT_EQ(copy->slice().length(), 100U);
  copy.reset();
  EXPECT_EQ(regions(), 1U);
  const auto again = cache.registered(memory, 1000, 100, local).value();
  cache.clear();
  EXPECT_EQ(cache.statistics().entries, 1U);
  static_cast<void>(cache.registered(memory, 3000, 100, local).value());
  cache.clear();
  EXPECT_EQ(cache.statistics().entries, 0U);
  EXPECT_EQ(regions(), 1U);
}

TEST_F(registered_arenas, deregister_before_memory_is_freed) {
  const registered_arena cache(pd);
  auto memory = std::make_optional(cache.allocate(5000).value());
  const auto other = cache.allocate(5000).value();
  for (std::size_t i = 0; i < 5; ++i)
    static_cast<void>(cache.registered(*memory, i * 1000, 1000, local).value());
  static_cast<void>(cache.registered(other, 0, 5000, local).value());
  EXPECT_EQ(regions(), 6U);
  EXPECT_EQ(live("memory"), 2U);
  memory.reset();
  EXPECT_EQ(regions(), 1U);
  EXPECT_EQ(live("memory"), 1U);
  EXPECT_EQ(cache.statistics().entries, 1U);
  EXPECT_EQ(cache.statistics().bytes, 5000U);
  EXPECT_EQ(cache.statistics().evictions, 0U);
}

// Memory is freed and its addresses are allocated again: the cache must not return the old
// registration for the new memory.
TEST_F(registered_arenas, reused_addresses_are_registered_again) {
  const registered_arena cache(pd);
  bool came_back = false;
  for (int round = 0; round < 50; ++round) {
    auto memory = std::make_optional(cache.allocate(100000).value());
    const auto* const address = memory->bytes().data();
    auto old = std::make_optional(cache.registered(*memory, 0, 100000, local).value());
    const bool held = round % 2 == 0;
    if (!held) old.reset();
    memory.reset();
    const auto next = cache.allocate(100000).value();
    if (held) {
      EXPECT_NE(next.bytes().data(), address) << "a registered block was allocated again";
    }
    came_back = came_back || next.bytes().data() == address;
    const auto misses = cache.statistics().misses;
    static_cast<void>(cache.registered(next, 0, 100000, local).value());
    EXPECT_EQ(cache.statistics().misses, misses + 1);
  }
  EXPECT_EQ(regions(), 0U);
  EXPECT_TRUE(came_back) << "no address was reused, so the test has no result";
}

TEST_F(registered_arenas, memory_is_kept_for_copies_and_failed_deregistrations) {
  std::optional<cached_registration> held;
  {
    const registered_arena cache(pd);
    const auto memory = cache.allocate(5000).value();
    std::ranges::fill(memory.bytes(), std::byte{5});
    held.emplace(cache.registered(memory, 0, 100, local).value());
  }
  EXPECT_EQ(regions(), 1U);
  EXPECT_EQ(live("memory"), 1U);
  const auto* const bytes = reinterpret_cast<const std::byte*>(held->slice().address());
  EXPECT_EQ(bytes[99], std::byte{5});
  const log_catcher log;
  failing.fail_verb("ibv_dereg_mr", EBUSY);
  held.reset();
  failing.fail_call(0, 0);
  EXPECT_TRUE(log.contains("ibv_dereg_mr on memory region 0x")) << log.text();
  EXPECT_EQ(live("memory"), 1U);
}

TEST_F(registered_arenas, failed_registration_leaves_no_entry) {
  const registered_arena cache(pd);
  expect_error(cache.allocate(0), "0 bytes: allocate at least 1");
  const auto memory = cache.allocate(5000).value();
  expect_error(cache.registered(memory, 0, 10, access::remote_write), "need local_write");
  expect_error(cache.registered(memory, 0, 10, local | access::zero_based),
               "does not support access::zero_based");
  failing.fail_call(1, ENOMEM);
  expect_error(cache.registered(memory, 0, 10, local), "ibv_reg_mr on protection domain of soft0");
  failing.fail_call(0, 0);
  EXPECT_EQ(cache.statistics().entries, 0U);
  EXPECT_EQ(regions(), 0U);
  EXPECT_TRUE(cache.registered(memory, 0, 10, local).has_value());
}

TEST_F(registered_arenas, violated_preconditions_stop_program) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const registered_arena cache(pd);
  const registered_arena other(pd);
  auto memory = cache.allocate(5000).value();
  const auto some = cache.registered(memory, 0, 10, local).value();
  EXPECT_DEATH(static_cast<void>(some.slice(9, 2)), "exceeds its cached registration");
  EXPECT_DEATH(static_cast<void>(cache.registered(memory, 4999, 2, local)),
               "empty or exceeds the memory");
  EXPECT_DEATH(static_cast<void>(cache.registered(memory, 5001, 1, local)),
               "empty or exceeds the memory");
  EXPECT_DEATH(static_cast<void>(cache.registered(memory, 1, 0, local)),
               "empty or exceeds the memory");
  EXPECT_DEATH(static_cast<void>(other.registered(memory, 0, 1, local)), "memory of another arena");
  const auto taken = std::move(memory);
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move)
  EXPECT_DEATH(static_cast<void>(cache.registered(memory, 0, 1, local)), "memory of another arena");
}

// Random requests and frees: slices have the requested ranges, the limits hold, and all existing
// registrations are cached or held.
TEST_F(registered_arenas, random_use_respects_limits_and_leaves_no_registration) {
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    const registered_arena cache(pd, {.max_entries = 1 + seed, .max_bytes = 6000});
    std::vector<cached_memory> blocks;
    std::deque<cached_registration> held;
    for (int step = 0; step < 300; ++step) {
      if (blocks.empty() || random() % 20 == 0) {
        blocks.push_back(cache.allocate(1 + random() % 8000).value());
      } else if (random() % 20 == 0) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        blocks.pop_back();
      } else {
        const auto& from = blocks[random() % blocks.size()];
        const std::size_t offset = random() % from.bytes().size();
        const std::size_t length = 1 + random() % (from.bytes().size() - offset);
        const auto access = random() % 2 == 0 ? local : remote;
        auto got = cache.registered(from, offset, length, access).value();
        ASSERT_EQ(got.slice().address(),
                  reinterpret_cast<std::uintptr_t>(from.bytes().data()) + offset);
        ASSERT_EQ(got.slice().length(), length);
        ASSERT_EQ(got.access(), access);
        if (random() % 3 == 0) held.push_back(std::move(got));
      }
      if (!held.empty() && random() % 3 == 0) held.pop_front();
      const auto now = cache.statistics();
      ASSERT_LE(now.entries, 1 + seed);
      ASSERT_LE(now.bytes, 6000U);
      ASSERT_LE(regions(), now.entries + held.size());
      ASSERT_GE(regions(), now.entries);
    }
    held.clear();
    ASSERT_EQ(regions(), cache.statistics().entries);
    blocks.clear();
    ASSERT_EQ(regions(), 0U);
    ASSERT_EQ(cache.statistics().bytes, 0U);
  }
  EXPECT_EQ(live("memory"), 0U);
}

TEST(registered_arena, registrations_carry_data) {
  test::loopback pair;
  const registered_arena cache(pair.pd());
  const auto memory = cache.allocate(20000).value();
  test::fill(memory.bytes().first(8000), 4);
  const auto from = cache.registered(memory, 0, 8000, {}).value();
  const auto to =
      cache.registered(memory, 10000, 8000, access::local_write | access::remote_write).value();
  auto batch = pair.a().queue.start_send();
  batch.write({.signaled = true}, from.slice(), to.remote());
  batch.submit().value();
  test::take(pair.a().sends, 1).at(0).result().value();
  EXPECT_TRUE(std::ranges::equal(memory.bytes().first(8000), memory.bytes().subspan(10000, 8000)));
}

}  // namespace
}  // namespace verbena
