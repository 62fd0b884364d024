// SPDX-License-Identifier: MIT
#include "softdev/host/event_queue.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <thread>

#include "softdev/ipc/eventfd.hpp"

namespace verbena::softdev {
namespace {

class event_queue_of_capacity_two : public ::testing::Test {
 protected:
  event_queue_of_capacity_two() : queue_(create_eventfd(when_empty::wait).value()) {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i].owner = &counts_[i];
      nodes_[i].kind = i;
    }
  }
  static void count(void* owner, std::uint32_t /*kind*/) { ++*static_cast<int*>(owner); }
  // Returns the kind of the oldest event, or -1 if the queue is empty.
  int pop() {
    const auto event = queue_.pop(&count);
    return event.owner == nullptr ? -1 : static_cast<int>(event.kind);
  }
  [[nodiscard]] bool readable() const {
    pollfd wanted{queue_.fd(), POLLIN, 0};
    return poll(&wanted, 1, 0) == 1;
  }

  event_queue queue_;
  std::array<event_node, 2> nodes_;
  std::array<int, 2> counts_{};
};

TEST_F(event_queue_of_capacity_two, events_are_returned_in_order_and_fd_is_readable_until_empty) {
  EXPECT_FALSE(readable());
  EXPECT_EQ(pop(), -1);
  queue_.push(nodes_[0]);
  queue_.push(nodes_[0]);
  queue_.push(nodes_[1]);
  EXPECT_TRUE(readable());
  EXPECT_EQ(pop(), 0);
  EXPECT_EQ(pop(), 1);
  EXPECT_TRUE(readable());
  EXPECT_EQ(pop(), 0);
  EXPECT_FALSE(readable());
  EXPECT_EQ(pop(), -1);
  EXPECT_EQ(counts_[0], 2);
  EXPECT_EQ(counts_[1], 1);
}

TEST_F(event_queue_of_capacity_two, coalesced_event_is_queued_once) {
  queue_.push_once(nodes_[0]);
  queue_.push_once(nodes_[0]);
  EXPECT_EQ(pop(), 0);
  EXPECT_EQ(pop(), -1);
}

TEST_F(event_queue_of_capacity_two, dropped_node_is_removed_at_any_position) {
  for (const std::uint32_t dropped : {0U, 1U}) {
    queue_.push(nodes_[0]);
    queue_.push(nodes_[1]);
    queue_.push(nodes_[dropped]);
    queue_.drop(nodes_[dropped]);
    EXPECT_EQ(pop(), static_cast<int>(1 - dropped));
    EXPECT_EQ(pop(), -1);
    EXPECT_FALSE(readable());
    queue_.push(nodes_[dropped]);
    EXPECT_TRUE(readable());
    EXPECT_EQ(pop(), static_cast<int>(dropped));
  }
  queue_.push(nodes_[0]);
  queue_.drop(nodes_[0]);
  EXPECT_FALSE(readable());
  queue_.drop(nodes_[0]);
  EXPECT_EQ(pop(), -1);
}

TEST_F(event_queue_of_capacity_two, concurrent_push_and_pop_lose_no_event) {
  constexpr int rounds = 20'000;
  std::thread producer([&] {
    for (int i = 0; i < rounds; ++i) queue_.push(nodes_[static_cast<std::size_t>(i) % 2]);
  });
  for (int taken = 0; taken < rounds;) {
    if (pop() >= 0) {
      ++taken;
    } else {
      ASSERT_EQ(wait_readable(queue_.fd()), 0);
    }
  }
  producer.join();
  EXPECT_EQ(counts_[0] + counts_[1], rounds);
  EXPECT_FALSE(readable());
}

TEST_F(event_queue_of_capacity_two, wait_respects_o_nonblock) {
  ASSERT_EQ(fcntl(queue_.fd(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(wait_readable(queue_.fd()), EAGAIN);
  queue_.push(nodes_[0]);
  EXPECT_EQ(wait_readable(queue_.fd()), 0);
  EXPECT_EQ(wait_readable(-1), EBADF);
}

}  // namespace
}  // namespace verbena::softdev
