// SPDX-License-Identifier: MIT
// Creation and connection of queue pairs, with handshake() and with modify().
#include "verbena/verbs/prepared_queue_pair.hpp"

#include <gtest/gtest.h>

#include "tests/unit/verbs/loopback.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/port_attributes.hpp"

namespace verbena {
namespace {

using attribute = queue_pair_attribute;
using state = queue_pair_state;

class prepared : public ::testing::Test {
 protected:
  result<prepared_queue_pair<rc>> create(queue_pair_options<rc> options = {}) {
    return pd.create_qp<rc>(cq, cq, options);
  }
  // Returns the message of the error of creation.
  std::string refusal(queue_pair_options<rc> options) {
    auto made = create(options);
    return made ? "accepted" : made.error().message();
  }

  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  completion_queue cq = device.create_cq(16).value();
};

// parity: ibverbs-190, rrddmma-66, ibverbs-168, ibverbs-rs-8, rrddmma-74
TEST_F(prepared, endpoint_has_number_gid_and_mtu) {
  auto made = create({.first_psn = packet_sequence_number(0x123456)}).value();
  const auto gid = device.routable_gid(port_number(1)).value();
  EXPECT_EQ(made.endpoint().queue_pair, made.number());
  EXPECT_EQ(made.endpoint().queue_pair.value(), made.native()->qp_num);
  EXPECT_EQ(made.endpoint().lid, device.query_port(port_number(1)).value().lid());
  EXPECT_EQ(made.endpoint().gid, gid.gid);
  EXPECT_EQ(made.endpoint().first_psn, packet_sequence_number(0x123456));
  EXPECT_EQ(made.endpoint().mtu, device.query_port(port_number(1)).value().active_mtu());
  EXPECT_GT(made.endpoint().responder_resources, 0);
  EXPECT_EQ(made.init_attributes().port(), port_number(1)) << "the default";
}

// parity: ibverbs-177, rrddmma-75
TEST_F(prepared, first_sequence_number_is_random) {
  const auto one = create().value().endpoint().first_psn;
  const auto two = create().value().endpoint().first_psn;
  const auto three = create().value().endpoint().first_psn;
  EXPECT_FALSE(one == two && two == three);
}

// parity: ibverbs-172, rrddmma-60
TEST_F(prepared, granted_sizes_are_at_least_the_requested_sizes) {
  const auto made = create({.queues = {.max_send_wr = 10,
                                       .max_recv_wr = 11,
                                       .max_send_sge = 2,
                                       .max_recv_sge = 3,
                                       .max_inline_data = 32}})
                        .value();
  EXPECT_GE(made.capabilities().max_send_wr, 10U);
  EXPECT_GE(made.capabilities().max_recv_wr, 11U);
  EXPECT_GE(made.capabilities().max_send_sge, 2U);
  EXPECT_GE(made.capabilities().max_recv_sge, 3U);
  EXPECT_GE(made.capabilities().max_inline_data, 32U);
}

// parity: ibverbs-170, ibverbs-176, ibverbs-195, ibverbs-rs-9
TEST_F(prepared, handshake_applies_the_stated_defaults) {
  auto made = create().value();
  EXPECT_GE(made.capabilities().max_send_wr, 64U);
  EXPECT_GE(made.capabilities().max_recv_wr, 64U);
  const auto self = made.endpoint();
  auto queue = std::move(made).handshake(self).value();
  const auto now =
      queue
          .query(attribute::state | attribute::access | attribute::path_mtu | attribute::timeout |
                 attribute::retry_count | attribute::rnr_retry_count | attribute::min_rnr_timer |
                 attribute::destination | attribute::initiator_depth |
                 attribute::responder_resources | attribute::send_psn | attribute::receive_psn)
          .value();
  EXPECT_EQ(now.state(), state::ready_to_send);
  EXPECT_EQ(now.access(), access_flags());
  EXPECT_EQ(now.path_mtu(), self.mtu);
  EXPECT_EQ(now.timeout(), ack_timeout::from_exponent(14));
  EXPECT_EQ(now.retry_count(), 6);
  EXPECT_EQ(now.rnr_retry_count(), 6);
  EXPECT_EQ(now.min_rnr_timer(), rnr_timer::from_encoding(16));
  EXPECT_EQ(now.destination(), self.queue_pair);
  EXPECT_EQ(now.responder_resources(), self.responder_resources);
}

// parity: ibverbs-197, rrddmma-76, rrddmma-74
TEST_F(prepared, connection_uses_the_smaller_values_of_both_sides) {
  auto made =
      create({.route = {.path_mtu = mtu::bytes_512}, .reliability = {.read_depth = 9}}).value();
  endpoint remote = made.endpoint();
  remote.mtu = mtu::bytes_256;
  remote.responder_resources = 3;
  EXPECT_EQ(made.rtr_attributes(remote).value().path_mtu(), mtu::bytes_256);
  EXPECT_EQ(made.rts_attributes(remote).initiator_depth(), 3);
  remote.mtu = mtu::bytes_4096;
  remote.responder_resources = 200;
  EXPECT_EQ(made.rtr_attributes(remote).value().path_mtu(), mtu::bytes_512);
  EXPECT_EQ(made.rts_attributes(remote).initiator_depth(), 9);
  EXPECT_EQ(made.rtr_attributes(remote).value().responder_resources(), 9);
}

// parity: ibverbs-175, ibverbs-198, rrddmma-74, ibverbs-199
TEST_F(prepared, transition_attributes_have_the_options) {
  const auto made =
      create({.access = access::remote_read,
              .route = {.service_level = 4, .traffic_class = 8, .hop_limit = 12, .pkey_index = 7},
              .reliability = {.timeout = ack_timeout::from_exponent(9),
                              .retry_count = 2,
                              .rnr_retry_count = 1,
                              .min_rnr_timer = rnr_timer::from_encoding(3)}})
          .value();
  const auto init = made.init_attributes();
  EXPECT_EQ(init.state(), state::init);
  EXPECT_EQ(init.access(), access::remote_read);
  EXPECT_EQ(init.port(), port_number(1));
  EXPECT_EQ(init.pkey_index(), 7);
  endpoint remote = made.endpoint();
  remote.queue_pair = queue_pair_number(0x777);
  remote.first_psn = packet_sequence_number(0x888);
  const auto rtr = made.rtr_attributes(remote).value();
  EXPECT_EQ(rtr.destination(), queue_pair_number(0x777));
  EXPECT_EQ(rtr.receive_psn(), packet_sequence_number(0x888));
  EXPECT_EQ(rtr.min_rnr_timer(), rnr_timer::from_encoding(3));
  ASSERT_TRUE(rtr.address());
  EXPECT_EQ(rtr.address()->gid, remote.gid);
  EXPECT_EQ(rtr.address()->service_level, 4);
  EXPECT_EQ(rtr.address()->traffic_class, 8);
  EXPECT_EQ(rtr.address()->hop_limit, 12);
  const auto rts = made.rts_attributes(remote);
  EXPECT_EQ(rts.timeout(), ack_timeout::from_exponent(9));
  EXPECT_EQ(rts.retry_count(), 2);
  EXPECT_EQ(rts.rnr_retry_count(), 1);
  EXPECT_EQ(rts.send_psn(), made.endpoint().first_psn);
}

// parity: ibverbs-202, rrddmma-71
TEST_F(prepared, handshake_with_peer_without_gid_is_refused) {
  auto made = create().value();
  endpoint remote = made.endpoint();
  remote.gid.reset();
  const auto refused = made.rtr_attributes(remote);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), error_kind::invalid_argument);
  const auto failed = std::move(made).handshake(remote);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message().find("the peer has none"), std::string::npos);
}

// parity: ibverbs-201
TEST_F(prepared, failed_handshake_destroys_the_queue_pair) {
  auto made = create().value();
  endpoint remote = made.endpoint();
  remote.gid.reset();
  EXPECT_FALSE(std::move(made).handshake(remote));
  // The completion queue is no longer used.
  EXPECT_TRUE(std::move(cq).close());
}

// parity: ibverbs-204, ibverbs-tests-83
TEST_F(prepared, modify_with_transition_attributes_connects) {
  auto made = create().value();
  const auto self = made.endpoint();
  const auto init = made.init_attributes();
  const auto rtr = made.rtr_attributes(self).value();
  auto rts = made.rts_attributes(self);
  ASSERT_NE(rts.retry_count(), 3);
  rts.set_retry_count(3);
  auto queue = std::move(made).into_queue_pair();
  EXPECT_EQ(queue.current_state().value(), state::reset);
  queue.modify(init).value();
  EXPECT_EQ(queue.current_state().value(), state::init);
  queue.modify(rtr).value();
  EXPECT_EQ(queue.current_state().value(), state::ready_to_receive);
  queue.modify(rts).value();
  EXPECT_EQ(queue.current_state().value(), state::ready_to_send);
  EXPECT_EQ(queue.query(attribute::retry_count).value().retry_count(), 3);
  queue.modify(queue_pair_attributes().set_state(state::error)).value();
  EXPECT_EQ(queue.current_state().value(), state::error);
  queue.modify(queue_pair_attributes().set_state(state::reset)).value();
  EXPECT_EQ(queue.current_state().value(), state::reset);
}

// parity: ibverbs-223
TEST_F(prepared, invalid_transition_is_explained) {
  test::loopback pair;
  auto& queue = pair.a().queue;
  const auto refused = queue.modify(queue_pair_attributes().set_state(state::init));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), EINVAL);
  const std::string message = refused.error().message();
  EXPECT_NE(message.find("ibv_modify_qp"), std::string::npos) << message;
  EXPECT_NE(message.find("queue pair 0x"), std::string::npos) << message;
  EXPECT_NE(message.find("on soft0"), std::string::npos) << message;
  EXPECT_NE(message.find("there is no transition from RTS to INIT"), std::string::npos) << message;
  EXPECT_EQ(queue.current_state().value(), state::ready_to_send);
}

TEST_F(prepared, missing_attributes_are_explained) {
  auto made = create().value();
  auto init = made.init_attributes();
  init.remove(attribute::port);
  const auto refused = made.modify(init);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("needs PORT, which is missing"), std::string::npos)
      << refused.error().message();
  EXPECT_EQ(made.current_state().value(), state::reset);
}

TEST_F(prepared, path_mtu_above_active_mtu_is_explained) {
  const auto active = device.query_port(port_number(1)).value().active_mtu();
  if (active == mtu::bytes_4096) {
    // A size that does not exist is refused at creation.
    EXPECT_NE(refusal({.route = {.path_mtu = static_cast<mtu>(6)}}).find("path MTU"),
              std::string::npos);
    return;
  }
  auto made = create({.route = {.path_mtu = mtu::bytes_4096}}).value();
  const auto self = made.endpoint();
  const auto failed = std::move(made).handshake(self);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message().find("exceeds the port's active MTU"), std::string::npos)
      << failed.error().message();
}

// parity: ibverbs-178
TEST_F(prepared, options_out_of_range_are_refused) {
  EXPECT_NE(refusal({.reliability = {.retry_count = 8}}).find("3 bits"), std::string::npos);
  EXPECT_NE(refusal({.reliability = {.rnr_retry_count = 8}}).find("3 bits"), std::string::npos);
  EXPECT_NE(refusal({.route = {.service_level = 16}}).find("4 bits"), std::string::npos);
  EXPECT_NE(refusal({.route = {.port = port_number(0)}}).find("ports count from 1"),
            std::string::npos);
  EXPECT_NE(refusal({.route = {.path_mtu = static_cast<mtu>(0)}}).find("path MTU"),
            std::string::npos);
}

// parity: rrddmma-59
TEST_F(prepared, creation_error_names_the_exceeded_limit) {
  const std::string message = refusal({.queues = {.max_send_wr = 100'000'000}});
  EXPECT_NE(message.find("max_send_wr 100000000 exceeds the device's maximum"), std::string::npos)
      << message;
  EXPECT_NE(refusal({.queues = {.max_recv_sge = 100'000}}).find("max_recv_sge 100000 exceeds"),
            std::string::npos);
}

// parity: rrddmma-68
TEST_F(prepared, nonexistent_port_or_gid_is_refused) {
  const auto port = refusal({.route = {.port = port_number(200)}});
  EXPECT_NE(port.find("port 200"), std::string::npos) << port;
  const auto gid = refusal({.route = {.gid_index = gid_index(255)}});
  EXPECT_NE(gid.find("255"), std::string::npos) << gid;
}

TEST_F(prepared, completion_queues_of_another_context_are_refused) {
  const auto other = open_device("soft0").value();
  const auto foreign = other.create_cq(4).value();
  const auto refused = pd.create_qp<rc>(foreign, cq);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("different open devices"), std::string::npos);
}

TEST_F(prepared, extended_completion_queues_are_accepted) {
  const auto lazy = device.create_extended_cq(16).value();
  auto made = pd.create_qp<rc>(lazy, lazy).value();
  EXPECT_EQ(made.native()->send_cq, lazy.native());
}

TEST_F(prepared, close_destroys_or_returns_the_queue_pair) {
  auto made = create().value();
  EXPECT_TRUE(std::move(made).close());
  auto queue = create().value().into_queue_pair();
  EXPECT_NE(queue.native_extended(), nullptr);
  EXPECT_TRUE(std::move(queue).close());
  EXPECT_EQ(queue.native_extended(), nullptr);  // NOLINT(bugprone-use-after-move,*.Move)
}

// parity: ibverbs-308, rrddmma-7
TEST_F(prepared, native_queue_pair_can_be_adopted) {
  ibv_qp_init_attr asked{.send_cq = cq.native(),
                         .recv_cq = cq.native(),
                         .cap = {.max_send_wr = 4,
                                 .max_recv_wr = 4,
                                 .max_send_sge = 1,
                                 .max_recv_sge = 1,
                                 .max_inline_data = 0},
                         .qp_type = IBV_QPT_RC};
  const auto& verbs = pd.provider().verbs;
  ibv_qp* const native = verbs.create_qp(pd.native(), &asked);
  ASSERT_NE(native, nullptr);
  {
    const auto borrowed = queue_pair<rc>::adopt(native, pd, ownership::borrow);
    EXPECT_EQ(borrowed.number().value(), native->qp_num);
    EXPECT_EQ(borrowed.current_state().value(), state::reset);
  }
  auto taken = queue_pair<rc>::adopt(native, pd, ownership::take);
  EXPECT_EQ(taken.native(), native);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr unused{};
  EXPECT_EQ(verbs.query_qp(taken.native(), &attributes, IBV_QP_STATE, &unused), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RESET);
  EXPECT_TRUE(std::move(taken).close());
}

using prepared_death = prepared;

// parity: ibverbs-227
TEST_F(prepared, only_adopted_ibv_qp_ex_has_the_extended_interface) {
  auto made = create().value();
  ASSERT_TRUE(made.is_extended());
  auto plain = queue_pair<rc>::adopt(made.native(), pd, ownership::borrow);
  EXPECT_FALSE(plain.extended().has_value());
  auto extended = queue_pair<rc>::adopt(made.native_extended(), pd, ownership::borrow);
  EXPECT_TRUE(extended.extended().has_value());
  EXPECT_EQ(extended.native(), made.native());
}

TEST_F(prepared_death, adopt_with_wrong_transport_aborts) {
  ibv_qp* const no_queue = nullptr;
  EXPECT_DEATH(static_cast<void>(queue_pair<rc>::adopt(no_queue, pd, ownership::borrow)),
               "queue_pair::adopt\\(\\) with a null pointer");
  const auto made = create().value();
  const auto other = device.allocate_pd().value();
  EXPECT_DEATH(static_cast<void>(queue_pair<rc>::adopt(made.native(), other, ownership::borrow)),
               "queue_pair::adopt\\(\\) with another protection domain");
  ibv_qp datagrams = *made.native();
  datagrams.qp_type = IBV_QPT_UD;
  EXPECT_DEATH(static_cast<void>(queue_pair<rc>::adopt(&datagrams, pd, ownership::borrow)),
               "queue_pair::adopt\\(\\) with a queue pair of another transport");
}

TEST_F(prepared_death, use_of_moved_from_queue_pair_aborts) {
  auto made = create().value();
  const auto moved = std::move(made);
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move): that is the point
  EXPECT_DEATH(static_cast<void>(made.number()), "a moved-from queue pair was used");
}

}  // namespace
}  // namespace verbena
