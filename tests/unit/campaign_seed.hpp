// SPDX-License-Identifier: MIT
// Seeds and sizes of tests: always the same in a plain run, others in every round of a campaign.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace verbena::test {

/// Campaigns shuffle; without that the seed of GoogleTest is the time of day.
[[nodiscard]] inline bool is_campaign() { return GTEST_FLAG_GET(shuffle); }

/// Counts the rounds of a campaign: its seed.
[[nodiscard]] inline std::uint32_t campaign_round() {
  return static_cast<std::uint32_t>(::testing::UnitTest::GetInstance()->random_seed());
}

/// `plain`, or what `--gtest_random_seed` makes of it in a campaign.
[[nodiscard]] inline std::uint32_t campaign_seed(std::uint32_t plain) {
  return is_campaign() ? plain + 1000U * campaign_round() : plain;
}

/// VERBENA_TEST_SHARE: on a slow machine campaigns do one in so many of what they do; 1 if not set.
[[nodiscard]] inline int campaign_share() {
  const char* const set = std::getenv("VERBENA_TEST_SHARE");
  return set == nullptr ? 1 : std::clamp(std::atoi(set), 1, 1000);
}

/// `plain`, or in a campaign its share of `full`, and no less.
[[nodiscard]] inline int campaign_size(int plain, int full) {
  return is_campaign() ? std::max(plain, full / campaign_share()) : plain;
}

}  // namespace verbena::test
