// SPDX-License-Identifier: MIT
#include <cerrno>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr domain_id home_domain{3};

struct region_table : ::testing::Test {
  std::byte* check(std::uint64_t address, std::uint64_t length, access_flags needed = {}) {
    why = {};
    return table.check_remote({key, address, length, needed, home_domain}, why);
  }
  memory_region_table table;
  std::byte memory[128];
  memory_region region{.base = memory,
                       .length = 128,
                       .iova = 0x1000,
                       .rights = access::local_write | access::remote_read,
                       .domain = home_domain};
  std::uint32_t key = table.add(region);
  failure why;
};

TEST_F(region_table, region_grants_access_to_exactly_its_range) {
  EXPECT_EQ(check(0x1000, 128), memory);
  EXPECT_EQ(check(0x1000 + 127, 1), memory + 127);
  EXPECT_EQ(check(0x1000 + 128, 1), nullptr);
  EXPECT_EQ(why.why, reason::remote_range);
  EXPECT_EQ(why.base, 0x1000U);
  EXPECT_EQ(why.limit, 128U);
  EXPECT_EQ(check(0xfff, 1), nullptr);
  EXPECT_EQ(check(0x1000, 129), nullptr);
  EXPECT_EQ(check(0x1001, 128), nullptr);
}

TEST_F(region_table, reregistered_key_refers_to_the_new_region) {
  ASSERT_TRUE(table.invalidate(key));
  EXPECT_EQ(check(0x1000, 128), nullptr);
  EXPECT_EQ(why.why, reason::remote_key_unknown);
  memory_region other = region;
  other.base = memory + 64;
  other.length = 64;
  table.restore(key, other);
  EXPECT_EQ(check(0x1000, 64), memory + 64);
  EXPECT_EQ(check(0x1000, 65), nullptr);
  EXPECT_EQ(table.count(), 1U);
}

TEST_F(region_table, lengths_that_overflow_are_refused) {
  for (const std::uint64_t length :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 0xfff, ~std::uint64_t{0} - 0x1000 + 1})
    for (const std::uint64_t address :
         {std::uint64_t{0}, std::uint64_t{0x1000}, std::uint64_t{0x1001}, ~std::uint64_t{0}})
      EXPECT_EQ(check(address, length), nullptr) << address << ' ' << length;
}

TEST_F(region_table, region_can_cover_the_whole_address_space) {
  const std::uint32_t whole =
      table.add({.base = nullptr, .length = ~std::uint64_t{0}, .domain = home_domain});
  EXPECT_NE(table.check_local({whole, ~std::uint64_t{0} - 1, 1, {}, home_domain}, why), nullptr);
  EXPECT_EQ(table.check_local({whole, ~std::uint64_t{0}, 1, {}, home_domain}, why), nullptr);
}

TEST_F(region_table, every_combination_of_access_flags_is_enforced) {
  constexpr std::uint32_t bits = 0xf;
  for (std::uint32_t granted = 0; granted <= bits; ++granted) {
    const std::uint32_t one = table.add({.base = memory,
                                         .length = 8,
                                         .iova = 0,
                                         .rights = access_flags::from_mask(granted),
                                         .domain = home_domain});
    for (std::uint32_t needed = 0; needed <= bits; ++needed) {
      const bool allowed = (granted & needed) == needed;
      EXPECT_EQ(table.check_local({one, 0, 8, access_flags::from_mask(needed), home_domain}, why) !=
                    nullptr,
                allowed);
    }
  }
}

TEST_F(region_table, region_of_another_pd_is_refused) {
  EXPECT_EQ(table.check_local({key, 0x1000, 1, {}, domain_id{4}}, why), nullptr);
  EXPECT_EQ(why.why, reason::local_key_other_domain);
}

TEST_F(region_table, invalidated_key_is_refused_and_not_reused) {
  EXPECT_TRUE(table.invalidate(key));
  EXPECT_FALSE(table.invalidate(key));
  EXPECT_EQ(check(0x1000, 1), nullptr);
  EXPECT_EQ(why.why, reason::remote_key_unknown);
  table.release(key);
  for (int i = 0; i < 500; ++i) {
    const std::uint32_t other = table.add(region);
    EXPECT_NE(other, key);
    EXPECT_TRUE(table.invalidate(other));
    table.release(other);
  }
  EXPECT_EQ(table.count(), 0U);
}

TEST_F(region_table, key_is_given_again_after_1024_others_were_released_at_the_earliest) {
  // A key may be given again only if its low bits are: those of the last 1024 keys never are.
  std::deque<std::uint32_t> last;
  std::set<std::uint32_t> places_of_last;
  constexpr std::uint32_t places = 2 * limits::max_regions;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint32_t one = table.add(region);
    ASSERT_TRUE(places_of_last.insert(one % places).second);
    ASSERT_TRUE(table.invalidate(one));
    table.release(one);
    EXPECT_FALSE(table.invalidate(one));
    EXPECT_EQ(table.find(one), nullptr);
    last.push_back(one);
    if (last.size() <= 1024) continue;
    places_of_last.erase(last.front() % places);
    last.pop_front();
  }
}

TEST_F(region_table, all_regions_can_be_registered_after_others_were_released) {
  std::vector<std::uint32_t> keys{key};
  const auto fill = [&] {
    while (const std::uint32_t one = table.add(region)) keys.push_back(one);
  };
  fill();
  EXPECT_EQ(keys.size(), limits::max_regions);
  EXPECT_EQ(std::set(keys.begin(), keys.end()).size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); i += 2) {
    ASSERT_TRUE(table.invalidate(keys[i]));
    table.release(keys[i]);
    std::swap(keys[i], keys.back());
    keys.pop_back();
  }
  fill();
  EXPECT_EQ(keys.size(), limits::max_regions);
  for (const std::uint32_t one : keys) ASSERT_NE(table.find(one), nullptr);
}

TEST_F(region_table, unknown_keys_are_refused) {
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(~0U), nullptr);
  EXPECT_EQ(table.find(key ^ 0x80000000U), nullptr) << "another key with the same index";
  EXPECT_FALSE(table.invalidate(0));
}

TEST_F(region_table, keys_are_unique_and_unpredictable) {
  std::set<std::uint32_t> keys;
  int ones[32] = {};
  constexpr int count = 20000;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t one = table.add(region);
    ASSERT_TRUE(keys.insert(one).second);
    ASSERT_NE(one, 0U);
    for (int bit = 0; bit < 32; ++bit) ones[bit] += static_cast<int>(one >> bit & 1U);
  }
  // Each bit is random: 10 standard deviations of 20000 samples are 707.
  constexpr int half = count / 2;
  for (const int each : ones) EXPECT_NEAR(each, half, 707);
}

TEST_F(fabric, registration_checks_access_flags_and_range) {
  std::byte memory[8];
  EXPECT_EQ(home->register_region({.base = memory, .length = 8, .rights = access::remote_write})
                .error()
                .code(),
            EINVAL);
  EXPECT_EQ(home->register_region({.base = memory, .length = 8, .rights = access::remote_atomic})
                .error()
                .code(),
            EINVAL);
  EXPECT_EQ(home->register_region({.base = memory, .length = ~std::uint64_t{0}}).error().code(),
            EINVAL);
  EXPECT_EQ(home->register_region({.base = memory, .length = 8, .iova = ~std::uint64_t{0} - 3})
                .error()
                .code(),
            EINVAL);
  EXPECT_FALSE(home->deregister_region(12345));
}

}  // namespace
}  // namespace verbena::softdev::testing
