// SPDX-License-Identifier: MIT
// The keys of many registrations: unique among the living, and without a pattern.
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/survival/traffic.hpp"

namespace verbena::softdev::testing {
namespace {

/// Counts that a random source spreads evenly: each must be within `deviations` of the mean.
template <std::size_t Cells>
void expect_even(const std::array<std::uint32_t, Cells>& counts, double trials, double chance,
                 const char* what) {
  constexpr double deviations = 7;
  const double mean = trials * chance;
  const double bound = deviations * std::sqrt(trials * chance * (1 - chance));
  for (std::size_t i = 0; i < Cells; ++i) EXPECT_NEAR(counts[i], mean, bound) << what << ' ' << i;
}

TEST(keys, many_registrations_have_distinct_keys_without_a_pattern) {
  const int registrations = test::campaign_size(8000, 1'000'000);
  constexpr std::size_t most_alive = 4096;
  std::mt19937 random(test::campaign_seed(41));
  opened_device device;
  std::vector<std::byte> memory(64);
  std::vector<ibv_mr*> alive;
  std::unordered_set<std::uint32_t> alive_keys;
  std::unordered_map<std::uint32_t, int> last_use;
  int repeated = 0;
  std::array<std::uint32_t, 32> ones{};
  std::array<std::uint32_t, 32> changed{};
  std::array<std::uint32_t, 256> bytes[4] = {};
  std::array<std::uint32_t, 256> differences[4] = {};
  std::uint32_t before = 0;
  for (int i = 0; i < registrations; ++i) {
    ibv_mr* const mr = SOFT(ibv_reg_mr)(device.pd, memory.data(), memory.size(), 0);
    ASSERT_NE(mr, nullptr);
    const std::uint32_t key = mr->rkey;
    ASSERT_NE(key, 0U);
    ASSERT_EQ(key, mr->lkey);
    ASSERT_TRUE(alive_keys.insert(key).second) << "a living key, at registration " << i;
    const auto [used, is_new] = last_use.try_emplace(key, i);
    if (!is_new) {
      ++repeated;
      EXPECT_GT(i - used->second, 1024) << "a key that was in use just now";
      used->second = i;
    }
    for (unsigned bit = 0; bit < 32; ++bit) {
      ones[bit] += key >> bit & 1U;
      changed[bit] += (key ^ before) >> bit & 1U;
    }
    for (unsigned at = 0; at < 4; ++at) {
      ++bytes[at][key >> (8 * at) & 0xffU];
      ++differences[at][(key - before) >> (8 * at) & 0xffU];
    }
    before = key;
    alive.push_back(mr);
    if (alive.size() < most_alive) continue;
    std::swap(alive[random() % alive.size()], alive.back());
    alive_keys.erase(alive.back()->rkey);
    ASSERT_EQ(SOFT(ibv_dereg_mr)(alive.back()), 0);
    alive.pop_back();
  }
  for (ibv_mr* each : alive) EXPECT_EQ(SOFT(ibv_dereg_mr)(each), 0);
  expect_even(ones, registrations, 0.5, "bit");
  expect_even(changed, registrations, 0.5, "bit that changes");
  for (unsigned at = 0; at < 4; ++at) {
    expect_even(bytes[at], registrations, 1.0 / 256, "byte");
    expect_even(differences[at], registrations, 1.0 / 256, "byte of the difference");
  }
  // Of 32 random bits, as many as by chance: n²/2³³, and 6 deviations.
  const double expected = std::pow(registrations, 2) / std::pow(2.0, 33);
  EXPECT_LE(repeated, expected + 6 * std::sqrt(expected) + 1);
  std::printf(
      "%d registrations, %zu alive at once, %d keys of former registrations (%.1f by chance)\n",
      registrations, most_alive, repeated, expected);
}

}  // namespace
}  // namespace verbena::softdev::testing
