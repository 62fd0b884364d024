// SPDX-License-Identifier: MIT
// Seeds of random tests: always the same in a plain run, other ones in every round of a campaign.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

namespace verbena::test {

/// `plain`, or what `--gtest_random_seed` makes of it. The campaigns give that option.
[[nodiscard]] inline std::uint32_t campaign_seed(std::uint32_t plain) {
  const int round = ::testing::UnitTest::GetInstance()->random_seed();
  return plain + 1000U * static_cast<std::uint32_t>(round);
}

}  // namespace verbena::test
