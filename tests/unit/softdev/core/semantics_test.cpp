// SPDX-License-Identifier: MIT
// Rules of the InfiniBand specification; docs/parity/semantics.md lists them with their tests.
#include <cerrno>

#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

using state = queue_pair_state;
constexpr time_ns rnr_wait = 640'000;           // min_rnr_timer 12 is 0.64 ms
constexpr time_ns answer_timeout = 67'108'864;  // 4.096 us * 2^14

class semantics : public connected {
 protected:
  send_request towards(const buffer& where, opcode op, std::uint64_t id, std::size_t at = 0) {
    return {.wr_id = id,
            .opcode = op,
            .flags = signaled,
            .remote_address = where.address() + at,
            .remote_key = where.key()};
  }
  /// Posts the requests as one list.
  void post_list(const std::vector<std::pair<send_request, sge>>& list) {
    a.qp->sends().open();
    for (const auto& [request, data] : list) ASSERT_EQ(a.qp->sends().add(request, {&data, 1}), 0);
    a.qp->sends().submit();
  }
};

// parity: semantics-102
TEST_F(semantics, requests_behind_a_refused_one_are_not_executed) {
  send_request refused = towards(target, opcode::rdma_write, 2, 64);
  refused.remote_key ^= 0x100;
  post_list({{towards(target, opcode::rdma_write, 1, 0), source.slice(0, 64)},
             {refused, source.slice(64, 64)},
             {towards(target, opcode::rdma_write, 3, 128), source.slice(128, 64)}});
  const auto done = drain(*a.sent);
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[0].status, completion_status::success);
  EXPECT_EQ(done[1].status, completion_status::remote_access_error);
  EXPECT_EQ(done[2].status, completion_status::flushed);
  for (std::uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(done[id - 1].wr_id, id);
  EXPECT_TRUE(target.holds(1, 0, 64, 0));
  EXPECT_TRUE(target.holds(2, 64, 128, 64));
}

// parity: semantics-99
TEST_F(semantics, failed_unsignaled_request_completes_and_earlier_ones_do_not) {
  send_request fine = towards(target, opcode::rdma_write, 1);
  send_request refused = towards(target, opcode::rdma_write, 2, 4096);
  fine.flags = refused.flags = {};
  post_list({{fine, source.slice(0, 8)}, {refused, source.slice(0, 8)}});
  const completion done = only(*a.sent);
  EXPECT_EQ(done.wr_id, 2U);
  EXPECT_EQ(done.status, completion_status::remote_access_error);
}

// parity: semantics-87
TEST_F(semantics, read_returns_what_an_earlier_write_has_written) {
  post_list({{towards(target, opcode::rdma_write, 1), source.slice(0, 512)},
             {towards(target, opcode::rdma_read, 2), source.slice(2048, 512)}});
  EXPECT_EQ(drain(*a.sent).size(), 2U);
  EXPECT_TRUE(source.holds(1, 2048, 512, 0));
}

// parity: semantics-35
TEST_F(semantics, atomic_behind_a_send_in_rnr_wait_is_executed_once) {
  target.word(8) = 40;
  send_request add = towards(target, opcode::fetch_add, 2, 64);
  add.compare_or_add = 3;
  post_list({{{.wr_id = 1, .flags = signaled}, source.slice(0, 8)}, {add, source.slice(64, 8)}});
  run_for(2 * rnr_wait);
  EXPECT_EQ(target.word(8), 40U);
  ASSERT_EQ(post_receive(*b.qp, 3, {target.slice(0, 8)}), 0);
  run_for(rnr_wait);
  EXPECT_EQ(drain(*a.sent).size(), 2U);
  EXPECT_EQ(source.word(8), 40U);
  EXPECT_EQ(target.word(8), 43U);
}

// parity: semantics-67
TEST_F(semantics, receive_posted_in_init_waits_for_rtr) {
  for (end_point* end : {&a, &b})
    end->qp->modify({.state = state::reset}, attribute::state).value();
  to_init(*b.qp, connection_to(a.qp->number()));
  ASSERT_EQ(post_receive(*b.qp, 7, {target.slice(0, 8)}), 0);
  connect(*a.qp, connection_to(b.qp->number()));
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .flags = signaled}, {source.slice(0, 8)}), 0);
  run_for(answer_timeout);
  EXPECT_TRUE(b.received->empty());
  EXPECT_TRUE(target.holds(2, 0, 8, 0));
  to_rtr(*b.qp, connection_to(a.qp->number()));
  run_for(answer_timeout);
  EXPECT_EQ(only(*b.received).wr_id, 7U);
  EXPECT_EQ(only(*a.sent).status, completion_status::success);
}

// parity: semantics-78
TEST_F(semantics, queue_pair_in_the_error_state_drops_requests) {
  to_error(*b.qp);
  ASSERT_EQ(post(*a.qp, towards(target, opcode::rdma_write, 1), {source.slice(0, 8)}), 0);
  run_for(4 * answer_timeout);
  const completion done = only(*a.sent);
  EXPECT_EQ(done.status, completion_status::retry_exceeded);
  EXPECT_EQ(done.vendor_error, static_cast<std::uint32_t>(reason::peer_not_ready));
  EXPECT_NE(explain(done).find("state ERR"), std::string::npos) << explain(done);
  EXPECT_TRUE(target.holds(2, 0, 8, 0));
}

// parity: semantics-72
TEST_F(semantics, sq_drained_is_raised_only_if_requested) {
  a.qp->modify({.state = state::sqd}, attribute::state).value();
  EXPECT_FALSE(a.qp->query().draining);
  EXPECT_EQ(events_of(queue_pair_event::send_queue_drained), 0U);
  // A request for the event applies to one transition only.
  a.qp->modify({.state = state::rts}, attribute::state).value();
  a.qp->modify({.state = state::sqd, .sqd_notify = true}, attribute::state | attribute::sqd_notify)
      .value();
  EXPECT_EQ(events_of(queue_pair_event::send_queue_drained), 1U);
  for (const state next : {state::rts, state::sqd})
    a.qp->modify({.state = next}, attribute::state).value();
  EXPECT_EQ(events_of(queue_pair_event::send_queue_drained), 1U);
}

TEST_F(semantics, request_for_sq_drained_ends_when_sqd_is_left) {
  // The request waits for a receive request of its responder, so the send queue does not drain.
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .flags = signaled}, {source.slice(0, 8)}), 0);
  a.qp->modify({.state = state::sqd, .sqd_notify = true}, attribute::state | attribute::sqd_notify)
      .value();
  EXPECT_TRUE(a.qp->query().draining);
  for (const state next : {state::rts, state::sqd})
    a.qp->modify({.state = next}, attribute::state).value();
  ASSERT_EQ(post_receive(*b.qp, 7, {target.slice(0, 8)}), 0);
  run_for(answer_timeout);
  EXPECT_EQ(only(*a.sent).status, completion_status::success);
  EXPECT_FALSE(a.qp->query().draining);
  EXPECT_EQ(events_of(queue_pair_event::send_queue_drained), 0U);
}

// parity: semantics-90
TEST_F(semantics, fenced_write_sends_the_result_of_an_earlier_atomic) {
  target.word(0) = 7;
  send_request fenced = towards(target, opcode::rdma_write, 2, 64);
  fenced.flags |= send_flag::fence;
  post_list(
      {{towards(target, opcode::fetch_add, 1), source.slice(0, 8)}, {fenced, source.slice(0, 8)}});
  EXPECT_EQ(drain(*a.sent).size(), 2U);
  EXPECT_EQ(target.word(8), 7U) << "the write did not send the result of the atomic";
}

// parity: semantics-55, semantics-63
TEST_F(semantics, path_mtu_and_alternate_path_that_the_port_lacks_are_refused) {
  a.qp->modify({.state = state::reset}, attribute::state).value();
  queue_pair_attributes wanted = connection_to(b.qp->number());
  to_init(*a.qp, wanted);
  wanted.state = state::rtr;
  EXPECT_FALSE(a.qp->modify(wanted, rtr_mask | attribute::alternate_path));
  for (const std::uint8_t mtu : {0, 6}) {
    wanted.path_mtu = mtu;
    EXPECT_EQ(a.qp->modify(wanted, rtr_mask).error().code(), EINVAL);
  }
  EXPECT_EQ(a.qp->state(), state::init);
}

class shared_semantics : public fabric {
 protected:
  int post_shared(std::uint64_t id, const sge& sink) {
    shared.open();
    const int code = shared.add(id, {&sink, 1});
    shared.close();
    return code;
  }

  shared_receive_queue shared{{.domain = domain_id{1}, .max_wr = 4, .max_sge = 1}};
};

// parity: semantics-28
TEST_F(shared_semantics, message_longer_than_a_shared_receive_fails_its_connection_only) {
  end_point& a = make();
  end_point& b = make();
  end_point& a_peer = make({.shared_receives = &shared});
  end_point& b_peer = make({.shared_receives = &shared});
  connect_pair(a, a_peer);
  connect_pair(b, b_peer);
  buffer memory(*home, 64, everything, 1);
  for (const std::uint64_t id : {1, 2}) ASSERT_EQ(post_shared(id, memory.slice(8 * id, 8)), 0);
  ASSERT_EQ(post(*a.qp, {.wr_id = 5}, {memory.slice(0, 9)}), 0);
  EXPECT_EQ(only(*a.sent).status, completion_status::remote_invalid_request);
  const completion failed = only(*a_peer.received);
  EXPECT_EQ(failed.wr_id, 1U);
  EXPECT_EQ(failed.status, completion_status::local_length_error);
  EXPECT_EQ(a_peer.qp->state(), state::error);
  EXPECT_EQ(events_of(queue_pair_event::last_request_reached), 1U);
  ASSERT_EQ(post(*b.qp, {.wr_id = 6, .flags = signaled}, {memory.slice(0, 8)}), 0);
  EXPECT_EQ(only(*b_peer.received).wr_id, 2U);
  EXPECT_EQ(only(*b.sent).status, completion_status::success);
}

// parity: semantics-29
TEST_F(shared_semantics, message_longer_than_a_shared_receive_is_dropped_over_uc) {
  end_point& a = make({.transport = transport::uc});
  end_point& b = make({.transport = transport::uc, .shared_receives = &shared});
  connect_pair(a, b);
  buffer memory(*home, 64, everything, 1);
  ASSERT_EQ(post_shared(1, memory.slice(8, 8)), 0);
  for (const std::size_t bytes : {9, 8})
    ASSERT_EQ(post(*a.qp, {.wr_id = bytes, .flags = signaled}, {memory.slice(0, bytes)}), 0);
  EXPECT_EQ(drain(*a.sent).size(), 2U);
  const completion got = only(*b.received);
  EXPECT_EQ(got.wr_id, 1U);
  EXPECT_EQ(got.byte_count, 8U);
  EXPECT_EQ(b.qp->diagnosis().drops.count(reason::receive_too_short), 1U);
}

}  // namespace
}  // namespace verbena::softdev::testing
