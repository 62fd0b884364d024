// SPDX-License-Identifier: MIT
// What ends an object needs no memory: it cannot fail halfway.
#include "softdev/core/quarantine.hpp"
#include "tests/unit/softdev/core/fabric.hpp"
#include "tests/unit/softdev/failing_allocations.hpp"

namespace verbena::softdev::testing {
namespace {

TEST(quarantine, full_quarantine_gives_numbers_back_in_order) {
  quarantine kept;
  EXPECT_FALSE(kept.take_oldest());
  for (std::uint32_t number = 0; number < quarantine::capacity; ++number)
    ASSERT_FALSE(kept.add(number));
  EXPECT_EQ(kept.size(), quarantine::capacity);
  for (std::uint32_t number = 0; number < 3; ++number)
    EXPECT_EQ(kept.add(5000 + number), std::optional(number));
  EXPECT_EQ(kept.take_oldest(), std::optional(3U));
  EXPECT_EQ(kept.size(), quarantine::capacity - 1);
  EXPECT_FALSE(kept.add(6000));
  EXPECT_EQ(kept.add(6001), std::optional(4U));
}

#ifdef VERBENA_FAILS_ALLOCATIONS
// More often than quarantines have places.
constexpr std::size_t many = quarantine::capacity + 300;

TEST_F(fabric, destroying_a_queue_pair_allocates_nothing) {
  for (std::size_t i = 0; i < many; ++i) {
    queue_pair* const which = make().qp;
    const auto end = std::move(ends.back());
    ends.pop_back();
    fail_allocation(1);
    home->destroy(which);
    ASSERT_EQ(permit_allocations(), 0U) << "queue pair " << i;
  }
}

TEST_F(fabric, deregistration_allocates_nothing) {
  std::byte memory[64];
  for (std::size_t i = 0; i < many; ++i) {
    const std::uint32_t key =
        home->register_region({.base = memory, .length = 64, .domain = domain_id{1}}).value();
    fail_allocation(1);
    const bool ended = home->deregister_region(key);
    ASSERT_EQ(permit_allocations(), 0U) << "region " << i;
    ASSERT_TRUE(ended);
  }
  EXPECT_EQ(home->regions().count(), 0U);
}
#endif

}  // namespace
}  // namespace verbena::softdev::testing
