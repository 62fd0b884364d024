// SPDX-License-Identifier: MIT
// ACKs that a process sends together with its next request.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string_view>

#include "tests/unit/softdev/wire/socket/wired_host.hpp"

namespace verbena::softdev::wire {
namespace {

/// Counts the system calls that send packets, and the packets. Threads: one thread at a time.
class counting_watcher final : public packet_watcher {
 public:
  void sending() noexcept override { ++calls; }
  void sent(const network_header& /*around*/,
            std::span<const std::byte> /*packet*/) noexcept override {
    ++packets;
  }
  void sent_all() noexcept override {}
  void arrived(const network_header& /*around*/,
               std::span<const std::byte> /*packet*/) noexcept override {}
  void settled(std::string_view /*note*/) noexcept override {}
  void dismissed() noexcept override {}
  void settled_all() noexcept override {}

  int calls = 0;
  int packets = 0;
};

/// The program of the second process polls, and receives a message.
class polling_receiver : public ::testing::Test {
 protected:
  void SetUp() override {
    second.path.watch(watcher);
    first.timeout = second.timeout = long_timeout;
    first.connect(second);
    second.connect(first);
    ASSERT_TRUE(first.mine.post_receive(4, first.memory.slice(64, 64)));
    ASSERT_NO_FATAL_FAILURE(send_message());
    // The ACK is postponed if the program answered the previous message soon. The thread of the
    // test may not run for a while.
    for (int tries = 0; !second.path.has_postponed_acks() && tries < 10'000; ++tries) {
      ASSERT_TRUE(second.mine.post(message, {second.memory.slice(0, 8)}));
      for (completion_queue* each :
           {&first.mine.sent(), &first.mine.received(), &second.mine.sent()}) {
        ASSERT_EQ(next_completion({&first, &second}, *each).status, completion_status::success);
      }
      ASSERT_TRUE(first.mine.post_receive(4, first.memory.slice(64, 64)));
      watcher.packets = watcher.calls = 0;
      ASSERT_NO_FATAL_FAILURE(send_message());
    }
    ASSERT_TRUE(second.path.has_postponed_acks());
    ASSERT_EQ(watcher.packets, 0);
    ASSERT_FALSE(second.path.needs_progress()) << "no reason to wake the thread";
  }
  void send_message() {
    ASSERT_TRUE(second.mine.post_receive(3, second.memory.slice(0, 64)));
    ASSERT_TRUE(first.mine.post(message, {first.memory.slice(0, 8)}));
    std::array<completion, 1> got;
    ASSERT_TRUE(run_until({&first}, [&] {
      second.path.progress(ack_time::later);
      return second.mine.received().poll(got) == 1;
    }));
  }
  void expect_success() {
    EXPECT_EQ(next_completion({&first}, first.mine.sent()).status, completion_status::success);
  }

  static constexpr send_request message{
      .wr_id = 7, .opcode = opcode::send, .flags = send_flag::signaled};
  const std::uint16_t port = free_port();
  counting_watcher watcher;  // outlives the paths
  wired_host first{1, port};
  wired_host second{2, port};
};

TEST_F(polling_receiver, answer_and_ack_are_sent_by_one_system_call) {
  ASSERT_TRUE(second.mine.post(message, {second.memory.slice(0, 8)}));
  EXPECT_EQ(watcher.packets, 2);
  EXPECT_EQ(watcher.calls, 1);
  expect_success();
  EXPECT_EQ(next_completion({&first, &second}, first.mine.received()).status,
            completion_status::success);
}

TEST_F(polling_receiver, next_poll_sends_the_ack) {
  second.path.progress(ack_time::later);
  EXPECT_EQ(watcher.packets, 1);
  expect_success();
}

TEST_F(polling_receiver, exit_of_the_process_sends_the_ack) {
  second.path.flush_before_exit();
  EXPECT_EQ(watcher.packets, 1);
  expect_success();
}

// The last packets of the process that has the port, for another process of the host, pass through
// the socket of the first one.
TEST_F(polling_receiver, exit_of_the_owner_of_the_port_forwards_the_ack) {
  ASSERT_EQ(first.path.role(), port_share::role::owner);
  ASSERT_TRUE(second.mine.post(message, {second.memory.slice(0, 8)}));
  ASSERT_TRUE(run_until({}, [this] {
    first.path.progress(ack_time::later);
    return !first.mine.received().empty();
  }));
  first.path.flush_before_exit();
  EXPECT_EQ(next_completion({&second}, second.mine.sent()).status, completion_status::success);
}

TEST_F(polling_receiver, reset_of_the_queue_pair_sends_the_ack) {
  second.pair().modify({.state = queue_pair_state::reset}, attribute::state).value();
  EXPECT_EQ(watcher.packets, 1);
  expect_success();
}

}  // namespace
}  // namespace verbena::softdev::wire
