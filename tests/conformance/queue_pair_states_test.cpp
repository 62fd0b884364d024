// SPDX-License-Identifier: MIT
// Queue pair states: required attributes, results and invalid transitions.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <utility>

#include "tests/conformance/traffic.hpp"

namespace verbena::conformance {
namespace {

using attributes = queue_pair_attributes;

class queue_pair_states : public ::testing::Test {
 protected:
  void SetUp() override {
    VERBENA_NEEDS(!is_iwarp(), "queue pairs of iWARP are connected by the connection manager");
    VERBENA_NEEDS(!is_efa(), "an EFA has no connected queue pairs");
  }
  [[nodiscard]] prepared_queue_pair<rc> prepare(
      const queue_pair_options<rc>& options = default_options()) const {
    return pd_.create_qp<rc>(queue_, queue_, options).value();
  }
  // Returns the errno of a transition that must fail with a message that contains `words`.
  static void expect_refused(const result<void>& outcome, const std::string& words) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code(), EINVAL) << outcome.error().message();
    EXPECT_NE(outcome.error().message().find(words), std::string::npos)
        << outcome.error().message() << "\ndoes not contain: " << words;
  }

  protection_domain pd_ = tested().context.allocate_pd().value();
  completion_queue queue_ = tested().context.create_cq(64).value();
};

// parity: ibverbs-172, ibverbs-173
TEST_F(queue_pair_states, new_queue_pair_is_in_reset_with_requested_capabilities) {
  const auto prepared = prepare({.queues = {.max_send_wr = 10,
                                            .max_recv_wr = 20,
                                            .max_send_sge = 2,
                                            .max_recv_sge = 3,
                                            .max_inline_data = 32}});
  EXPECT_EQ(prepared.current_state().value(), queue_pair_state::reset);
  EXPECT_GE(prepared.capabilities().max_send_wr, 10U);
  EXPECT_GE(prepared.capabilities().max_recv_wr, 20U);
  EXPECT_GE(prepared.capabilities().max_send_sge, 2U);
  EXPECT_GE(prepared.capabilities().max_recv_sge, 3U);
  EXPECT_GE(prepared.capabilities().max_inline_data, 32U);
}

// parity: ibverbs-tests-83, ibverbs-205, rrddmma-69
TEST_F(queue_pair_states, queue_pair_reaches_rts_through_init_and_rtr) {
  auto prepared = prepare();
  const endpoint itself = prepared.endpoint();
  prepared.modify(prepared.init_attributes()).value();
  EXPECT_EQ(prepared.current_state().value(), queue_pair_state::init);
  prepared.modify(prepared.rtr_attributes(itself).value()).value();
  EXPECT_EQ(prepared.current_state().value(), queue_pair_state::ready_to_receive);
  prepared.modify(prepared.rts_attributes(itself)).value();
  EXPECT_EQ(prepared.current_state().value(), queue_pair_state::ready_to_send);
}

// parity: ibverbs-224, ibverbs-176, ibverbs-195
TEST_F(queue_pair_states, query_returns_the_attributes_that_were_set) {
  auto options = default_options();
  options.first_psn = packet_sequence_number(0x123456);
  options.reliability.timeout = ack_timeout::from_exponent(13);
  options.reliability.retry_count = 5;
  options.reliability.rnr_retry_count = 4;
  options.reliability.min_rnr_timer = rnr_timer::from_encoding(9);
  options.route.path_mtu = mtu::bytes_512;
  options.reliability.read_depth = 2;
  auto prepared = prepare(options);
  const endpoint itself = prepared.endpoint();
  const auto queue = std::move(prepared).handshake(itself).value();
  using enum queue_pair_attribute;
  const auto found =
      queue
          .query(queue_pair_attribute_mask(state) | access | port | address | path_mtu | timeout |
                 retry_count | rnr_retry_count | receive_psn | send_psn | initiator_depth |
                 responder_resources | min_rnr_timer | destination | pkey_index)
          .value();
  EXPECT_EQ(found.state(), queue_pair_state::ready_to_send);
  EXPECT_EQ(found.destination(), queue.number());
  EXPECT_EQ(found.port(), port_number(1));
  EXPECT_EQ(found.pkey_index(), 0);
  EXPECT_EQ(found.path_mtu(), mtu::bytes_512);
  EXPECT_EQ(found.timeout(), ack_timeout::from_exponent(13));
  EXPECT_EQ(found.retry_count(), 5);
  EXPECT_EQ(found.rnr_retry_count(), 4);
  EXPECT_EQ(found.min_rnr_timer(), rnr_timer::from_encoding(9));
  EXPECT_EQ(found.receive_psn(), packet_sequence_number(0x123456));
  EXPECT_EQ(found.send_psn(), packet_sequence_number(0x123456));
  EXPECT_EQ(found.initiator_depth(), 2);
  EXPECT_EQ(found.responder_resources(), 2);
  EXPECT_TRUE(found.access().value().contains(default_options().access));
  ASSERT_TRUE(found.address().has_value());
  EXPECT_EQ(found.address()->gid, itself.gid);
}

// parity: ibverbs-220
TEST_F(queue_pair_states, every_state_can_move_to_error_and_then_to_reset) {
  for (int steps = 1; steps < 4; ++steps) {
    auto prepared = prepare();
    const endpoint itself = prepared.endpoint();
    prepared.modify(prepared.init_attributes()).value();
    if (steps >= 2) prepared.modify(prepared.rtr_attributes(itself).value()).value();
    if (steps >= 3) prepared.modify(prepared.rts_attributes(itself)).value();
    prepared.modify(attributes().set_state(queue_pair_state::error)).value();
    EXPECT_EQ(prepared.current_state().value(), queue_pair_state::error) << steps;
    prepared.modify(attributes().set_state(queue_pair_state::reset)).value();
    EXPECT_EQ(prepared.current_state().value(), queue_pair_state::reset) << steps;
  }
}

// parity: rrddmma-77
TEST_F(queue_pair_states, queue_pair_is_reusable_after_reset) {
  auto prepared = prepare();
  const endpoint itself = prepared.endpoint();
  for (int life = 0; life < 3; ++life) {
    prepared.modify(prepared.init_attributes()).value();
    prepared.modify(prepared.rtr_attributes(itself).value()).value();
    prepared.modify(prepared.rts_attributes(itself)).value();
    EXPECT_EQ(prepared.current_state().value(), queue_pair_state::ready_to_send);
    prepared.modify(attributes().set_state(queue_pair_state::reset)).value();
  }
}

// parity: ibverbs-215
TEST_F(queue_pair_states, skipped_state_is_refused) {
  auto prepared = prepare();
  const endpoint itself = prepared.endpoint();
  expect_refused(prepared.modify(prepared.rts_attributes(itself)), "RTS");
  expect_refused(prepared.modify(prepared.rtr_attributes(itself).value()), "RTR");
  EXPECT_EQ(prepared.current_state().value(), queue_pair_state::reset)
      << "a failed transition changed the state";
  prepared.modify(prepared.init_attributes()).value();
  expect_refused(prepared.modify(prepared.rts_attributes(itself)), "RTS");
  EXPECT_EQ(prepared.current_state().value(), queue_pair_state::init);
}

// parity: ibverbs-tests-75, ibverbs-215
TEST_F(queue_pair_states, backward_transition_is_refused) {
  auto prepared = prepare();
  const endpoint itself = prepared.endpoint();
  const auto back = prepared.init_attributes();
  auto queue = std::move(prepared).handshake(itself).value();
  expect_refused(queue.modify(back), "INIT");
  EXPECT_EQ(queue.current_state().value(), queue_pair_state::ready_to_send);
}

// parity: ibverbs-216
TEST_F(queue_pair_states, missing_attribute_is_refused_and_named) {
  auto prepared = prepare();
  const endpoint itself = prepared.endpoint();
  expect_refused(
      prepared.modify(prepared.init_attributes().remove(queue_pair_attribute::pkey_index)),
      "PKEY_INDEX");
  prepared.modify(prepared.init_attributes()).value();
  expect_refused(prepared.modify(prepared.rtr_attributes(itself).value().remove(
                     queue_pair_attribute::destination)),
                 "DEST_QPN");
  prepared.modify(prepared.rtr_attributes(itself).value()).value();
  expect_refused(
      prepared.modify(prepared.rts_attributes(itself).remove(queue_pair_attribute::send_psn)),
      "SQ_PSN");
}

// parity: ibverbs-217
TEST_F(queue_pair_states, surplus_attribute_is_refused) {
  auto prepared = prepare();
  expect_refused(prepared.modify(prepared.init_attributes().set_retry_count(3)), "RETRY_CNT");
}

TEST_F(queue_pair_states, nonexistent_port_is_refused) {
  auto prepared = prepare();
  EXPECT_FALSE(prepared.modify(prepared.init_attributes().set_port(port_number(77))));
  EXPECT_EQ(prepared.current_state().value(), queue_pair_state::reset);
}

TEST_F(queue_pair_states, access_flags_can_be_changed_in_rts) {
  auto prepared = prepare();
  const endpoint itself = prepared.endpoint();
  auto queue = std::move(prepared).handshake(itself).value();
  queue.modify(attributes().set_access(access::remote_read)).value();
  const auto found = queue.query(queue_pair_attribute::access).value();
  EXPECT_TRUE(found.access().value().contains(access::remote_read));
  EXPECT_FALSE(found.access().value().contains(access::remote_write));
  const auto memory = pd_.allocate(4096, all_access()).value();
  auto batch = queue.start_send();
  batch.write({.signaled = true}, memory.slice(0, 8), memory.remote().slice(64, 8));
  batch.submit().value();
  EXPECT_FALSE(take_one(queue_).ok());
}

TEST_F(queue_pair_states, capabilities_beyond_the_device_limits_are_refused_at_creation) {
  const auto device = tested().context.query().value();
  auto options = default_options();
  options.queues.max_send_wr = static_cast<std::uint32_t>(device.max_work_requests()) + 1;
  const auto refused = pd_.create_qp<rc>(queue_, queue_, options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find(std::to_string(device.max_work_requests())),
            std::string::npos)
      << "the message does not name the limit: " << refused.error().message();
  options = default_options();
  options.queues.max_send_sge = static_cast<std::uint32_t>(device.max_sge()) + 1;
  EXPECT_FALSE(pd_.create_qp<rc>(queue_, queue_, options));
}

}  // namespace
}  // namespace verbena::conformance
