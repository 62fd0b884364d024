// SPDX-License-Identifier: MIT
#include "src/verbs/queue_pair_transitions.hpp"

#include <gtest/gtest.h>

#include <array>

namespace verbena {
namespace {

using attribute = queue_pair_attribute;
using state = queue_pair_state;
using detail::explain_transition;

constexpr auto rc_init =
    attribute::state | attribute::pkey_index | attribute::port | attribute::access;
const auto rc_rtr = attribute::state | attribute::address | attribute::path_mtu |
                    attribute::destination | attribute::receive_psn |
                    attribute::responder_resources | attribute::min_rnr_timer;
const auto rc_rts = attribute::state | attribute::timeout | attribute::retry_count |
                    attribute::rnr_retry_count | attribute::send_psn | attribute::initiator_depth;

TEST(queue_pair_transitions, valid_transitions_have_no_explanation) {
  EXPECT_EQ(explain_transition({IBV_QPT_RC, state::reset, state::init}, rc_init), "");
  EXPECT_EQ(explain_transition({IBV_QPT_RC, state::init, state::ready_to_receive}, rc_rtr), "");
  EXPECT_EQ(explain_transition({IBV_QPT_RC, state::ready_to_receive, state::ready_to_send}, rc_rts),
            "");
}

// parity: ibverbs-tests-12
TEST(queue_pair_transitions, missing_attributes_are_named) {
  EXPECT_EQ(explain_transition({IBV_QPT_RC, state::reset, state::init},
                               attribute::state | attribute::port),
            "the transition from RESET to INIT needs ACCESS_FLAGS | PKEY_INDEX, which is missing");
}

// parity: ibverbs-218
TEST(queue_pair_transitions, missing_and_excess_attributes_are_named_together) {
  EXPECT_EQ(explain_transition({IBV_QPT_RC, state::ready_to_receive, state::ready_to_send},
                               rc_rts.without(attribute::timeout) | attribute::qkey),
            "the transition from RTR to RTS needs TIMEOUT, which is missing, and does not permit "
            "QKEY; RC queue pairs do not have QKEY");
}

// parity: ibverbs-219
TEST(queue_pair_transitions, optional_attributes_are_allowed) {
  EXPECT_EQ(explain_transition({IBV_QPT_RC, state::init, state::ready_to_receive},
                               rc_rtr | attribute::access | attribute::alternate_path),
            "");
  EXPECT_EQ(explain_transition({IBV_QPT_RC, state::ready_to_send, state::ready_to_send},
                               attribute::state | attribute::access | attribute::min_rnr_timer),
            "");
}

// parity: ibverbs-tests-13
TEST(queue_pair_transitions, a_transition_that_does_not_exist_is_named) {
  EXPECT_EQ(explain_transition({IBV_QPT_RC, state::ready_to_send, state::init}, rc_init),
            "there is no transition from RTS to INIT");
  EXPECT_EQ(explain_transition({IBV_QPT_RC, state::init, state::ready_to_send}, rc_rts),
            "there is no transition from INIT to RTS");
  EXPECT_EQ(explain_transition({IBV_QPT_RC, state::reset, state::error}, attribute::state),
            "there is no transition from RESET to ERR");
  EXPECT_EQ(explain_transition({IBV_QPT_RC, state::send_queue_error, state::ready_to_send},
                               attribute::state),
            "there is no transition from SQE to RTS");
}

// parity: ibverbs-tests-14, ibverbs-220
TEST(queue_pair_transitions, reset_and_error_need_only_the_state) {
  const std::array from = {state::init, state::ready_to_receive, state::ready_to_send,
                           state::send_queue_drain, state::error};
  for (const auto each : from) {
    EXPECT_EQ(explain_transition({IBV_QPT_RC, each, state::reset}, attribute::state), "");
    EXPECT_EQ(explain_transition({IBV_QPT_RC, each, state::error}, attribute::state), "");
    EXPECT_NE(
        explain_transition({IBV_QPT_RC, each, state::error}, attribute::state | attribute::port),
        "");
  }
}

// parity: ibverbs-221
TEST(queue_pair_transitions, datagrams_need_q_key_instead_of_access_flags) {
  EXPECT_EQ(explain_transition(
                {IBV_QPT_UD, state::reset, state::init},
                attribute::state | attribute::pkey_index | attribute::port | attribute::qkey),
            "");
  EXPECT_EQ(explain_transition({IBV_QPT_UD, state::reset, state::init}, rc_init),
            "the transition from RESET to INIT needs QKEY, which is missing, and does not permit "
            "ACCESS_FLAGS; UD queue pairs do not have ACCESS_FLAGS");
  EXPECT_EQ(
      explain_transition({IBV_QPT_UD, state::init, state::ready_to_receive}, attribute::state), "");
}

// parity: ibverbs-221
TEST(queue_pair_transitions, unreliable_connections_have_no_retries) {
  EXPECT_EQ(explain_transition({IBV_QPT_UC, state::ready_to_receive, state::ready_to_send},
                               attribute::state | attribute::send_psn),
            "");
  EXPECT_EQ(explain_transition({IBV_QPT_UC, state::ready_to_receive, state::ready_to_send}, rc_rts),
            "the transition from RTR to RTS does not permit TIMEOUT | RETRY_CNT | RNR_RETRY | "
            "MAX_QP_RD_ATOMIC; UC queue pairs do not have TIMEOUT | RETRY_CNT | RNR_RETRY | "
            "MAX_QP_RD_ATOMIC");
}

// parity: ibverbs-222
TEST(queue_pair_transitions, unknown_queue_pair_types_are_not_checked) {
  EXPECT_EQ(explain_transition({IBV_QPT_DRIVER, state::ready_to_send, state::init}, {}), "");
}

}  // namespace
}  // namespace verbena
