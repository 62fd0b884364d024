// SPDX-License-Identifier: MIT
#include "verbena/memory/buffer_pool.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/memory/pool_home.hpp"
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

std::uintptr_t address_of(const buffer& of) {
  return reinterpret_cast<std::uintptr_t>(of.bytes().data());
}

buffer_pool make_pool(std::vector<size_class> classes) {
  const auto pd = open_soft().allocate_pd().value();
  return buffer_pool::create(pd, {.classes = std::move(classes)}).value();
}

TEST(buffer_pool, takes_the_smallest_free_buffer_that_fits) {
  const auto pool = make_pool({{.bytes = 5000, .count = 1}, {.bytes = 100, .count = 2}});
  const auto first = pool.take(0);
  const auto second = pool.take(100);
  const auto third = pool.take(1);
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->capacity(), 100U);
  EXPECT_EQ(second->capacity(), 100U);
  EXPECT_EQ(third->capacity(), 5000U);
  EXPECT_FALSE(pool.take(1));
  EXPECT_FALSE(pool.take(101));
}

TEST(buffer_pool, take_beyond_the_largest_size_returns_no_buffer) {
  const auto pool = make_pool({{.bytes = 64, .count = 1}});
  EXPECT_FALSE(pool.take(65));
  EXPECT_FALSE(pool.take(std::numeric_limits<std::size_t>::max()));
  EXPECT_TRUE(pool.take(64));
}

TEST(buffer_pool, has_counts_sizes_access_and_domain) {
  const auto pd = open_soft().allocate_pd().value();
  const auto pool =
      buffer_pool::create(pd, {.classes = {{.bytes = 5000, .count = 2}, {.bytes = 100, .count = 3}},
                               .access = access::local_write | access::remote_read})
          .value();
  EXPECT_EQ(pool.count(), 5U);
  EXPECT_EQ(pool.largest(), 5000U);
  EXPECT_EQ(pool.registered_bytes(), 2 * 8192U + 3 * 128U);
  EXPECT_EQ(pool.access(), access::local_write | access::remote_read);
  EXPECT_EQ(pool.native_pd(), pd.native());
  EXPECT_EQ(pool.taken(), 0U);
  auto taken = pool.take(1);
  EXPECT_EQ(pool.taken(), 1U);
  EXPECT_EQ(taken->access(), pool.access());
  EXPECT_EQ(taken->native_pd(), pd.native());
  EXPECT_EQ(taken->remote().length(), 100U);
  taken.reset();
  EXPECT_EQ(pool.taken(), 0U);
}

TEST(buffer_pool, has_one_registration) {
  counting_provider counting(*soft_provider().value());
  const auto pd = open_soft(counting.get()).value().allocate_pd().value();
  const auto pool =
      buffer_pool::create(pd, {.classes = {{.bytes = 9, .count = 9}, {.bytes = 9000, .count = 9}}})
          .value();
  const auto live = counting.live();
  EXPECT_EQ(live.find("ibv_reg_mr"), live.rfind("ibv_reg_mr")) << live;
  EXPECT_EQ(pool.take(1)->local_key(), pool.take(9000)->local_key());
}

// Takes and returns random buffers: they are disjoint, aligned and inside the pool, and at the end
// all buffers are free.
TEST(buffer_pool, buffers_never_overlap) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    std::vector<size_class> classes;
    for (std::uint32_t i = 0; i <= seed % 5; ++i)
      classes.push_back({.bytes = 1 + random() % (i % 2 == 0 ? 300 : 9000),
                         .count = 1 + static_cast<std::uint32_t>(random() % 9)});
    const auto pool = make_pool(classes);
    std::map<std::uintptr_t, std::size_t> used;  // address: capacity
    std::vector<buffer> taken;
    for (int step = 0; step < 300; ++step) {
      if (random() % 3 != 0) {
        const std::size_t bytes = random() % 9100;
        auto got = pool.take(bytes);
        if (!got) continue;
        ASSERT_GE(got->capacity(), bytes);
        ASSERT_EQ(address_of(*got) % (got->capacity() >= 4096 ? 4096 : 64), 0U);
        const auto next = used.lower_bound(address_of(*got));
        if (next != used.end()) {
          ASSERT_LE(address_of(*got) + got->capacity(), next->first) << seed;
        }
        if (next != used.begin()) {
          const auto& [address, capacity] = *std::prev(next);
          ASSERT_LE(address + capacity, address_of(*got)) << seed;
        }
        used[address_of(*got)] = got->capacity();
        std::ranges::fill(got->bytes(), std::byte{1});
        taken.push_back(*std::move(got));
      } else if (!taken.empty()) {
        std::swap(taken[random() % taken.size()], taken.back());
        used.erase(address_of(taken.back()));
        taken.pop_back();
      }
      ASSERT_EQ(pool.taken(), taken.size());
    }
    taken.clear();
    for (std::size_t i = 0; i < pool.count(); ++i) {
      auto got = pool.take(0);
      ASSERT_TRUE(got) << seed << ": " << i;
      taken.push_back(*std::move(got));
    }
    ASSERT_FALSE(pool.take(0));
  }
}

TEST(buffer_pool, exists_until_the_last_buffer_is_destroyed) {
  counting_provider counting(*soft_provider().value());
  auto pool = std::make_optional(buffer_pool::create(
      open_soft(counting.get()).value().allocate_pd().value(), {.access = access::local_write}));
  auto copy = std::make_optional(pool->value());
  auto first = copy->take(1);
  auto second = copy->take(1);
  pool.reset();
  EXPECT_TRUE(copy->take(1));
  copy.reset();
  EXPECT_TRUE(counting.is_live("ibv_reg_mr"));
  std::memset(first->bytes().data(), 7, first->capacity());
  first.reset();
  EXPECT_TRUE(counting.is_live("ibv_reg_mr"));
  std::memset(second->bytes().data(), 7, second->capacity());
  second.reset();
  EXPECT_EQ(counting.live(), "");
}

TEST(buffer_pool, handles_are_copied_moved_and_assigned) {
  counting_provider counting(*soft_provider().value());
  {
    const auto pd = open_soft(counting.get()).value().allocate_pd().value();
    const auto make = [&](std::size_t bytes) {
      return buffer_pool::create(pd, {.classes = {{.bytes = bytes, .count = 1}}}).value();
    };
    auto one = make(1);
    auto two = make(2);
    const auto held = two.take(2);
    two = one;
    EXPECT_EQ(two.largest(), 1U);
    buffer_pool& self = two;
    two = self;
    EXPECT_EQ(two.largest(), 1U);
    one = make(3);
    EXPECT_EQ(one.largest(), 3U);
    two = std::move(one);
    EXPECT_EQ(two.largest(), 3U);
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    // NOLINTNEXTLINE(bugprone-use-after-move,*.Move)
    EXPECT_DEATH(static_cast<void>(one.take(1)), "a moved-from buffer_pool was used");
  }
  EXPECT_EQ(counting.live(), "");
}

TEST(buffer_pool, buffers_carry_messages_and_reads) {
  test::loopback pair;
  const auto pool =
      buffer_pool::create(pair.pd(), {.classes = {{.bytes = 10000, .count = 3}},
                                      .access = access::local_write | access::remote_read})
          .value();
  auto from = pool.take(10000).value();
  auto to = pool.take(10000).value();
  auto read = pool.take(10000).value();
  test::fill(from.bytes(), 3);
  pair.b().queue.post_receive({}, to.slice()).value();
  auto batch = pair.a().queue.start_send();
  batch.send({}, from.slice());
  batch.read({.signaled = true}, read.slice(100, 500), from.remote().slice(7, 500));
  batch.submit().value();
  test::take(pair.a().sends, 1).at(0).result().value();
  test::take(pair.b().receives, 1).at(0).result().value();
  EXPECT_TRUE(std::ranges::equal(to.bytes(), from.bytes()));
  EXPECT_TRUE(std::ranges::equal(read.bytes().subspan(100, 500), from.bytes().subspan(7, 500)));
}

TEST(buffer_pool, options_out_of_range_are_refused) {
  const auto pd = open_soft().allocate_pd().value();
  const auto make = [&](std::vector<size_class> classes) {
    return buffer_pool::create(pd, {.classes = std::move(classes)});
  };
  expect_error(make({}), "1 to 64 sizes of buffers, not 0");
  expect_error(make(std::vector<size_class>(65)), "1 to 64 sizes of buffers, not 65");
  expect_error(make({{.bytes = 0}}), "1 to 4294967295 bytes, not 0");
  expect_error(make({{.bytes = std::size_t{1} << 32U}}), "not 4294967296");
  expect_error(make({{.count = 0}}), "1 to 67108863 buffers, not 0");
  expect_error(make({{.count = 1U << 26U}}), "not 67108864");
  EXPECT_EQ(make({}).error().kind(), error_kind::invalid_argument);
  constexpr size_class most = {.bytes = local_slice::max_length, .count = buffer_pool::max_count};
  expect_error(make(std::vector<size_class>(64, most)), "exceed the address space");
  EXPECT_FALSE(detail::lay_out(std::vector<size_class>(33, most)).has_value());
  EXPECT_TRUE(detail::lay_out(std::vector<size_class>(32, most)).has_value());
  expect_error(buffer_pool::create(pd, {.access = access::zero_based}),
               "does not support access::zero_based");
  expect_error(buffer_pool::create(pd, {.access = access::remote_write}), "need local_write");
}

TEST(buffer_pool, refused_creation_leaks_no_memory) {
  counting_provider counting(*soft_provider().value());
  failing_provider failing(counting.get());
  const log_catcher log;
  const auto pd = open_soft(failing.get()).value().allocate_pd().value();
  const auto live = counting.live();
  failing.fail_call(0, 0);
  ASSERT_TRUE(buffer_pool::create(pd, {}).has_value());
  const auto calls = failing.calls();
  ASSERT_GT(calls, 0U);
  for (std::size_t n = 1; n < calls; ++n) {  // the last one deregisters
    failing.fail_call(n, ENOMEM);
    const auto made = buffer_pool::create(pd, {});
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code(), ENOMEM);
    EXPECT_EQ(counting.live(), live);
  }
  EXPECT_EQ(log.text(), "");
}

}  // namespace
}  // namespace verbena
