// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/cm/simulation/simulation.hpp"

#include <gtest/gtest.h>

namespace verbena::softdev::cm::simulation {
namespace {

// parity: rocev2-94
TEST(simulated_connections, first_seeds_pass) {
  constexpr std::uint64_t seeds = 300;
  std::uint64_t established = 0;
  std::uint64_t faults = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const outcome what = run_seed(seed);
    EXPECT_EQ(what.violation, "") << "seed " << seed << ": " << what.setting;
    established += what.established;
    faults += what.faults;
  }
  EXPECT_GT(established, seeds);
  EXPECT_GT(faults, seeds);
}

/// Seeds that failed in the past, with the cause.
TEST(simulated_connections, kept_seeds_pass) {
  constexpr std::uint64_t kept[] = {
      7,    // a SIDR request without an answer ended with a warning
      246,  // the answer to a request was forgotten while the peer repeated the request
  };
  for (const std::uint64_t seed : kept) {
    const outcome what = run_seed(seed);
    EXPECT_EQ(what.violation, "") << "seed " << seed << ": " << what.setting;
  }
}

TEST(simulated_connections, two_runs_of_a_seed_are_identical) {
  for (const std::uint64_t seed : {7U, 8U, 9U}) {
    const outcome one = run_seed(seed);
    const outcome other = run_seed(seed);
    EXPECT_EQ(one.messages, other.messages);
    EXPECT_EQ(one.faults, other.faults);
    EXPECT_EQ(one.established, other.established);
  }
}

}  // namespace
}  // namespace verbena::softdev::cm::simulation
