// SPDX-License-Identifier: MIT
#include "verbena/verbs/queue_pair_attributes.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace verbena {
namespace {

using attribute = queue_pair_attribute;

// parity: ibverbs-211
TEST(queue_pair_attributes, getters_of_empty_set_return_nullopt) {
  const queue_pair_attributes none;
  EXPECT_TRUE(none.mask().empty());
  EXPECT_EQ(none.state(), std::nullopt);
  EXPECT_EQ(none.current_state(), std::nullopt);
  EXPECT_EQ(none.access(), std::nullopt);
  EXPECT_EQ(none.pkey_index(), std::nullopt);
  EXPECT_EQ(none.port(), std::nullopt);
  EXPECT_EQ(none.qkey(), std::nullopt);
  EXPECT_EQ(none.path_mtu(), std::nullopt);
  EXPECT_EQ(none.timeout(), std::nullopt);
  EXPECT_EQ(none.retry_count(), std::nullopt);
  EXPECT_EQ(none.rnr_retry_count(), std::nullopt);
  EXPECT_EQ(none.receive_psn(), std::nullopt);
  EXPECT_EQ(none.send_psn(), std::nullopt);
  EXPECT_EQ(none.initiator_depth(), std::nullopt);
  EXPECT_EQ(none.responder_resources(), std::nullopt);
  EXPECT_EQ(none.min_rnr_timer(), std::nullopt);
  EXPECT_EQ(none.destination(), std::nullopt);
  EXPECT_FALSE(none.address().has_value());
}

// parity: ibverbs-tests-25, ibverbs-210
TEST(queue_pair_attributes, setters_record_their_bit_and_value) {
  queue_pair_attributes set;
  set.set_state(queue_pair_state::ready_to_send);
  EXPECT_EQ(set.mask(), attribute::state);
  EXPECT_EQ(set.native().qp_state, IBV_QPS_RTS);
  set.set_current_state(queue_pair_state::ready_to_receive)
      .set_access(access::remote_read | access::remote_write)
      .set_pkey_index(3)
      .set_port(port_number(2))
      .set_qkey(queue_key(0x1111))
      .set_path_mtu(mtu::bytes_4096)
      .set_timeout(ack_timeout::from_exponent(14))
      .set_retry_count(7)
      .set_rnr_retry_count(6)
      .set_receive_psn(packet_sequence_number(0x123456))
      .set_send_psn(packet_sequence_number(0x654321))
      .set_initiator_depth(8)
      .set_responder_resources(9)
      .set_min_rnr_timer(rnr_timer::from_encoding(12))
      .set_destination(queue_pair_number(0x1a2b))
      .set_drained_notification(true);
  EXPECT_EQ(static_cast<int>(set.mask().mask()),
            IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
                IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_DEST_QPN |
                IBV_QP_EN_SQD_ASYNC_NOTIFY);
  EXPECT_EQ(set.state(), queue_pair_state::ready_to_send);
  EXPECT_EQ(set.current_state(), queue_pair_state::ready_to_receive);
  EXPECT_EQ(set.access(), access::remote_read | access::remote_write);
  EXPECT_EQ(set.pkey_index(), 3);
  EXPECT_EQ(set.port(), port_number(2));
  EXPECT_EQ(set.qkey(), queue_key(0x1111));
  EXPECT_EQ(set.path_mtu(), mtu::bytes_4096);
  EXPECT_EQ(set.timeout(), ack_timeout::from_exponent(14));
  EXPECT_EQ(set.retry_count(), 7);
  EXPECT_EQ(set.rnr_retry_count(), 6);
  EXPECT_EQ(set.receive_psn(), packet_sequence_number(0x123456));
  EXPECT_EQ(set.send_psn(), packet_sequence_number(0x654321));
  EXPECT_EQ(set.initiator_depth(), 8);
  EXPECT_EQ(set.responder_resources(), 9);
  EXPECT_EQ(set.min_rnr_timer(), rnr_timer::from_encoding(12));
  EXPECT_EQ(set.destination(), queue_pair_number(0x1a2b));
  EXPECT_EQ(set.native().max_rd_atomic, 8);
  EXPECT_EQ(set.native().max_dest_rd_atomic, 9);
}

// parity: ibverbs-212
TEST(queue_pair_attributes, an_address_with_a_gid_is_global) {
  const auto peer = *parse_gid("2001:db8::5");
  const auto set = queue_pair_attributes().set_address({.lid = lid(7),
                                                        .gid = peer,
                                                        .source_gid_index = gid_index(3),
                                                        .port = port_number(1),
                                                        .service_level = 2,
                                                        .traffic_class = 104,
                                                        .hop_limit = 9});
  const ibv_ah_attr& native = set.native().ah_attr;
  EXPECT_EQ(native.is_global, 1);
  EXPECT_EQ(std::memcmp(native.grh.dgid.raw, peer.bytes().data(), 16), 0);
  EXPECT_EQ(native.grh.sgid_index, 3);
  EXPECT_EQ(native.grh.hop_limit, 9);
  EXPECT_EQ(native.grh.traffic_class, 104);
  EXPECT_EQ(native.sl, 2);
  EXPECT_EQ(native.dlid, 7);
  const auto address = set.address();
  ASSERT_TRUE(address);
  EXPECT_EQ(address->gid, peer);
  EXPECT_EQ(address->source_gid_index, gid_index(3));
}

// parity: ibverbs-212
TEST(queue_pair_attributes, an_address_without_a_gid_is_local) {
  const auto set = queue_pair_attributes().set_address({.lid = lid(7)});
  EXPECT_EQ(set.native().ah_attr.is_global, 0);
  ASSERT_TRUE(set.address());
  EXPECT_EQ(set.address()->gid, std::nullopt);
}

TEST(queue_pair_attributes, remove_clears_attributes) {
  auto set = queue_pair_attributes().set_port(port_number(1)).set_retry_count(3);
  set.remove(attribute::retry_count);
  EXPECT_EQ(set.mask(), attribute::port);
  EXPECT_EQ(set.retry_count(), std::nullopt);
}

// parity: ibverbs-tests-24, ibverbs-213
TEST(queue_pair_attributes, print_the_names_of_the_c_api) {
  EXPECT_EQ(to_string(queue_pair_attribute_mask()), "none");
  EXPECT_EQ(to_string(attribute::timeout | attribute::state), "STATE | TIMEOUT");
  EXPECT_EQ(to_string(queue_pair_attribute_mask::from_mask(IBV_QP_AV | 1U << 30)),
            "AV | 0x40000000");
  EXPECT_EQ(to_string(queue_pair_state::ready_to_receive), "RTR");
  EXPECT_EQ(to_string(queue_pair_state::error), "ERR");
  EXPECT_EQ(to_string(static_cast<queue_pair_state>(9)), "unknown (9)");
}

// parity: ibverbs-214
TEST(queue_pair_attributes_death, retry_count_above_seven_stops_the_program) {
  queue_pair_attributes set;
  EXPECT_DEATH(set.set_retry_count(8), "a retry count exceeds 7");
  EXPECT_DEATH(set.set_rnr_retry_count(8), "an RNR retry count exceeds 7");
}

TEST(queue_pair_attributes_death, service_level_above_fifteen_stops_the_program) {
  queue_pair_attributes set;
  EXPECT_DEATH(set.set_address({.service_level = 16}),
               "the service level of an address_vector exceeds 15");
}

}  // namespace
}  // namespace verbena
