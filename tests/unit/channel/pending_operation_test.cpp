// SPDX-License-Identifier: MIT
// The owned level: an operation takes a buffer and returns it, in any order of destruction.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/unit/channel/channel_pair.hpp"

namespace verbena::test {
namespace {

buffer filled(const buffer_pool& pool, unsigned char with) {
  buffer made = std::move(*pool.take(4096));
  std::ranges::fill(made.bytes(), std::byte{with});
  return made;
}

/// A buffer of memory of the program; `freed` counts the calls of its deleter.
buffer adopted_buffer(const channel_pair& of, std::vector<std::byte>& bytes, int& freed) {
  return buffer::adopt(of.pd().register_memory(bytes, access::local_write).value(), bytes,
                       std::shared_ptr<void>(bytes.data(), [&freed](void*) { ++freed; }));
}

// parity: ibverbs-rs-42
TEST(pending_operation, result_returns_the_buffer) {
  channel_pair pair;
  const auto pool = pair.pool();
  auto receive = pair.b().post_receive(filled(pool, 0));
  auto send = pair.a().post_send(filled(pool, 3), {.offset = 10, .length = 20});
  const operation_result* received = receive.wait(long_deadline());
  ASSERT_NE(received, nullptr);
  EXPECT_EQ(received->byte_length(), 20U);
  ASSERT_NE(send.wait(long_deadline()), nullptr);
  const buffer inbox = receive.take_buffer();
  EXPECT_TRUE(all_are(inbox.bytes().first(20), 3));
  EXPECT_TRUE(all_are(inbox.bytes().subspan(20), 0));
  EXPECT_TRUE(receive.take_buffer().empty());
  EXPECT_EQ(receive.wait(long_deadline())->byte_length(), 20U);  // and again
  EXPECT_EQ(pool.taken(), 2U);
}

// parity: ibverbs-rs-41
TEST(pending_operation, expired_wait_leaves_the_operation_in_flight) {
  channel_pair pair;
  const auto pool = pair.pool();
  auto receive = pair.b().post_receive(filled(pool, 0));
  EXPECT_EQ(receive.wait(deadline::after(1ms)), nullptr);
  EXPECT_EQ(receive.poll(), nullptr);
  auto send = pair.a().post_send(filled(pool, 1));
  ASSERT_NE(receive.wait(long_deadline()), nullptr);
  EXPECT_TRUE(*receive.poll());
}

// parity: ibverbs-rs-42
TEST(pending_operation, rdma_operations_transfer_bytes) {
  channel_pair pair;
  const auto pool = pair.pool();
  auto target = pair.memory(4096);
  auto write = pair.a().post_write(filled(pool, 8), target.remote(), {.length = 100});
  ASSERT_TRUE(*write.wait(long_deadline()));
  EXPECT_TRUE(all_are(target.bytes().first(100), 8));
  auto read = pair.a().post_read(filled(pool, 0), target.remote(), {.offset = 50, .length = 60});
  ASSERT_TRUE(*read.wait(long_deadline()));
  EXPECT_TRUE(all_are(read.take_buffer().bytes().subspan(50, 60), 8));
  std::ranges::fill(target.bytes(), std::byte{});
  auto add = pair.a().post_fetch_and_add(filled(pool, 0), target.remote(), 7);
  ASSERT_TRUE(*add.wait(long_deadline()));
  auto swap = pair.a().post_compare_and_swap(add.take_buffer(), target.remote(),
                                             {.expected = 7, .desired = 9});
  ASSERT_TRUE(*swap.wait(long_deadline()));
  const buffer before = swap.take_buffer();
  EXPECT_EQ(before.bytes()[0], std::byte{7});
  EXPECT_EQ(target.bytes()[0], std::byte{9});
}

// parity: ibverbs-rs-47
TEST(pending_operation, refused_operation_returns_the_buffer) {
  channel_pair pair;
  auto other_domain = pair.context().allocate_pd().value();
  const auto foreign = buffer_pool::create(other_domain, {}).value();
  auto send = pair.a().post_send(std::move(*foreign.take(1)));
  ASSERT_NE(send.poll(), nullptr);
  EXPECT_EQ(send.poll()->refusal(), refusal::foreign_domain);
  EXPECT_FALSE(send.take_buffer().empty());
}

// parity: ibverbs-rs-43
TEST(pending_operation, buffer_of_destroyed_handle_is_freed_after_completion) {
  channel_pair pair;
  const auto pool = pair.pool();
  {
    auto dropped = pair.b().post_receive(filled(pool, 0));
  }
  EXPECT_EQ(pool.taken(), 1U);
  ASSERT_TRUE(*pair.a().post_send(filled(pool, 1)).wait(long_deadline()));
  const auto until = long_deadline();
  while (pair.b().in_flight() != 0 && !until.expired()) pair.b().progress();
  EXPECT_EQ(pool.taken(), 0U);
  EXPECT_EQ(pair.b().unseen_failures(), 0U);
}

// parity: ibverbs-rs-44
TEST(pending_operation, failure_without_wait_is_counted) {
  channel_pair pair;
  const auto pool = pair.pool();
  {
    auto dropped = pair.b().post_receive(filled(pool, 0));
  }
  {
    auto dropped = pair.b().post_receive(filled(pool, 0));
  }
  pair.b().flush();
  EXPECT_EQ(pair.b().unseen_failures(), 2U);
  ASSERT_NE(pair.b().first_unseen_failure(), nullptr);
  EXPECT_EQ(pair.b().first_unseen_failure()->end(), operation_end::failed);
  EXPECT_EQ(pair.b().first_unseen_failure()->completion()->status(), completion_status::flushed);
  EXPECT_EQ(pool.taken(), 0U);
}

// parity: ibverbs-rs-45
TEST(pending_operation, outlives_its_channel) {
  channel_pair pair;
  const auto pool = pair.pool();
  auto receive = pair.b().post_receive(filled(pool, 0));
  pair.drop_b();
  EXPECT_TRUE(*pair.a().post_send(filled(pool, 4)).wait(long_deadline()));
  ASSERT_NE(receive.wait(long_deadline()), nullptr);
  EXPECT_TRUE(all_are(receive.take_buffer().bytes(), 4));
}

TEST(pending_operation, destroyed_channel_returns_buffers_in_flight) {
  channel_pair pair;
  const auto pool = pair.pool();
  {
    auto first = pair.b().post_receive(filled(pool, 0));
    auto second = pair.b().post_receive(filled(pool, 0));
    pair.drop_b();
    EXPECT_EQ(pool.taken(), 2U);
  }
  EXPECT_EQ(pool.taken(), 0U);
}

// Two handles, the channel and the pool are destroyed in each of the 24 orders.
// parity: ibverbs-rs-46
TEST(pending_operation, objects_are_destroyed_in_any_order) {
  std::array<int, 4> order{0, 1, 2, 3};
  do {
    channel_pair pair;
    std::optional<buffer_pool> pool(pair.pool());
    std::vector<std::byte> bytes(64);
    int freed = 0;
    std::array<std::optional<pending_operation>, 2> handles;
    handles[0].emplace(pair.b().post_receive(filled(*pool, 0)));
    handles[1].emplace(pair.b().post_receive(adopted_buffer(pair, bytes, freed)));
    for (const int dropped : order) {
      if (dropped < 2) {
        handles[static_cast<std::size_t>(dropped)].reset();
      } else if (dropped == 2) {
        pair.drop_b();
      } else {
        pool.reset();
      }
    }
    EXPECT_EQ(freed, 1);
  } while (std::ranges::next_permutation(order).found);
}

TEST(pending_operation, handles_move_while_in_flight) {
  channel_pair pair;
  const auto pool = pair.pool();
  std::vector<pending_operation> handles;
  handles.reserve(10);
  for (int i = 0; i < 10; ++i) handles.push_back(pair.b().post_receive(filled(pool, 0)));
  std::ranges::reverse(handles);
  handles.front() = std::move(handles.back());
  handles.pop_back();
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(*pair.a().post_send(filled(pool, 1), {.length = 8}).wait(long_deadline()));
  for (auto& handle : handles) ASSERT_NE(handle.wait(long_deadline()), nullptr);
}

TEST(pending_operation, moved_handle_gives_up_the_buffer_only_after_completion) {
  channel_pair pair;
  const auto pool = pair.pool();
  {
    auto first = pair.b().post_receive(filled(pool, 0));
    auto second = pair.b().post_receive(filled(pool, 0));
    first = std::move(second);  // the operation of `first` has no handle any more
    const pending_operation third(std::move(first));
  }
  EXPECT_EQ(pool.taken(), 2U);
  auto outbox = pair.memory(8, 1);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(pair.a().send(source(outbox)));
  const auto until = long_deadline();
  while (pair.b().in_flight() != 0 && !until.expired()) pair.b().progress();
  EXPECT_EQ(pool.taken(), 0U);
}

TEST(pending_operation, full_queue_returns_the_buffer) {
  channel_pair pair;
  const auto pool = pair.pool();
  std::vector<pending_operation> posted;
  while (pair.b().free_receives() != 0) posted.push_back(pair.b().post_receive(*pool.take(1)));
  auto refused = pair.b().post_receive(filled(pool, 7));
  ASSERT_NE(refused.poll(), nullptr);
  EXPECT_EQ(refused.poll()->refusal(), refusal::queue_full);
  EXPECT_TRUE(all_are(refused.take_buffer().bytes(), 7));
  auto outbox = pair.memory(8, 1);
  for (auto& each : posted) {
    ASSERT_TRUE(pair.a().send(source(outbox)));
    ASSERT_EQ(each.wait().value(), 8U);
    EXPECT_EQ(each.take_buffer().bytes()[0], std::byte{1});
  }
}

TEST(pending_operation, wait_delivers_the_completions_of_other_operations) {
  channel_pair pair;
  const auto pool = pair.pool();
  auto target = pair.memory(4096);
  std::vector<pending_operation> writes;
  for (int i = 0; i < 8; ++i)
    writes.push_back(pair.a().post_write(filled(pool, 5), target.remote(), {.length = 8}));
  ASSERT_TRUE(*writes.back().wait(long_deadline()));  // the others have completed before
  for (auto& each : writes) {
    ASSERT_NE(each.poll(), nullptr);
    EXPECT_TRUE(*each.poll());
    EXPECT_TRUE(all_are(each.take_buffer().bytes(), 5));
  }
  EXPECT_EQ(pair.a().in_flight(), 0U);
}

TEST(pending_operation, adopted_memory_is_freed_once_after_completion) {
  channel_pair pair;
  std::vector<std::byte> bytes(64);
  int freed = 0;
  auto outbox = pair.memory(8, 3);
  auto receive = pair.b().post_receive(adopted_buffer(pair, bytes, freed));
  ASSERT_TRUE(pair.a().send(source(outbox)));
  ASSERT_TRUE(receive.wait());
  EXPECT_EQ(bytes[0], std::byte{3});
  EXPECT_EQ(freed, 0);
  receive.take_buffer().reset();
  EXPECT_EQ(freed, 1);
}

TEST(pending_operation, adopted_memory_is_freed_once_after_flush_and_after_destruction) {
  channel_pair pair;
  std::vector<std::byte> bytes(64);
  std::vector<std::byte> more(64);
  int freed = 0;
  int more_freed = 0;
  (void)pair.b().post_receive(adopted_buffer(pair, bytes, freed));
  EXPECT_EQ(freed, 0);  // the adapter still has it
  pair.b().flush();
  EXPECT_EQ(freed, 1);
  (void)pair.a().post_receive(adopted_buffer(pair, more, more_freed));
  EXPECT_EQ(more_freed, 0);
  pair.drop_a();
  EXPECT_EQ(more_freed, 1);
  EXPECT_EQ(freed, 1);
}

TEST(pending_operation, refused_post_returns_adopted_memory) {
  channel_pair pair;
  std::vector<std::byte> bytes(64);
  int freed = 0;
  auto other_domain = pair.context().allocate_pd().value();
  auto foreign =
      buffer::adopt(other_domain.register_memory(bytes, access::local_write).value(), bytes,
                    std::shared_ptr<void>(bytes.data(), [&freed](void*) { ++freed; }));
  auto refused = pair.b().post_receive(std::move(foreign));
  EXPECT_EQ(refused.wait().refusal(), refusal::foreign_domain);
  EXPECT_FALSE(refused.take_buffer().empty());
  EXPECT_EQ(freed, 1);  // the returned buffer was destroyed
}

TEST(pending_operation, timed_wait_leaves_receive_in_flight_and_connection_intact) {
  channel_pair pair;
  const auto pool = pair.pool();
  auto receive = pair.b().post_receive(*pool.take(64));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(receive.wait(deadline::after(1ms)), nullptr);
  EXPECT_EQ(pair.b().in_flight(), 1U);
  EXPECT_EQ(pair.b().failure(), nullptr);
  auto outbox = pair.memory(8, 3);
  ASSERT_TRUE(pair.a().send(source(outbox)));
  EXPECT_EQ(receive.wait().value(), 8U);
  EXPECT_EQ(receive.take_buffer().bytes()[0], std::byte{3});
}

TEST(pending_operation_death, take_of_buffer_in_flight_stops_the_program) {
  channel_pair pair;
  const auto pool = pair.pool();
  auto receive = pair.b().post_receive(filled(pool, 0));
  EXPECT_DEATH((void)receive.take_buffer(), "take_buffer.. of an operation in flight");
}

TEST(pending_operation_death, part_outside_the_buffer_stops_the_program) {
  channel_pair pair;
  const auto pool = pair.pool();
  EXPECT_DEATH((void)pair.b().post_receive(filled(pool, 0), {.offset = 1, .length = 4096}),
               "a buffer_slice exceeds its buffer");
}

}  // namespace
}  // namespace verbena::test
