// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"

namespace verbena {
namespace {

using test::loopback;
using test::take;
using testing_support::expect_error;

class completion_queues : public ::testing::Test {
 protected:
  context device = open_device("soft0").value();
};

TEST_F(completion_queues, capacity_is_at_least_the_requested_number) {
  EXPECT_GE(device.create_cq(1).value().capacity(), 1U);
  EXPECT_GE(device.create_cq(1000).value().capacity(), 1000U);
}

TEST_F(completion_queues, poll_of_empty_queue_returns_empty_span) {
  const auto cq = device.create_cq(4).value();
  std::array<completion, 4> room;
  const auto polled = cq.poll(room);
  EXPECT_TRUE(polled);
  EXPECT_TRUE(polled.value().empty());
  EXPECT_FALSE(cq.channel().has_value());
}

// parity: rrddmma-53
TEST_F(completion_queues, poll_takes_at_most_the_size_of_the_array) {
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

TEST_F(completion_queues, creation_with_invalid_capacity_or_vector_fails) {
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

TEST_F(completion_queues, completion_channel_of_another_context_is_rejected) {
  const auto other = open_device("soft0").value().create_completion_channel().value();
  const auto expect_refused = [](const auto& refused) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), error_kind::invalid_argument);
    EXPECT_NE(refused.error().message().find("channel belongs to another context"),
              std::string::npos)
        << refused.error().message();
  };
  expect_refused(device.create_cq(4, {.channel = other}));
  expect_refused(device.create_extended_cq(4, {.channel = other}));
}

TEST_F(completion_queues, creation_error_names_the_device_limit) {
  const auto refused = device.create_cq(0x7fff'ffff);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("the capacity 2147483647 exceeds the device's maximum"),
            std::string::npos)
      << refused.error().message();
}

TEST_F(completion_queues, close_fails_while_a_queue_pair_uses_the_queue) {
  const auto pd = device.allocate_pd().value();
  auto cq = device.create_cq(4).value();
  {
    const auto queue = pd.create_qp<rc>(cq, cq).value();
    auto refused = std::move(cq).close();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), EBUSY);
    cq = std::move(refused).object();
  }
  EXPECT_TRUE(std::move(cq).close());
}

TEST_F(completion_queues, native_queue_can_be_adopted) {
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

TEST_F(completion_queues, resize_keeps_completions) {
  loopback pair;
  const auto memory = pair.memory(64);
  const auto& cq = pair.a().sends;
  auto batch = pair.a().queue.start_send();
  for (std::uint64_t id = 0; id < 3; ++id)
    batch.write({.id = id, .signaled = true}, memory.slice(0, 8), memory.remote());
  batch.submit().value();
  cq.resize(1000).value();
  EXPECT_GE(cq.capacity(), 1000U);
  cq.resize(4).value();
  EXPECT_GE(cq.capacity(), 4U);
  EXPECT_LT(cq.capacity(), 1000U);
  std::uint64_t next = 0;
  for (const auto& done : take(cq, 3)) EXPECT_EQ(done.id(), next++);
}

TEST_F(completion_queues, resize_with_invalid_capacity_fails) {
  loopback pair;
  const auto memory = pair.memory(64);
  auto batch = pair.a().queue.start_send();
  for (std::uint64_t id = 0; id < 3; ++id)
    batch.write({.id = id, .signaled = true}, memory.slice(0, 8), memory.remote());
  batch.submit().value();
  // The writes have completed when a later one of another queue pair has.
  auto later = pair.b().queue.start_send();
  later.write({.signaled = true}, memory.slice(0, 8), memory.remote());
  later.submit().value();
  take(pair.b().sends, 1);
  const std::size_t before = pair.a().sends.capacity();
  expect_error(pair.a().sends.resize(0), "a completion queue has at least one entry");
  expect_error(pair.a().sends.resize(0x7fff'ffff),
               "the capacity 2147483647 exceeds the device's maximum");
  expect_error(pair.a().sends.resize(1), "ibv_resize_cq on completion queue of soft0 failed");
  expect_error(pair.a().sends.resize(1), "poll them first");
  EXPECT_EQ(pair.a().sends.capacity(), before);
  EXPECT_EQ(take(pair.a().sends, 3).size(), 3U);
  failing_provider failing(*soft_provider().value());
  const auto cq = testing_support::open_soft(failing.get()).value().create_cq(4).value();
  failing.fail_verb("ibv_resize_cq", EOPNOTSUPP);
  EXPECT_EQ(cq.resize(8).error().kind(), error_kind::not_supported);
}

ibv_modify_cq_attr moderated{};

TEST_F(completion_queues, moderate_delays_notifications) {
  provider from = *soft_provider().value();
  from.verbs.modify_cq.set([](ibv_cq*, ibv_modify_cq_attr* changes) {
    moderated = *changes;
    return changes->moderate.cq_count > 100 ? EINVAL : 0;
  });
  const auto cq = testing_support::open_soft(from).value().create_cq(4).value();
  cq.moderate({.completions = 16, .period = std::chrono::milliseconds(2)}).value();
  EXPECT_EQ(moderated.attr_mask, std::uint32_t{IBV_CQ_ATTR_MODERATE});
  EXPECT_EQ(moderated.moderate.cq_count, 16);
  EXPECT_EQ(moderated.moderate.cq_period, 2000);
  cq.moderate({}).value();
  EXPECT_EQ(moderated.moderate.cq_count, 0);
  expect_error(cq.moderate({.completions = 101}),
               "101 completions or 0 µs exceed a limit of the device");
  for (const auto period : {std::chrono::microseconds(65'536), std::chrono::microseconds(-1)}) {
    const auto refused = cq.moderate({.period = period});
    expect_error(refused, "outside its range, 0 to 65535 µs");
    EXPECT_EQ(refused.error().kind(), error_kind::invalid_argument);
  }
  from.verbs.modify_cq.set(nullptr);
  EXPECT_EQ(cq.moderate({}).error().kind(), error_kind::not_supported);
  EXPECT_EQ(cq.moderate({}).error().call(), "ibv_modify_cq");
}

// A queue of the C API whose poll fails with the return values that providers use.
struct failing_queue {
  explicit failing_queue(int (*poll)(ibv_cq*, int, ibv_wc*)) {
    context.ops.poll_cq = poll;
    native.context = &context;
  }
  ibv_context context{};
  ibv_cq native{};
};

// parity: ibverbs-122, rrddmma-15
TEST(poll_result, failed_device_returns_an_error) {
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

TEST_F(completion_queues_death, use_of_moved_from_queue_stops_the_program) {
  auto cq = device.create_cq(4).value();
  const auto moved = std::move(cq);
  // NOLINTBEGIN(bugprone-use-after-move,*.Move): that is the point
  EXPECT_DEATH(static_cast<void>(cq.capacity()), "a moved-from completion queue was used");
#ifdef VERBENA_CHECKED
  std::array<completion, 1> room;
  EXPECT_DEATH(static_cast<void>(cq.poll(room)), "a moved-from completion queue was used");
#endif
  // NOLINTEND(bugprone-use-after-move,*.Move)
}

#ifdef VERBENA_CHECKED
// close() takes the handle as an rvalue, and moves from it if it succeeds.
TEST_F(completion_queues_death, use_of_closed_handles_stops_the_program) {
  const auto pd = device.allocate_pd().value();
  auto cq = device.create_cq(4).value();
  auto prepared = pd.create_qp<rc>(cq, cq).value();
  const auto self = prepared.endpoint();
  auto queue = std::move(prepared).handshake(self).value();
  auto shared = pd.create_srq({}).value();
  EXPECT_TRUE(std::move(queue).close());
  EXPECT_TRUE(std::move(shared).close());
  EXPECT_TRUE(std::move(cq).close());
  // NOLINTBEGIN(bugprone-use-after-move,*.Move): that is the point
  std::array<completion, 1> room;
  const std::span<const local_slice> none;
  EXPECT_DEATH(static_cast<void>(cq.poll(room)), "a moved-from completion queue was used");
  EXPECT_DEATH(static_cast<void>(queue.post_send({}, none)), "a moved-from queue pair was used");
  EXPECT_DEATH(static_cast<void>(queue.post_receive({}, none)), "a moved-from queue pair was used");
  EXPECT_DEATH(static_cast<void>(shared.start_receive()),
               "a moved-from shared receive queue was used");
  // NOLINTEND(bugprone-use-after-move,*.Move)
}
#endif

TEST_F(completion_queues_death, adoption_with_other_context_stops_the_program) {
  const auto other = open_device("soft0").value();
  const auto cq = device.create_cq(4).value();
  EXPECT_DEATH(static_cast<void>(completion_queue::adopt(nullptr, device, ownership::borrow)),
               "completion_queue::adopt\\(\\) with a null pointer");
  EXPECT_DEATH(static_cast<void>(completion_queue::adopt(cq.native(), other, ownership::borrow)),
               "completion_queue::adopt\\(\\) with another context");
}

}  // namespace
}  // namespace verbena
