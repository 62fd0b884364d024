// SPDX-License-Identifier: MIT
// Transfers between processes in all kinds of slots: another user holds the public names, or the
// large slots are taken.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/unit/softdev/fabric/device_pair.hpp"
#include "tests/unit/softdev/peers/other_users.hpp"

namespace verbena::softdev::testing {
namespace {

/// Transfers by a SEND through the ring and by a WRITE into mapped memory.
void exchange(device_pair& pair) {
  pair.connect_ends();
  const shared_buffer source(pair.left, memory_kind::ordinary, 8192, 1);
  const shared_buffer target(pair.right, memory_kind::shareable, 8192, 2);
  ASSERT_EQ(post_receive(*pair.b->qp, 3, {target.slice(0, 4096)}), 0);
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 1, .flags = signaled}, {source.slice(0, 4096)}), 0);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).status, completion_status::success);
  EXPECT_TRUE(target.holds(1, 0, 4096, 0));
  ASSERT_EQ(post(*pair.a->qp,
                 {.wr_id = 2,
                  .opcode = opcode::rdma_write,
                  .flags = signaled,
                  .remote_address = target.address() + 4096,
                  .remote_key = target.key()},
                 {source.slice(100, 1000)}),
            0);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
  pair.settle();  // an unreliable request completes before it arrives
  EXPECT_TRUE(target.holds(1, 4096, 1000, 100));
}

TEST(slots, processes_transfer_if_another_user_holds_all_public_names) {
  const int status = as_root([] {
    const home_directory home(crowded_user());
    const squatter other(public_slots().size());
    as_crowded_user([] {
      for (const transport kind : {transport::rc, transport::uc}) {
        device_pair pair({}, kind);
        EXPECT_FALSE(is_public_slot(pair.left.peer_link->slot()));
        EXPECT_FALSE(is_public_slot(pair.right.peer_link->slot()));
        exchange(pair);
      }
      return 0;
    });
  });
  if (status == skipped) GTEST_SKIP() << "only root can change its user";
  EXPECT_EQ(status, 0);
}

TEST(slots, processes_in_small_slots_transfer_and_have_1008_queue_pairs) {
  const int status = as_root([] {
    forget_home();
    as_crowded_user([] {
      std::vector<slot_claim> large;
      do large.push_back(slot_claim::take().value());
      while (large.back().slot() < large_slots);
      device_pair pair;
      const std::uint32_t slot = pair.left.peer_link->slot();
      EXPECT_GE(slot, large_slots);
      exchange(pair);
      engine& core = *pair.left.core;
      EXPECT_EQ(core.numbers().limit(), 1008U);
      std::set<std::uint32_t> numbers;
      for (std::uint32_t i = 1; i < core.numbers().limit(); ++i)
        numbers.insert(pair.left.make({.completions = 1}).qp->number());
      EXPECT_EQ(numbers.size(), 1007U);
      for (const std::uint32_t number : numbers) EXPECT_EQ(slot_of_number(number), slot);
      completion_queue queue({.capacity = 1});
      EXPECT_FALSE(core.create({.send_queue = &queue, .receive_queue = &queue}));
      return 0;
    });
  });
  if (status == skipped) GTEST_SKIP() << "only root can change its user";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace verbena::softdev::testing
