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

TEST_F(fabric, failed_creation_of_a_queue_pair_uses_no_number) {
  // Long queues and faults of queue pairs have their own allocations.
  const end_options lengths{.capabilities = {.max_send_wr = 8192, .max_receive_wr = 8192}};
  home->add_fault({.effect = fault_effect::error});
  const completion_queue_options cq{.capacity = 4};
  completion_queue queue(cq);
  std::uint32_t failing = 0;
  queue_pair* made = nullptr;
  while (made == nullptr) {
    ASSERT_LT(failing, 100U);
    fail_allocation(++failing);
    try {
      auto created = home->create({.domain = domain_id{1},
                                   .send_queue = &queue,
                                   .receive_queue = &queue,
                                   .capabilities = lengths.capabilities});
      if (created) made = *created;
    } catch (const std::bad_alloc&) {
    }
    const bool failed = permit_allocations() >= failing;
    EXPECT_EQ(made == nullptr, failed);
    ASSERT_EQ(home->numbers().in_use(), made == nullptr ? 0U : 1U) << "allocation " << failing;
  }
  EXPECT_GT(failing, 3U);
  home->destroy(made);
  EXPECT_EQ(home->numbers().in_use(), 0U);
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
