// SPDX-License-Identifier: MIT
// Requests with two faults: the responder reports the fault of the earlier check (IBTA 9.7.4.1).
#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::uint32_t unknown_key = 0xbad;

class two_faults : public fabric {
 protected:
  /// Connects `a` with `b`, whose attributes `change` has modified.
  template <class Change>
  void connect_with(Change change) {
    connect(*a.qp, connection_to(b.qp->number()));
    auto attributes = connection_to(a.qp->number());
    change(attributes);
    connect(*b.qp, attributes);
  }
  int post_to_target(opcode op, std::uint32_t key) {
    return post(*a.qp,
                {.wr_id = 1,
                 .opcode = op,
                 .flags = signaled,
                 .remote_address = target.address(),
                 .remote_key = key},
                {source.slice(0, 8)});
  }
  reason why_it_failed() {
    failed = only(*a.sent);
    return static_cast<reason>(failed.vendor_error);
  }

  end_point& a = make();
  end_point& b = make();
  buffer source{*home, 64, everything, 1};
  buffer target{*home, 64, everything, 2};
  completion failed;
};

// parity: semantics-1
TEST_F(two_faults, wrong_psn_is_not_answered_whatever_else_is_wrong) {
  connect_with([](queue_pair_attributes& of) {
    of.receive_psn = 99;
    of.rights = {};
  });
  ASSERT_EQ(post_to_target(opcode::rdma_write, unknown_key), 0);
  run_for(1'000'000'000);
  EXPECT_EQ(why_it_failed(), reason::psn_mismatch);
  EXPECT_EQ(failed.status, completion_status::retry_exceeded);
  EXPECT_EQ(b.qp->state(), queue_pair_state::rts);
}

// parity: semantics-2
TEST_F(two_faults, access_flags_of_the_queue_pair_precede_a_missing_receive) {
  connect_with([](queue_pair_attributes& of) { of.rights = access::remote_read; });
  ASSERT_EQ(post_to_target(opcode::rdma_write_with_imm, target.key()), 0);
  EXPECT_EQ(why_it_failed(), reason::qp_access_denied);
  EXPECT_EQ(failed.status, completion_status::remote_invalid_request);
}

// parity: semantics-3
TEST_F(two_faults, access_flags_of_the_queue_pair_precede_resources_and_rkey) {
  connect_with([](queue_pair_attributes& of) {
    of.rights = access::remote_write;
    of.max_dest_rd_atomic = 0;
  });
  ASSERT_EQ(post_to_target(opcode::rdma_read, unknown_key), 0);
  EXPECT_EQ(why_it_failed(), reason::qp_access_denied);
}

// parity: semantics-4
TEST_F(two_faults, missing_read_resources_precede_the_rkey) {
  connect_with([](queue_pair_attributes& of) { of.max_dest_rd_atomic = 0; });
  ASSERT_EQ(post_to_target(opcode::rdma_read, unknown_key), 0);
  EXPECT_EQ(why_it_failed(), reason::no_responder_resources);
  EXPECT_EQ(failed.status, completion_status::remote_invalid_request);
}

// parity: semantics-5
TEST_F(two_faults, missing_receive_precedes_the_rkey) {
  connect_with([](queue_pair_attributes&) {});
  ASSERT_EQ(post_to_target(opcode::rdma_write_with_imm, unknown_key), 0);
  run_for(2 * rnr_time(12));
  EXPECT_TRUE(a.sent->empty()) << "the request waits for a receive request";
  EXPECT_EQ(b.qp->state(), queue_pair_state::rts);
  ASSERT_EQ(post_receive(*b.qp, 7, {}), 0);
  run_for(rnr_time(12));
  EXPECT_EQ(why_it_failed(), reason::remote_key_unknown);
  EXPECT_EQ(failed.status, completion_status::remote_access_error);
}

// parity: semantics-6
TEST_F(two_faults, length_precedes_the_memory_of_the_receive) {
  connect_with([](queue_pair_attributes&) {});
  ASSERT_EQ(post_receive(*b.qp, 7, {{.address = 1, .length = 7, .lkey = unknown_key}}), 0);
  ASSERT_EQ(post(*a.qp, {.wr_id = 1}, {source.slice(0, 8)}), 0);
  EXPECT_EQ(why_it_failed(), reason::peer_receive_too_short);
  EXPECT_EQ(only(*b.received).status, completion_status::local_length_error);
}

// IBTA 11.6.2, Local Access Error.
// parity: semantics-7
TEST_F(two_faults, receive_of_a_write_with_wrong_rkey_fails_with_local_access_error) {
  connect_with([](queue_pair_attributes&) {});
  ASSERT_EQ(post_receive(*b.qp, 7, {}), 0);
  ASSERT_EQ(post_receive(*b.qp, 8, {}), 0);
  ASSERT_EQ(post_to_target(opcode::rdma_write_with_imm, unknown_key), 0);
  EXPECT_EQ(why_it_failed(), reason::remote_key_unknown);
  EXPECT_EQ(failed.status, completion_status::remote_access_error);
  const auto received = drain(*b.received);
  ASSERT_EQ(received.size(), 2U);
  EXPECT_EQ(received[0].wr_id, 7U);
  EXPECT_EQ(received[0].status, completion_status::local_access_error);
  EXPECT_EQ(explain(received[0]).find("rkey 0xbad is not registered"), 0U);
  EXPECT_EQ(received[1].wr_id, 8U);
  EXPECT_EQ(received[1].status, completion_status::flushed);
  EXPECT_EQ(events_of(queue_pair_event::access_error), 1U);
}

// The receive request remains for the next message.
// parity: semantics-8
TEST_F(two_faults, write_with_wrong_rkey_over_uc_consumes_no_receive) {
  end_point& c = make({.transport = transport::uc});
  end_point& d = make({.transport = transport::uc});
  connect_pair(c, d);
  ASSERT_EQ(post_receive(*d.qp, 7, {target.slice(0, 8)}), 0);
  ASSERT_EQ(post(*c.qp,
                 {.opcode = opcode::rdma_write_with_imm,
                  .remote_address = target.address(),
                  .remote_key = unknown_key},
                 {source.slice(0, 8)}),
            0);
  EXPECT_EQ(d.qp->diagnosis().drops.count(reason::remote_key_unknown), 1U);
  EXPECT_TRUE(d.received->empty());
  ASSERT_EQ(post(*c.qp, {.flags = signaled}, {source.slice(0, 8)}), 0);
  EXPECT_EQ(only(*d.received).status, completion_status::success);
  EXPECT_TRUE(target.holds(1, 0, 8, 0));
}

}  // namespace
}  // namespace verbena::softdev::testing
