// SPDX-License-Identifier: MIT
// Seeds and sizes of tests: always the same in a plain run, others in every round of a campaign.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

namespace verbena::test {

/// Campaigns shuffle; without that the seed of GoogleTest is the time of day.
[[nodiscard]] inline bool is_campaign() { return GTEST_FLAG_GET(shuffle); }

/// `plain`, or what `--gtest_random_seed` makes of it in a campaign.
[[nodiscard]] inline std::uint32_t campaign_seed(std::uint32_t plain) {
  if (!is_campaign()) return plain;
  const int round = ::testing::UnitTest::GetInstance()->random_seed();
  return plain + 1000U * static_cast<std::uint32_t>(round);
}

/// `plain`, or `full` in a campaign.
[[nodiscard]] inline int campaign_size(int plain, int full) { return is_campaign() ? full : plain; }

}  // namespace verbena::test
