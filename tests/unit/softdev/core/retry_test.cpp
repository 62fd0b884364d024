// SPDX-License-Identifier: MIT
// Retries in virtual time: no receive posted, no peer, peer not ready.
#include <array>

#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

using retrying = connected;
constexpr time_ns rnr_12 = 640'000;         // min_rnr_timer 12 is 0.64 ms
constexpr time_ns timeout_14 = 67'108'864;  // 4.096 us * 2^14

// parity: semantics-22
TEST_F(retrying, rnr_request_is_retried_after_the_rnr_timer) {
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .flags = signaled}, {source.slice(0, 16)}), 0);
  EXPECT_TRUE(a.sent->empty());
  while (home->progress()) {
  }
  EXPECT_EQ(home->next_deadline(), virtual_now + rnr_12);
  ASSERT_EQ(post_receive(*b.qp, 2, {target.slice(0, 16)}), 0);
  run_for(rnr_12 - 1);
  EXPECT_TRUE(a.sent->empty()) << "a retry before the RNR timer expires";
  run_for(1);
  EXPECT_EQ(only(*a.sent).status, completion_status::success);
  EXPECT_EQ(only(*b.received).wr_id, 2U);
  EXPECT_TRUE(target.holds(1, 0, 16, 0));
  EXPECT_EQ(home->next_deadline(), never);
}

// The codes of ibv_modify_qp(3), in microseconds.
// parity: semantics-23
TEST_F(fabric, rnr_timer_codes_have_their_times) {
  constexpr std::array<time_ns, 32> microseconds = {
      655'360, 10,     20,     30,     40,     60,      80,      120,     160,     240,    320,
      480,     640,    960,    1280,   1920,   2560,    3840,    5120,    7680,    10'240, 15'360,
      20'480,  30'720, 40'960, 61'440, 81'920, 122'880, 163'840, 245'760, 327'680, 491'520};
  end_point& a = make();
  end_point& b = make();
  for (std::uint8_t code = 0; code < microseconds.size(); ++code) {
    for (end_point* end : {&a, &b})
      end->qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
    connect(*a.qp, connection_to(b.qp->number()));
    auto slow = connection_to(a.qp->number());
    slow.min_rnr_timer = code;
    connect(*b.qp, slow);
    ASSERT_EQ(post(*a.qp, {.wr_id = code, .flags = signaled}, {}), 0);
    ASSERT_EQ(post_receive(*b.qp, code, {}), 0);
    run_for(microseconds[code] * 1000 - 1);
    EXPECT_TRUE(a.sent->empty()) << "code " << int{code};
    run_for(1);
    EXPECT_EQ(only(*a.sent).wr_id, code);
    EXPECT_EQ(only(*b.received).wr_id, code);
  }
}

// parity: semantics-24
TEST_F(retrying, rnr_retries_are_counted_and_limited) {
  const time_ns start = virtual_now;
  ASSERT_EQ(post(*a.qp, {.wr_id = 1}, {source.slice(0, 16)}), 0);
  while (a.sent->empty()) {
    ASSERT_NE(home->next_deadline(), never);
    run_for(home->next_deadline() - virtual_now);
  }
  EXPECT_EQ(virtual_now - start, 3 * rnr_12);
  const completion done = only(*a.sent);
  EXPECT_EQ(done.status, completion_status::rnr_retry_exceeded);
  EXPECT_NE(explain(done).find("no receive request posted; 3 retries, RNR timer code 12"),
            std::string::npos);
  EXPECT_EQ(b.qp->state(), queue_pair_state::rts)
      << "a missing receive does not fail the responder";
}

// parity: semantics-26
TEST_F(retrying, progress_resets_the_rnr_count) {
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(post(*a.qp, {.wr_id = i, .flags = signaled}, {source.slice(0, 16)}), 0);
    run_for(2 * rnr_12);
    ASSERT_EQ(post_receive(*b.qp, i, {target.slice(0, 16)}), 0);
    run_for(rnr_12);
    EXPECT_EQ(only(*a.sent).status, completion_status::success);
  }
}

// parity: semantics-25
TEST_F(fabric, rnr_retry_of_7_retries_without_limit) {
  end_point& a = make();
  end_point& b = make();
  auto unlimited = connection_to(b.qp->number());
  unlimited.rnr_retry = 7;
  connect(*a.qp, unlimited);
  connect(*b.qp, connection_to(a.qp->number()));
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .flags = signaled}, {}), 0);
  run_for(1000 * rnr_12);
  EXPECT_TRUE(a.sent->empty());
  ASSERT_EQ(post_receive(*b.qp, 2, {}), 0);
  run_for(rnr_12);
  EXPECT_EQ(only(*a.sent).status, completion_status::success);
}

// parity: semantics-84
TEST_F(retrying, write_does_not_overtake_a_send_in_rnr_wait) {
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .flags = signaled}, {source.slice(0, 16)}), 0);
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 2,
                  .opcode = opcode::rdma_write,
                  .flags = signaled,
                  .remote_address = target.address() + 64,
                  .remote_key = target.key()},
                 {source.slice(64, 16)}),
            0);
  EXPECT_TRUE(target.holds(2, 64, 16, 64));
  EXPECT_TRUE(a.sent->empty());
  ASSERT_EQ(post_receive(*b.qp, 3, {target.slice(0, 16)}), 0);
  run_for(rnr_12);
  const auto done = drain(*a.sent);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].wr_id, 1U);
  EXPECT_EQ(done[1].wr_id, 2U);
  EXPECT_TRUE(target.holds(1, 64, 16, 64));
}

struct silent_case {
  const char* name;
  reason why;
};
class silent_peer : public fabric, public ::testing::WithParamInterface<silent_case> {
 protected:
  /// Prepares `b` so that it does not answer, and returns the queue pair number for `a`.
  std::uint32_t arrange(end_point& a, end_point& b) {
    auto back = connection_to(a.qp->number());
    switch (GetParam().why) {
      case reason::peer_unknown:
        return unused_number();
      case reason::peer_not_ready:
        to_init(*b.qp, back);
        break;
      case reason::peer_not_connected:
        back.destination_qpn = b.qp->number();
        connect(*b.qp, back);
        break;
      case reason::psn_mismatch:
        back.receive_psn = 99;
        connect(*b.qp, back);
        break;
      default:
        return 0x123456;  // a slot of another process without a path
    }
    return b.qp->number();
  }
};
// parity: semantics-39
TEST_P(silent_peer, unanswered_request_fails_with_retry_exceeded_after_all_timeouts) {
  end_point& a = make();
  end_point& b = make();
  connect(*a.qp, connection_to(arrange(a, b)));
  ASSERT_EQ(post(*a.qp, {.wr_id = 1}, {}), 0);
  run_for(4 * timeout_14 - 1);
  EXPECT_TRUE(a.sent->empty());
  run_for(1);
  const completion done = only(*a.sent);
  EXPECT_EQ(done.status, completion_status::retry_exceeded);
  EXPECT_EQ(done.vendor_error, static_cast<std::uint32_t>(GetParam().why));
  EXPECT_GT(explain(done).size(), 20U);
  EXPECT_EQ(a.qp->state(), queue_pair_state::error);
}
INSTANTIATE_TEST_SUITE_P(of_a_peer, silent_peer,
                         ::testing::Values(silent_case{"unknown", reason::peer_unknown},
                                           silent_case{"not_ready", reason::peer_not_ready},
                                           silent_case{"not_connected", reason::peer_not_connected},
                                           silent_case{"psn_mismatch", reason::psn_mismatch},
                                           silent_case{"unreachable", reason::peer_unreachable}),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

TEST_F(fabric, request_is_retried_when_the_peer_becomes_ready) {
  end_point& a = make();
  end_point& b = make();
  connect(*a.qp, connection_to(b.qp->number()));
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .opcode = opcode::rdma_write, .flags = signaled}, {}), 0);
  EXPECT_TRUE(a.sent->empty());
  to_init(*b.qp, connection_to(a.qp->number()));
  to_rtr(*b.qp, connection_to(a.qp->number()));
  home->progress();
  EXPECT_EQ(only(*a.sent).status, completion_status::success);
  EXPECT_EQ(events_of(queue_pair_event::communication_established), 1U);
  run_for(10 * timeout_14);
  EXPECT_TRUE(a.sent->empty());
  EXPECT_EQ(home->next_deadline(), never);
}

// parity: semantics-40
TEST_F(fabric, timeout_of_0_waits_without_limit) {
  end_point& a = make();
  end_point& b = make();
  auto unlimited = connection_to(b.qp->number());
  unlimited.timeout = 0;
  connect(*a.qp, unlimited);
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .opcode = opcode::rdma_write, .flags = signaled}, {}), 0);
  run_for(3'600'000'000'000);
  EXPECT_TRUE(a.sent->empty());
  EXPECT_EQ(a.qp->state(), queue_pair_state::rts);
}

// parity: semantics-76
TEST_F(retrying, move_to_error_flushes_waiting_requests) {
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .flags = signaled}, {source.slice(0, 16)}), 0);
  to_error(*a.qp);
  EXPECT_EQ(only(*a.sent).status, completion_status::flushed);
  run_for(100 * rnr_12);
  EXPECT_TRUE(a.sent->empty());
}

// parity: semantics-82
TEST_F(retrying, reset_discards_waiting_requests_and_queue_pair_is_reusable) {
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .flags = signaled}, {source.slice(0, 16)}), 0);
  for (end_point* end : {&a, &b})
    end->qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
  run_for(100 * rnr_12);
  EXPECT_TRUE(a.sent->empty());
  connect_pair(a, b);
  ASSERT_EQ(post_receive(*b.qp, 2, {target.slice(0, 16)}), 0);
  ASSERT_EQ(post(*a.qp, {.wr_id = 3, .flags = signaled}, {source.slice(32, 16)}), 0);
  EXPECT_EQ(only(*a.sent).wr_id, 3U);
  EXPECT_TRUE(target.holds(1, 0, 16, 32));
}

TEST_F(retrying, destroying_a_queue_pair_cancels_its_timers) {
  end_point& c = make();
  connect(*c.qp, connection_to(0x123456));
  ASSERT_EQ(post(*c.qp, {.wr_id = 1}, {}), 0);
  home->destroy(c.qp);
  ends.pop_back();
  run_for(100 * timeout_14);
  EXPECT_EQ(home->next_deadline(), never);
}

TEST_F(fabric, timers_of_many_queue_pairs_fire_on_time) {
  std::vector<end_point*> waiting;
  for (std::uint8_t code = 1; code <= 20; ++code) {
    end_point& one = make({.capabilities = {}});
    auto attributes = connection_to(0x123456);
    attributes.timeout = code;
    attributes.retry_count = 0;
    connect(*one.qp, attributes);
    ASSERT_EQ(post(*one.qp, {.wr_id = code, .opcode = opcode::rdma_write}, {}), 0);
    waiting.push_back(&one);
  }
  const time_ns start = virtual_now;
  for (std::uint8_t code = 1; code <= 20; ++code) {
    run_for(start + (time_ns{4096} << code) - 1 - virtual_now);
    EXPECT_TRUE(waiting[code - 1U]->sent->empty());
    run_for(1);
    EXPECT_EQ(only(*waiting[code - 1U]->sent).status, completion_status::retry_exceeded);
  }
}

}  // namespace
}  // namespace verbena::softdev::testing
