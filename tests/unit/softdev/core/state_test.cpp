// SPDX-License-Identifier: MIT
// Queue pair states: all transitions, their required attributes, and the requests that each state
// accepts.
#include <cerrno>

#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

using state = queue_pair_state;

class states : public fabric {
 protected:
  void bring(state wanted) {
    const auto attributes = connection_to(b.qp->number());
    if (wanted == state::reset) return;
    to_init(*a.qp, attributes);
    if (wanted == state::init) return;
    to_rtr(*a.qp, attributes);
    if (wanted == state::rtr) return;
    to_rts(*a.qp, attributes);
    if (wanted == state::sqd) a.qp->modify({.state = state::sqd}, attribute::state).value();
    if (wanted == state::error) to_error(*a.qp);
  }
  int try_modify(state next, attribute_mask mask) {
    auto attributes = connection_to(b.qp->number());
    attributes.state = next;
    const auto result = a.qp->modify(attributes, mask | attribute::state);
    return result ? 0 : result.error().code();
  }

  end_point& a = make();
  end_point& b = make();
};

attribute_mask required(state from, state to) {
  if (from == state::reset && to == state::init) return init_mask;
  if (from == state::init && to == state::rtr) return rtr_mask;
  if (from == state::rtr && to == state::rts) return rts_mask;
  return attribute::state;
}
bool legal(state from, state to) {
  if (to == state::reset) return true;
  if (to == state::error) return from != state::reset;
  switch (from) {
    case state::reset:
      return to == state::init;
    case state::init:
      return to == state::init || to == state::rtr;
    case state::rtr:
      return to == state::rts;
    case state::rts:
    case state::sqd:
      return to == state::rts || to == state::sqd;
    default:
      return false;
  }
}

constexpr state all_states[] = {state::reset, state::init, state::rtr,
                                state::rts,   state::sqd,  state::error};

class state_transition : public states,
                         public ::testing::WithParamInterface<std::tuple<state, state>> {};
// parity: semantics-59
TEST_P(state_transition, state_transition_follows_the_table) {
  const auto [from, to] = GetParam();
  bring(from);
  ASSERT_EQ(a.qp->state(), from);
  if (!legal(from, to)) {
    EXPECT_EQ(try_modify(to, required(from, to)), EINVAL);
    EXPECT_EQ(a.qp->state(), from);
    return;
  }
  for (std::uint32_t bit = 1; bit < 21; ++bit) {
    const auto one = attribute_mask::from_mask(1U << bit);
    if (!required(from, to).contains(one)) continue;
    EXPECT_EQ(try_modify(to, required(from, to).without(one)), EINVAL) << "without bit " << bit;
    EXPECT_EQ(a.qp->state(), from) << "a failed transition changed the state";
  }
  EXPECT_EQ(try_modify(to, required(from, to) | attribute::qkey), EINVAL)
      << "an attribute that the transition does not permit was accepted";
  EXPECT_EQ(try_modify(to, required(from, to)), 0);
  EXPECT_EQ(a.qp->state(), to);
}
INSTANTIATE_TEST_SUITE_P(of_a_queue_pair, state_transition,
                         ::testing::Combine(::testing::ValuesIn(all_states),
                                            ::testing::ValuesIn(all_states)));

// parity: semantics-57
TEST_F(states, attribute_out_of_range_is_refused_and_named) {
  bring(state::init);
  auto bad = connection_to(b.qp->number());
  bad.state = state::rtr;
  bad.path_mtu = 6;
  const auto refused = a.qp->modify(bad, rtr_mask);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), EINVAL);
  EXPECT_NE(refused.error().message().find("PATH_MTU is 6, the range is 1 to 5"),
            std::string::npos);
  bad.path_mtu = 5;
  bad.receive_psn = 0x1000000;
  EXPECT_FALSE(a.qp->modify(bad, rtr_mask));
  bad.receive_psn = 0xffffff;
  bad.destination_qpn = 0x1000000;
  EXPECT_FALSE(a.qp->modify(bad, rtr_mask));
  bad.destination_qpn = b.qp->number();
  bad.max_dest_rd_atomic = 17;
  EXPECT_FALSE(a.qp->modify(bad, rtr_mask));
  bad.max_dest_rd_atomic = 16;
  EXPECT_TRUE(a.qp->modify(bad, rtr_mask));
}

// parity: semantics-64
TEST_F(states, modify_with_wrong_current_state_is_refused) {
  bring(state::rts);
  EXPECT_FALSE(a.qp->modify({.current_state = state::sqd}, attribute::current_state));
  EXPECT_TRUE(a.qp->modify({.current_state = state::rts}, attribute::current_state));
}

// parity: semantics-62
TEST_F(states, missing_attribute_is_refused_and_named) {
  const auto refused =
      a.qp->modify({.state = state::init, .port = 1}, attribute::state | attribute::port);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("RESET to INIT: missing ACCESS_FLAGS, PKEY_INDEX"),
            std::string::npos)
      << refused.error().message();
}

TEST_F(states, query_returns_the_attributes_that_were_set) {
  bring(state::rts);
  const queue_pair_attributes now = a.qp->query();
  EXPECT_EQ(now.state, state::rts);
  EXPECT_EQ(now.destination_qpn, b.qp->number());
  EXPECT_EQ(now.timeout, 14);
  EXPECT_EQ(now.retry_count, 3);
  EXPECT_EQ(now.min_rnr_timer, 12);
  EXPECT_EQ(now.send_psn, 100U);
  EXPECT_EQ(now.rights, everything);
}

// parity: semantics-66
TEST_F(states, post_in_state_that_forbids_posting_is_refused) {
  EXPECT_EQ(post_receive(*a.qp, 1, {}), EINVAL);
  for (const state each : {state::reset, state::init, state::rtr}) {
    a.qp->modify({.state = state::reset}, attribute::state).value();
    bring(each);
    EXPECT_EQ(post(*a.qp, {.wr_id = 1}, {}), EINVAL);
    if (each != state::reset) {
      EXPECT_EQ(post_receive(*a.qp, 1, {}), 0);
    }
  }
}

// parity: semantics-80
TEST_F(states, reset_discards_requests_without_completions_and_frees_slots) {
  connect_pair(a, b);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(post_receive(*a.qp, 1, {}), 0);
  EXPECT_EQ(post_receive(*a.qp, 1, {}), ENOMEM);
  a.qp->modify({.state = state::reset}, attribute::state).value();
  EXPECT_TRUE(a.received->empty());
  bring(state::init);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(post_receive(*a.qp, 1, {}), 0);
}

// Otherwise a program that reconnects a failed queue pair would poll its old failures.
// parity: semantics-81
TEST_F(states, reset_removes_earlier_completions) {
  connect_pair(a, b);
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(post(*a.qp, {.opcode = opcode::rdma_write, .flags = signaled}, {}), 0);
  EXPECT_FALSE(a.sent->empty());
  for (end_point* end : {&a, &b})
    end->qp->modify({.state = state::reset}, attribute::state).value();
  EXPECT_TRUE(a.sent->empty());
  connect_pair(a, b);
  for (std::uint64_t id = 0; id < 64; ++id)
    ASSERT_EQ(post(*a.qp, {.wr_id = id, .opcode = opcode::rdma_write, .flags = signaled}, {}), 0);
  EXPECT_EQ(post(*a.qp, {.opcode = opcode::rdma_write}, {}), ENOMEM);
  EXPECT_EQ(drain(*a.sent).size(), 64U);
}

// parity: semantics-69
TEST_F(states, sqd_holds_posted_requests_and_raises_sq_drained) {
  connect_pair(a, b);
  a.qp->modify({.state = state::sqd, .sqd_notify = true}, attribute::state | attribute::sqd_notify)
      .value();
  EXPECT_EQ(events_of(queue_pair_event::send_queue_drained), 1U);
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .opcode = opcode::rdma_write, .flags = signaled}, {}), 0);
  EXPECT_TRUE(a.sent->empty());
  ASSERT_EQ(post_receive(*a.qp, 2, {}), 0);
  ASSERT_EQ(post(*b.qp, {.wr_id = 3, .flags = signaled}, {}), 0);
  EXPECT_EQ(only(*a.received).wr_id, 2U) << "the queue pair receives in SQD";
  a.qp->modify({.state = state::rts}, attribute::state).value();
  home->progress();
  EXPECT_EQ(only(*a.sent).wr_id, 1U);
}

// A request that was sent has begun, also if the peer has no receive request for it.
// parity: semantics-70
TEST_F(states, sqd_completes_a_request_in_rnr_wait_before_sq_drained) {
  connect_pair(a, b);
  for (const std::uint64_t id : {1, 2})
    ASSERT_EQ(post(*a.qp, {.wr_id = id, .flags = signaled}, {}), 0);
  a.qp->modify({.state = state::sqd, .sqd_notify = true}, attribute::state | attribute::sqd_notify)
      .value();
  run_for(rnr_time(12));
  EXPECT_EQ(events_of(queue_pair_event::send_queue_drained), 0U);
  EXPECT_TRUE(a.qp->query().draining);
  ASSERT_EQ(post_receive(*b.qp, 3, {}), 0);
  ASSERT_EQ(post_receive(*b.qp, 4, {}), 0);
  run_for(rnr_time(12));
  EXPECT_EQ(only(*a.sent).wr_id, 1U);
  EXPECT_EQ(only(*b.received).wr_id, 3U);
  EXPECT_EQ(events_of(queue_pair_event::send_queue_drained), 1U);
  EXPECT_FALSE(a.qp->query().draining);
  run_for(10 * rnr_time(12));
  EXPECT_TRUE(a.sent->empty()) << "the second request was not sent before, so it waits";
  a.qp->modify({.state = state::rts}, attribute::state).value();
  home->progress();
  EXPECT_EQ(only(*a.sent).wr_id, 2U);
}

// parity: semantics-65
TEST_F(states, refused_modification_changes_no_attribute) {
  bring(state::rts);
  const queue_pair_attributes before = a.qp->query();
  queue_pair_attributes wanted{.rights = access::remote_read, .path_mtu = 3, .min_rnr_timer = 32};
  EXPECT_FALSE(a.qp->modify(wanted, attribute::access_flags | attribute::path_mtu));
  EXPECT_FALSE(a.qp->modify(wanted, attribute::access_flags | attribute::min_rnr_timer));
  wanted.state = state::rtr;
  EXPECT_FALSE(a.qp->modify(wanted, attribute::state | attribute::access_flags));
  const queue_pair_attributes after = a.qp->query();
  EXPECT_EQ(after.rights, before.rights);
  EXPECT_EQ(after.path_mtu, before.path_mtu);
  EXPECT_EQ(after.min_rnr_timer, before.min_rnr_timer);
  EXPECT_EQ(after.state, state::rts);
}

// parity: semantics-68
TEST_F(states, queue_pair_in_rtr_receives) {
  to_init(*a.qp, connection_to(b.qp->number()));
  to_rtr(*a.qp, connection_to(b.qp->number()));
  connect(*b.qp, connection_to(a.qp->number()));
  ASSERT_EQ(post_receive(*a.qp, 2, {}), 0);
  ASSERT_EQ(post(*b.qp, {.wr_id = 3, .flags = signaled}, {}), 0);
  EXPECT_EQ(only(*a.received).wr_id, 2U);
  EXPECT_EQ(events_of(queue_pair_event::communication_established), 1U);
}

TEST_F(fabric, qp_numbers_are_random_unique_and_contain_the_process_slot) {
  std::map<std::uint32_t, int> seen;
  std::uint32_t last = 0;
  int successors = 0;
  for (int i = 0; i < 300; ++i) {
    const std::uint32_t number = make({.capabilities = {}, .completions = 1}).qp->number();
    EXPECT_EQ(number >> 14U, 5U);
    EXPECT_EQ(++seen[number], 1);
    successors += number == last + 1 ? 1 : 0;
    last = number;
  }
  EXPECT_LT(successors, 5);
}

TEST_F(fabric, qp_number_of_destroyed_queue_pair_is_not_reused_soon) {
  std::map<std::uint32_t, int> seen;
  completion_queue cq({.capacity = 1});
  for (int i = 0; i < 900; ++i) {
    auto* qp = home->create({.send_queue = &cq, .receive_queue = &cq}).value();
    EXPECT_EQ(++seen[qp->number()], 1);
    home->destroy(qp);
  }
}

// parity: semantics-132
TEST_F(fabric, capabilities_beyond_the_limits_are_refused_and_named) {
  completion_queue cq({.capacity = 1});
  const auto refused =
      home->create({.send_queue = &cq, .receive_queue = &cq, .capabilities = {.max_send_sge = 64}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), EINVAL);
  EXPECT_NE(refused.error().message().find("max_send_sge 64 > device max 30"), std::string::npos);
  EXPECT_FALSE(home->create({.send_queue = &cq}));
}

}  // namespace
}  // namespace verbena::softdev::testing
