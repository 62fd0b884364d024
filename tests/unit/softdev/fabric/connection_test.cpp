// SPDX-License-Identifier: MIT
// Begin and end of connections between devices: records of an earlier connection, the event
// "communication established", requests that fail in part, and room that returns.
#include <array>
#include <functional>
#include <string>

#include "tests/unit/softdev/fabric/device_pair.hpp"

namespace verbena::softdev::testing {
namespace {

class reconnections : public ::testing::TestWithParam<transport> {
 protected:
  /// As `end_run` of the sender: all records are announced, and the receiver does not run.
  void reset_both() {
    for (end_point* end : {pair.a, pair.b})
      end->qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
  }
  void run(const std::function<bool()>& done) {
    EXPECT_TRUE(pair.until([&] {
      virtual_now += 1'000'000;
      return done();
    }));
  }
  device_pair pair{{}, GetParam()};
  shared_buffer source{pair.left, memory_kind::ordinary, 4096, 1};
  shared_buffer target{pair.right, memory_kind::ordinary, 4096, 2};
};

TEST_P(reconnections, requests_of_the_connection_before_are_not_executed) {
  pair.connect_ends();
  pair.settle();
  for (int round = 0; round < 3; ++round) {
    // Short and long requests, which different parts of the receiver handle.
    for (const std::size_t bytes : {16, 2000})
      ASSERT_EQ(post(*pair.a->qp, {.wr_id = 1}, {source.slice(0, bytes)}), 0);
    reset_both();
    pair.connect_ends();
    for (const std::size_t at : {0, 2048})
      ASSERT_EQ(post_receive(*pair.b->qp, 7, {target.slice(at, 2048)}), 0);
    ASSERT_EQ(post(*pair.a->qp, {.wr_id = 2, .flags = signaled}, {source.slice(8, 24)}), 0);
    run([&] { return !pair.b->received->empty() && !pair.a->sent->empty(); });
    EXPECT_EQ(only(*pair.a->sent).status, completion_status::success);
    EXPECT_EQ(only(*pair.b->received).byte_count, 24U) << "in round " << round;
    EXPECT_TRUE(target.holds(1, 0, 24, 8));
  }
}

TEST_P(reconnections, receiver_executes_requests_that_arrive_after_it_is_ready) {
  pair.connect_ends();
  pair.settle();
  reset_both();
  pair.connect_ends();
  ASSERT_EQ(post_receive(*pair.b->qp, 7, {target.slice(0, 2048)}), 0);
  ASSERT_EQ(post(*pair.a->qp, {.flags = signaled}, {source.slice(8, 24)}), 0);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).byte_count, 24U) << "without a retry";
}

INSTANTIATE_TEST_SUITE_P(over, reconnections, ::testing::Values(transport::rc, transport::uc),
                         [](const auto& chosen) {
                           return std::string(chosen.param == transport::rc ? "rc" : "uc");
                         });

struct established_case {
  const char* name;
  route_policy policy;
  memory_kind memory;
  std::uint64_t by_ring;  ///< requests that the responder executes
};

class established_events : public ::testing::TestWithParam<established_case>,
                           private queue_pair_observer {
 protected:
  void event(queue_pair&, queue_pair_event what) override {
    if (what == queue_pair_event::communication_established) ++events;
  }
  device_pair pair{{.route = GetParam().policy}};
  end_point& receiver = pair.right.make({.observer = this});
  shared_buffer source{pair.left, memory_kind::ordinary, 64, 1};
  shared_buffer target{pair.right, GetParam().memory, 64, 2};
  int events = 0;
};

TEST_P(established_events, event_is_raised_once_if_the_first_requests_are_writes) {
  connect(*pair.a->qp, connection_to(receiver.qp->number()));
  to_init(*receiver.qp, connection_to(pair.a->qp->number()));
  to_rtr(*receiver.qp, connection_to(pair.a->qp->number()));
  pair.settle();
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(post(*pair.a->qp,
                   {.opcode = opcode::rdma_write,
                    .flags = signaled,
                    .remote_address = target.address(),
                    .remote_key = target.key()},
                   {source.slice(0, 8)}),
              0);
    EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
    EXPECT_EQ(events, 1);
    pair.settle();
  }
  // Although the responder stays in RTR, it executes only the first requests.
  EXPECT_EQ(pair.left.path->counters().by_ring, GetParam().by_ring);
}

INSTANTIATE_TEST_SUITE_P(
    by, established_events,
    ::testing::Values(established_case{"mapped", route_policy::automatic, memory_kind::shareable,
                                       2},  // the second one requests the memory
                      established_case{"copied", route_policy::automatic, memory_kind::ordinary, 1},
                      established_case{"ring", route_policy::ring, memory_kind::ordinary, 4}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

/// Unreliable requests through rings of 16 KiB.
struct unreliable_requests : ::testing::Test {
  static constexpr std::size_t size = 65'536;
  device_pair pair{{.route = route_policy::ring, .ring_bytes = min_ring_bytes}, transport::uc};
  shared_buffer left{pair.left, memory_kind::ordinary, size, 1};
  shared_buffer right{pair.right, memory_kind::ordinary, size, 2};
};

TEST_F(unreliable_requests, request_after_a_failure_in_part_is_not_its_continuation) {
  pair.connect_ends();
  pair.settle();
  shared_buffer lost(pair.left, memory_kind::ordinary, size, 3);
  for (const std::size_t at : {std::size_t{0}, size / 2})
    ASSERT_EQ(post_receive(*pair.b->qp, at, {right.slice(at, at == 0 ? size : 64)}), 0);
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 1, .flags = signaled}, {lost.slice(0, size)}), 0);
  ASSERT_TRUE(pair.a->sent->empty()) << "the ring has no room for all";
  lost.deregister();
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status,
            completion_status::local_protection_error);
  EXPECT_EQ(pair.a->qp->state(), queue_pair_state::sqe);
  pair.a->qp->modify({.state = queue_pair_state::rts}, attribute::state).value();
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 2, .flags = signaled}, {left.slice(0, 8)}), 0);
  pair.settle();
  EXPECT_EQ(only(*pair.a->sent).wr_id, 2U);
  const completion got = only(*pair.b->received);
  EXPECT_EQ(got.wr_id, 0U);
  EXPECT_EQ(got.byte_count, 8U);
  EXPECT_TRUE(right.holds(1, 0, 8, 0));
}

TEST_F(unreliable_requests, sender_that_uses_returned_room_makes_the_others_run) {
  const std::array senders{pair.a, &pair.left.make({.transport = transport::uc})};
  const std::array receivers{pair.b, &pair.right.make({.transport = transport::uc})};
  for (std::size_t i = 0; i < senders.size(); ++i) {
    connect(*senders[i]->qp, connection_to(receivers[i]->qp->number()));
    connect(*receivers[i]->qp, connection_to(senders[i]->qp->number()));
  }
  pair.settle();
  // The last requests of both wait for room.
  for (const end_point* each : senders) {
    do {
      ASSERT_EQ(post(*each->qp, {.flags = signaled}, {left.slice(0, 2000)}), 0);
    } while (!drain(*each->sent).empty());
  }
  EXPECT_FALSE(finds_records(*pair.left.peer_link));
  ASSERT_GT(pair.left.core->next_deadline(), 0U);
  // The first sender uses room that returns while the receiver still receives.
  int records = 0;
  const auto consume = [&](peer&, const ring_record&) {
    if (++records == 3) {
      EXPECT_EQ(post(*senders[0]->qp, {}, {left.slice(0, 8)}), 0);
      EXPECT_EQ(drain(*senders[0]->sent).size(), 1U);
    }
    return handled::consumed;
  };
  ASSERT_GT(pair.right.peer_link->receive(consume, 100), 0U);
  EXPECT_TRUE(pair.left.core->next_deadline() == 0 || finds_records(*pair.left.peer_link))
      << "the second sender waits, and its process may sleep";
}

}  // namespace
}  // namespace verbena::softdev::testing
