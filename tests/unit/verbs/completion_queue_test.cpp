// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "tests/unit/verbs/loopback.hpp"

namespace verbena {
namespace {

using test::loopback;
using test::take;

class completion_queues : public ::testing::Test {
 protected:
  context device = open_device("soft0").value();
};

TEST_F(completion_queues, hold_at_least_what_was_asked) {
  EXPECT_GE(device.create_cq(1).value().capacity(), 1U);
  EXPECT_GE(device.create_cq(1000).value().capacity(), 1000U);
}

TEST_F(completion_queues, an_empty_queue_gives_an_empty_part) {
  const auto cq = device.create_cq(4).value();
  std::array<completion, 4> room;
  const auto polled = cq.poll(room);
  EXPECT_TRUE(polled);
  EXPECT_TRUE(polled.value().empty());
  EXPECT_FALSE(cq.channel().has_value());
}

TEST_F(completion_queues, a_poll_takes_no_more_than_there_is_room_for) {
  loopback pair;
  const auto memory = pair.memory(64);
  auto batch = pair.a().queue.start_send();
  for (std::uint64_t id = 0; id < 5; ++id)
    batch.write({.id = id, .signaled = true}, memory.slice(0, 8), memory.remote());
  batch.submit().value();
  std::array<completion, 2> room;
  std::uint64_t next = 0;
  const auto limit = deadline::after(std::chrono::seconds(20));
  while (next < 5 && !limit.expired()) {
    const auto some = pair.a().sends.poll(room).value();
    ASSERT_LE(some.size(), 2U);
    for (const auto& done : some) EXPECT_EQ(done.id(), next++);
  }
  EXPECT_EQ(next, 5U);
}

TEST_F(completion_queues, capacities_and_vectors_out_of_range_are_refused) {
  const auto none = device.create_cq(0);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind(), error_kind::invalid_argument);
  EXPECT_NE(none.error().message().find("at least one entry"), std::string::npos);
  EXPECT_FALSE(device.create_cq(0xffff'ffff));
  const auto vector = device.create_cq(4, {.completion_vector = 10'000});
  ASSERT_FALSE(vector);
  EXPECT_NE(vector.error().message().find("completion vector 10000 does not exist"),
            std::string::npos);
}

TEST_F(completion_queues, a_limit_of_the_device_that_is_exceeded_is_named) {
  const auto refused = device.create_cq(0x7fff'ffff);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("the device has at most"), std::string::npos)
      << refused.error().message();
}

TEST_F(completion_queues, close_refuses_while_a_queue_pair_uses_it) {
  const auto pd = device.allocate_pd().value();
  auto cq = device.create_cq(4).value();
  {
    const auto queue = pd.create_queue_pair<rc>(cq, cq).value();
    auto refused = std::move(cq).close();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), EBUSY);
    cq = std::move(refused).object();
  }
  EXPECT_TRUE(std::move(cq).close());
}

TEST_F(completion_queues, adopt_what_the_c_api_made) {
  ibv_cq* const native = device.provider().verbs.create_cq(device.native(), 4, nullptr, nullptr, 0);
  ASSERT_NE(native, nullptr);
  {
    const auto borrowed = completion_queue::adopt(native, device, ownership::borrow);
    std::array<completion, 1> room;
    EXPECT_TRUE(borrowed.poll(room).value().empty());
  }
  auto taken = completion_queue::adopt(native, device, ownership::take);
  EXPECT_EQ(taken.native(), native);
  EXPECT_EQ(device.provider().verbs.req_notify_cq(taken.native(), 0), 0);
  EXPECT_TRUE(std::move(taken).close());
}

// A queue of the C API whose poll fails, in the ways that providers fail.
struct failing_queue {
  explicit failing_queue(int (*poll)(ibv_cq*, int, ibv_wc*)) {
    context.ops.poll_cq = poll;
    native.context = &context;
  }
  ibv_context context{};
  ibv_cq native{};
};

TEST(poll_result, a_failing_device_is_an_error_and_not_an_empty_queue) {
  failing_queue broken([](ibv_cq*, int, ibv_wc*) { return -EIO; });
  const poll_result polled(nullptr, ibv_poll_cq(&broken.native, 1, nullptr));
  EXPECT_FALSE(polled);
  EXPECT_EQ(polled.error().code(), EIO);
  EXPECT_NE(polled.error().message().find("overflowed"), std::string::npos);
#ifndef VERBENA_NO_EXCEPTIONS
  EXPECT_THROW(static_cast<void>(polled.value()), std::runtime_error);
#endif
  EXPECT_EQ(poll_result(nullptr, -1).error().code(), 0);
}

using completion_queues_death = completion_queues;

TEST_F(completion_queues_death, a_moved_from_queue_is_not_used) {
  auto cq = device.create_cq(4).value();
  const auto moved = std::move(cq);
  // NOLINTBEGIN(bugprone-use-after-move): that is the point
  EXPECT_DEATH(static_cast<void>(cq.capacity()), "a moved-from completion queue must not be used");
#ifdef VERBENA_CHECKED
  std::array<completion, 1> room;
  EXPECT_DEATH(static_cast<void>(cq.poll(room)), "a moved-from completion queue must not be used");
#endif
  // NOLINTEND(bugprone-use-after-move)
}

TEST_F(completion_queues_death, a_queue_is_adopted_with_its_own_context) {
  const auto other = open_device("soft0").value();
  const auto cq = device.create_cq(4).value();
  EXPECT_DEATH(static_cast<void>(completion_queue::adopt(nullptr, device, ownership::borrow)),
               "a completion queue to adopt is not null");
  EXPECT_DEATH(static_cast<void>(completion_queue::adopt(cq.native(), other, ownership::borrow)),
               "a completion queue is adopted with its own context");
}

}  // namespace
}  // namespace verbena
