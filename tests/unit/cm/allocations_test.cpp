// SPDX-License-Identifier: MIT
// Timeout errors do not allocate, so loops of short waits do not allocate.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>

#include "tests/unit/allocations.hpp"
#include "tests/unit/cm/sessions.hpp"

#ifdef VERBENA_COUNTS_ALLOCATIONS

namespace verbena {
namespace {

using test::allocations;

deadline now() { return deadline::after(std::chrono::nanoseconds(0)); }

// Returns the allocations of the second call. The first call may fill caches of the device.
template <class Call>
std::size_t allocations_of_timeout(Call call) {
  EXPECT_EQ(call().error().kind(), error_kind::timed_out);
  const std::size_t before = allocations;
  const auto outcome = call();
  const std::size_t after = allocations;
  EXPECT_EQ(outcome.error().kind(), error_kind::timed_out) << outcome.error().message();
  return after - before;
}

class cm_allocations : public test::sessions {};

TEST_F(cm_allocations, accept_that_times_out_allocates_nothing) {
  auto listener = open();
  EXPECT_EQ(allocations_of_timeout([&] { return listener.accept(now()); }), 0U);
}

TEST_F(cm_allocations, waits_of_session_that_time_out_allocate_nothing) {
  auto [active, passive] = connect();
  std::array<completion, 4> done;
  for (const auto which : {sending, receiving})
    EXPECT_EQ(allocations_of_timeout([&] { return active.wait(which, done, now()); }), 0U);
  passive.expect_advertisement().value();
  EXPECT_EQ(allocations_of_timeout([&] { return passive.wait_advertisement(now()); }), 0U);
  EXPECT_EQ(allocations_of_timeout([&] { return passive.wait_update(now()); }), 0U);
}

}  // namespace
}  // namespace verbena

#endif
