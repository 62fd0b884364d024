// SPDX-License-Identifier: MIT
// Shared receive queues: arguments of the verbs, and lifetimes.
#include "verbena/verbs/shared_receive_queue.hpp"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/verbs/fake_objects.hpp"
#include "tests/unit/verbs/fake_queue.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena {
namespace {

using testing_support::expect_error;

class shared_receives : public ::testing::Test {
 protected:
  test::fake_objects fake;
  context device = testing_support::open_soft(fake.get()).value();
  protection_domain pd = device.allocate_pd().value();
};

// parity: ibverbs-258, ibverbs-261
TEST_F(shared_receives, sizes_limit_and_resizing_reach_the_verbs) {
  const auto queue = pd.create_srq({.max_wr = 10, .max_sge = 3}).value();
  EXPECT_EQ(fake.srq.max_wr, 10U);
  EXPECT_EQ(fake.srq.max_sge, 3U);
  EXPECT_EQ(fake.srq.srq_limit, 0U);
  queue.arm_limit(4).value();
  EXPECT_EQ(fake.changed, int{IBV_SRQ_LIMIT});
  queue.resize(20).value();
  EXPECT_EQ(fake.changed, int{IBV_SRQ_MAX_WR});
  const auto now = queue.query().value();
  EXPECT_EQ(now.max_wr, 20U);
  EXPECT_EQ(now.max_sge, 3U);
  EXPECT_EQ(now.limit, 4U);
}

// parity: ibverbs-263
TEST_F(shared_receives, failures_name_verb_object_and_cause) {
  const auto queue = pd.create_srq({.max_wr = 10}).value();
  fake.code = EOPNOTSUPP;
  const auto resized = queue.resize(5);
  expect_error(resized, "ibv_modify_srq on shared receive queue of soft0");
  EXPECT_EQ(resized.error().kind(), error_kind::not_supported);
  fake.code = EINVAL;
  expect_error(queue.resize(4'000'000'000), "the device's maximum of");
  fake.code = EIO;
  expect_error(queue.query(), "ibv_query_srq on shared receive queue of soft0");
  fake.code = ENOMEM;
  expect_error(pd.create_srq({.max_wr = 1}), "ibv_create_srq");
  fake.code = 0;
  expect_error(pd.create_srq({.max_wr = 0}), "at least one receive");
}

TEST_F(shared_receives, copies_share_queue_and_keep_protection_domain) {
  auto first = pd.create_srq({}).value();
  auto second = first;
  EXPECT_EQ(second.native(), first.native());
  EXPECT_FALSE(std::move(pd).close());
  {
    const auto gone = std::move(first);
  }
  EXPECT_EQ(fake.live, 1);
  EXPECT_TRUE(std::move(second).close());
  EXPECT_EQ(fake.live, 0);
}

// parity: ibverbs-259, ibverbs-308
TEST_F(shared_receives, single_and_batched_receives_are_posted) {
  static std::size_t requests;
  static std::size_t room;
  requests = 0;
  room = 4;
  ibv_context context{};
  context.ops.post_srq_recv = [](ibv_srq*, ibv_recv_wr* list, ibv_recv_wr** bad) {
    for (; list != nullptr; list = list->next, ++requests)
      if (requests == room) {
        *bad = list;
        return ENOMEM;
      }
    return 0;
  };
  const auto queue = pd.create_srq({}).value();
  queue.native()->context = &context;
  const local_slice slice(0x1000, 64, local_key(7));
  const std::array list = {slice, slice};
  EXPECT_TRUE(queue.post_receive({.id = 1}, slice));
  EXPECT_TRUE(queue.post_receive({.id = 2}, list));
  EXPECT_EQ(requests, 2U);
  auto batch = queue.start_receive<8>();
  for (std::uint64_t id = 0; id < 4; ++id) batch.receive({.id = id}, slice);
  const auto status = batch.submit();
  EXPECT_EQ(status.code(), ENOMEM);
  EXPECT_EQ(status.accepted_before_failure(), 2U);
  EXPECT_EQ(requests, 4U);
}

#ifdef VERBENA_CHECKED
using shared_receives_death = shared_receives;

// parity: ibverbs-187
TEST_F(shared_receives_death, receive_on_queue_pair_with_srq_stops_the_program) {
  test::fake_queue queue;
  ibv_srq shared{};
  queue.native()->srq = &shared;
  const local_slice slice(0x1000, 64, local_key(7));
  const char* const rule = "that has a shared receive queue; post it to";
  EXPECT_DEATH(static_cast<void>(detail::post_one_receive(queue.native(), {}, slice)), rule);
  receive_batch<> batch(queue.native());
  EXPECT_DEATH(batch.receive({}, slice), rule);
}

TEST_F(shared_receives_death, use_of_moved_from_queue_stops_the_program) {
  auto queue = pd.create_srq({}).value();
  const auto moved = std::move(queue);
  const local_slice slice(0x1000, 64, local_key(7));
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move): the rule
  EXPECT_DEATH(static_cast<void>(queue.post_receive({}, slice)), "a moved-from shared receive");
}
#endif

}  // namespace
}  // namespace verbena
