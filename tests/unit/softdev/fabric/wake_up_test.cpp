// SPDX-License-Identifier: MIT
// Which thread of a sleeping peer is woken by a request or an acknowledgement: the thread that
// waits for a completion channel, the progress thread, or none until its next check.
#include <gtest/gtest.h>
#include <poll.h>

#include "tests/unit/softdev/fabric/device_pair.hpp"

namespace verbena::softdev::testing {
namespace {

using namespace std::chrono_literals;

bool is_readable(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  return ::poll(&wanted, 1, 0) == 1;
}

/// A device whose queue pair has one completion queue line with a channel that the peer knows.
struct sleeper {
  sleeper(device& of, const end_point& end)
      : home(of),
        channel(home.peer_link->channels().create().value()),
        line(home.peer_link->segment().claim_completion_queue(channel.id).value()) {
    home.peer_link->segment().set_completion_queues(end.qp->number(), line, line);
  }
  void arm(arm_state state) const { home.peer_link->segment().arm(line, state); }
  void fall_asleep(sleep_kind kind) const {
    drain();
    ASSERT_TRUE(home.peer_link->sleeper().announce_sleep(clock::now(), kind));
  }
  void awake() const { home.peer_link->sleeper().announce_awake(); }
  /// Takes the signals.
  void drain() const {
    static_cast<void>(channel.receiver->take());
    home.turn();
  }
  bool channel_is_signaled() const { return is_readable(channel.receiver->fd()); }
  bool thread_is_woken() const { return is_readable(home.peer_link->service_fd()); }

  device& home;
  wake_channels::created channel;
  std::uint32_t line;
};

struct wake_ups : ::testing::Test {
  wake_ups() {
    pair.connect_ends();
    pair.settle();
    for (int i = 0; i < 40; ++i) EXPECT_EQ(post_receive(*pair.b->qp, 1, {target.slice(0, 64)}), 0);
    // The peers fetch the channels at the first signals.
    const auto fetch = [&](device& from, const sleeper& of) {
      const auto peer = from.peer_link->find(of.home.peer_link->slot());
      EXPECT_TRUE(pair.until([&] { return peer->signal_channel(of.channel.id); }));
    };
    fetch(pair.left, right);
    fetch(pair.right, left);
    pair.settle();
    right.drain();
    left.drain();
  }
  void send(send_flags flags = {}) {
    ASSERT_EQ(post(*pair.a->qp, {.flags = flags}, {source.slice(0, 16)}), 0);
  }

  static link_options by_ring() {
    link_options options;
    options.route = route_policy::ring;
    return options;
  }

  device_pair pair{by_ring()};
  shared_buffer source{pair.left, memory_kind::ordinary, 4096, 1};
  shared_buffer target{pair.right, memory_kind::ordinary, 4096, 2};
  sleeper left{pair.left, *pair.a};
  sleeper right{pair.right, *pair.b};
};

TEST_F(wake_ups, send_to_an_armed_queue_signals_only_the_channel_of_a_peer_that_checks) {
  right.arm(arm_state::any);
  right.fall_asleep(sleep_kind::with_check);
  send();
  EXPECT_TRUE(right.channel_is_signaled());
  EXPECT_FALSE(right.thread_is_woken());
  send();
  EXPECT_FALSE(right.thread_is_woken()) << "the signal for this arming was not taken yet";
  right.awake();
  EXPECT_EQ(pair.wait_for(*pair.b->received, 2).size(), 2U) << "the records are in the ring";
}

TEST_F(wake_ups, send_to_an_armed_queue_signals_also_a_thread_that_does_not_check) {
  right.arm(arm_state::any);
  right.fall_asleep(sleep_kind::until_signal);
  send();
  EXPECT_TRUE(right.channel_is_signaled());
  EXPECT_TRUE(right.thread_is_woken());
  right.awake();
}

TEST_F(wake_ups, send_to_a_queue_that_is_not_armed_wakes_a_thread_that_checks) {
  right.arm(arm_state::none);
  right.fall_asleep(sleep_kind::with_check);
  send();
  EXPECT_FALSE(right.channel_is_signaled());
  EXPECT_TRUE(right.thread_is_woken());
  right.awake();
  right.arm(arm_state::solicited);
  right.fall_asleep(sleep_kind::with_check);
  send();
  EXPECT_TRUE(right.thread_is_woken()) << "it raises no event";
  right.awake();
}

TEST_F(wake_ups, requests_without_an_event_wake_a_thread_that_checks) {
  right.arm(arm_state::any);
  right.fall_asleep(sleep_kind::with_check);
  ASSERT_EQ(post(*pair.a->qp,
                 {.opcode = opcode::rdma_read,
                  .remote_address = target.address(),
                  .remote_key = target.key()},
                 {source.slice(0, 16)}),
            0);
  EXPECT_TRUE(right.thread_is_woken());
  right.awake();
}

TEST_F(wake_ups, request_that_is_tried_again_wakes_a_thread_that_checks) {
  pair.settle();
  while (post_receive(*pair.a->qp, 1, {source.slice(0, 64)}) != 0) {
  }
  // `a` has one receive and is sent two messages.
  left.arm(arm_state::any);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(post(*pair.b->qp, {}, {target.slice(0, 16)}), 0);
  pair.settle();
  left.drain();
  left.fall_asleep(sleep_kind::with_check);
  virtual_now += 1'000'000'000;
  pair.right.turn();
  EXPECT_TRUE(left.thread_is_woken()) << "the signal for this arming resulted in no event";
  left.awake();
}

TEST_F(wake_ups, acknowledgement_signals_the_channel_of_an_armed_send_queue) {
  left.arm(arm_state::any);
  left.fall_asleep(sleep_kind::with_check);
  send(signaled);
  pair.right.turn();
  EXPECT_TRUE(left.channel_is_signaled());
  EXPECT_FALSE(left.thread_is_woken());
  EXPECT_TRUE(drain(*pair.a->sent).empty());
  left.awake();
  pair.left.turn();
  EXPECT_EQ(drain(*pair.a->sent).size(), 1U);
}

TEST_F(wake_ups, reply_for_the_arming_of_an_acknowledgement_needs_no_signal) {
  ASSERT_EQ(post_receive(*pair.a->qp, 1, {source.slice(0, 64)}), 0);
  left.arm(arm_state::any);
  left.fall_asleep(sleep_kind::with_check);
  send(signaled);
  pair.right.turn();
  EXPECT_TRUE(left.channel.receiver->take());
  ASSERT_EQ(post(*pair.b->qp, {}, {target.slice(0, 16)}), 0);
  EXPECT_FALSE(left.channel_is_signaled());
  EXPECT_FALSE(left.thread_is_woken());
  left.arm(arm_state::any);
  ASSERT_EQ(post(*pair.b->qp, {}, {target.slice(0, 16)}), 0);
  EXPECT_TRUE(left.channel_is_signaled()) << "the next arming is signaled";
  left.awake();
}

TEST_F(wake_ups, acknowledgement_without_completion_wakes_no_thread_that_checks) {
  left.arm(arm_state::any);
  left.fall_asleep(sleep_kind::with_check);
  send();
  pair.right.turn();
  EXPECT_FALSE(left.channel_is_signaled());
  EXPECT_FALSE(left.thread_is_woken());
  left.awake();
  left.fall_asleep(sleep_kind::until_signal);
  send();
  pair.right.turn();
  EXPECT_TRUE(left.thread_is_woken());
  left.awake();
}

TEST_F(wake_ups, acknowledgement_for_a_channel_that_cannot_be_signaled_wakes_the_thread) {
  const auto other = pair.left.peer_link->segment().claim_completion_queue(0).value();
  pair.left.peer_link->segment().set_completion_queues(pair.a->qp->number(), {}, other);
  pair.left.peer_link->segment().arm(other, arm_state::any);
  left.fall_asleep(sleep_kind::with_check);
  send(signaled);
  pair.right.turn();
  EXPECT_TRUE(left.thread_is_woken());
  left.awake();
}

// The peer handled the record before it armed the queue, but its sender read the arming.
TEST_F(wake_ups, signal_that_is_taken_in_vain_is_repeated) {
  right.arm(arm_state::any);
  for (int round = 0; round < 2; ++round) {
    SCOPED_TRACE(round);
    right.fall_asleep(sleep_kind::with_check);
    send();
    EXPECT_TRUE(right.channel_is_signaled() || right.thread_is_woken());
    right.awake();
  }
  pair.settle();
  left.arm(arm_state::any);
  for (int round = 0; round < 2; ++round) {
    SCOPED_TRACE(round);
    left.fall_asleep(sleep_kind::with_check);
    send(signaled);
    pair.right.turn();
    EXPECT_TRUE(left.channel_is_signaled() || left.thread_is_woken());
    left.awake();
  }
}

TEST_F(wake_ups, refusal_wakes_a_thread_that_checks) {
  left.arm(arm_state::any);
  left.fall_asleep(sleep_kind::with_check);
  ASSERT_EQ(post(*pair.a->qp, {}, {source.slice(0, 128)}), 0);  // longer than the receive
  pair.right.turn();
  EXPECT_TRUE(left.thread_is_woken());
  left.awake();
}

TEST_F(wake_ups, ring_that_fills_wakes_a_thread_that_checks) {
  right.arm(arm_state::any);
  right.fall_asleep(sleep_kind::with_check);
  const auto to = pair.left.peer_link->find(pair.right.peer_link->slot());
  int announced = 0;
  while (!right.thread_is_woken()) {
    const auto lock = to->lock_sends();
    ASSERT_EQ(to->try_reserve(1, 1000).status, ring_status::ok) << "the ring is full";
    to->commit();
    static_cast<void>(to->announce(attention::at_check));
    ++announced;
  }
  EXPECT_GT(announced, 1);
  right.awake();
}

}  // namespace
}  // namespace verbena::softdev::testing
