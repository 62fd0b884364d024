// SPDX-License-Identifier: MIT
// Properties of the transports: transitions, operations, lifetimes.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena {
namespace {

using attribute = queue_pair_attribute;
using testing_support::expect_error;

class transports : public ::testing::Test {
 protected:
  failing_provider provider{*soft_provider().value()};
  context device = testing_support::open_soft(provider.get()).value();
  protection_domain pd = device.allocate_pd().value();
  completion_queue cq = device.create_cq(16).value();
};

// parity: ibverbs-206
TEST_F(transports, transitions_of_unreliable_connections_have_no_retries) {
  const auto made = pd.create_qp<uc>(cq, cq,
                                     {.access = access::remote_write,
                                      .route = {.service_level = 3, .pkey_index = 0},
                                      .first_psn = packet_sequence_number(5)})
                        .value();
  EXPECT_EQ(made.endpoint().responder_resources, 0);
  EXPECT_EQ(made.options().route.service_level, 3);
  EXPECT_EQ(made.init_attributes().mask(),
            attribute::state | attribute::pkey_index | attribute::port | attribute::access);
  const auto rtr = made.rtr_attributes(made.endpoint()).value();
  EXPECT_EQ(rtr.mask(), attribute::state | attribute::address | attribute::path_mtu |
                            attribute::destination | attribute::receive_psn);
  EXPECT_EQ(rtr.address()->service_level, 3);
  const auto rts = made.rts_attributes(made.endpoint());
  EXPECT_EQ(rts.mask(), attribute::state | attribute::send_psn);
  EXPECT_EQ(rts.send_psn(), packet_sequence_number(5));
}

// parity: ibverbs-207
TEST_F(transports, transitions_of_datagrams_have_a_qkey_and_no_peer) {
  const auto made = pd.create_qp<ud>(cq, cq, {.first_psn = packet_sequence_number(6)}).value();
  const auto init = made.init_attributes(queue_key(0x1234));
  EXPECT_EQ(init.mask(),
            attribute::state | attribute::pkey_index | attribute::port | attribute::qkey);
  EXPECT_EQ(init.qkey(), queue_key(0x1234));
  EXPECT_EQ(made.rtr_attributes().mask(), queue_pair_attribute_mask(attribute::state));
  EXPECT_EQ(made.rts_attributes().mask(), attribute::state | attribute::send_psn);
  EXPECT_EQ(made.endpoint().mtu, device.query_port(port_number(1)).value().active_mtu());
}

// parity: ibverbs-164, ibverbs-tests-84
TEST_F(transports, all_operations_of_the_transport_are_requested_by_default) {
  static std::uint64_t asked;
  static verbena::provider recording;
  recording = *soft_provider().value();
  recording.verbs.create_qp_ex.set([](ibv_context* of, ibv_qp_init_attr_ex* wanted) {
    asked = (wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 ? wanted->send_ops_flags : 0;
    return soft_provider().value()->verbs.create_qp_ex(of, wanted);
  });
  const auto opened = testing_support::open_soft(recording).value();
  const auto queue = opened.create_cq(4).value();
  const auto domain = opened.allocate_pd().value();
  const std::uint64_t sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  const std::uint64_t writes = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  const std::uint64_t reads = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                              IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  EXPECT_TRUE(domain.create_qp<ud>(queue, queue));
  EXPECT_EQ(asked, sends);
  EXPECT_TRUE(domain.create_qp<uc>(queue, queue));
  EXPECT_EQ(asked, sends | writes);
  EXPECT_TRUE(domain.create_qp<rc>(queue, queue));
  EXPECT_EQ(asked, sends | writes | reads);
  EXPECT_TRUE(domain.create_qp<rc>(queue, queue, {.operations = send_operation::write}));
  EXPECT_EQ(asked, std::uint64_t{IBV_QP_EX_WITH_RDMA_WRITE});
}

TEST_F(transports, failed_activation_returns_error_and_destroys_qp) {
  auto datagrams = pd.create_qp<ud>(cq, cq).value();
  provider.fail_verb("ibv_modify_qp", ENOMEM);
  const auto refused = std::move(datagrams).activate(queue_key(1));
  provider.fail_call(0, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ENOMEM);
  EXPECT_EQ(refused.error().call(), "ibv_modify_qp");
  EXPECT_TRUE(std::move(cq).close()) << "no object refers to the completion queue";
}

// parity: ibverbs-165
TEST_F(transports, unsupported_operations_are_refused_by_name) {
  expect_error(
      pd.create_qp<ud>(cq, cq, {.operations = send_operation::send | send_operation::write}),
      "queue pairs of UD do not support RDMA_WRITE");
  expect_error(pd.create_qp<uc>(cq, cq, {.operations = send_operation::fetch_and_add}),
               "queue pairs of UC do not support ATOMIC_FETCH_AND_ADD");
  EXPECT_TRUE(pd.create_qp<rc>(cq, cq, {.operations = send_operation::send}));
}

TEST_F(transports, route_of_unreliable_connection_is_checked) {
  expect_error(pd.create_qp<uc>(cq, cq, {.route = {.service_level = 16}}), "4 bits");
  expect_error(pd.create_qp<uc>(cq, cq, {.route = {.path_mtu = static_cast<mtu>(0)}}), "path MTU");
  expect_error(pd.create_qp<ud>(cq, cq, {.route = {.port = port_number(0)}}), "ports count from 1");
}

TEST_F(transports, attached_queue_pair_receives_until_it_is_detached) {
  const queue_key key(0x1234);
  const auto group = parse_gid("239.7.7.7").value();
  const auto own = device.routable_gid(port_number(1)).value();
  auto queue = pd.create_qp<ud>(cq, cq).value().activate(key).value();
  EXPECT_EQ(queue.detach(group).error().code(), EINVAL);
  queue.attach(group).value();
  queue.attach(group).value();
  expect_error(queue.attach(own.gid), "is not a multicast GID");
  const auto memory = pd.allocate(4096, access::local_write).value();
  queue.post_receive({.id = 1}, memory.slice(0, 100)).value();
  const auto way = pd.create_ah({.gid = group, .source_gid_index = own.index}).value();
  auto batch = queue.start_send();
  batch.send({.id = 2}, memory.slice(200, 30),
             way.destination(queue_pair_number(queue_pair_number::max), key));
  batch.submit().value();
  completion room[1];
  const auto end = deadline::after(std::chrono::seconds(20));
  std::size_t got = 0;
  while (got == 0 && !end.expired()) got = cq.poll(room).value().size();
  ASSERT_EQ(got, 1U);
  EXPECT_EQ(room[0].id(), 1U);
  EXPECT_EQ(room[0].byte_length(), 70U);
  auto refused = std::move(queue).close();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("multicast groups"), std::string::npos);
  auto again = std::move(refused).object();
  again.detach(group).value();
  EXPECT_TRUE(std::move(again).close());
}

TEST_F(transports, queue_pair_keeps_its_srq_alive) {
  auto shared = pd.create_srq({}).value();
  auto made = pd.create_qp<rc>(cq, cq, shared).value();
  EXPECT_EQ(made.native()->srq, shared.native());
  auto refused = std::move(shared).close();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("objects created from it"), std::string::npos);
  auto again = std::move(refused).object();
  EXPECT_TRUE(std::move(made).close());
  EXPECT_TRUE(std::move(again).close());
}

TEST_F(transports, srq_of_another_context_is_refused) {
  const auto other = open_device("soft0").value();
  const auto foreign = other.allocate_pd().value().create_srq({}).value();
  expect_error(pd.create_qp<rc>(cq, cq, foreign), "different open devices");
}

// parity: ibverbs-188
TEST_F(transports, srq_with_unreliable_connection_is_refused) {
  const auto shared = pd.create_srq({}).value();
  const auto refused = pd.create_qp<uc>(cq, cq, shared);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), EINVAL);
  EXPECT_TRUE(pd.create_qp<rc>(cq, cq, shared));
}

#ifdef VERBENA_CHECKED
using transports_death = transports;

// parity: ibverbs-165
TEST_F(transports_death, post_of_unrequested_operation_stops_the_program) {
  ibv_qp_ex native{};
  native.wr_start = [](ibv_qp_ex*) {};
  native.wr_abort = [](ibv_qp_ex*) {};
  extended_queue<rc> queue(&native);
  const local_slice slice(0x1000, 64, local_key(7));
  auto batch = queue.start_send();
  EXPECT_DEATH(batch.send({}, slice), "was not created for this operation");
}

TEST_F(transports_death, receive_on_queue_pair_with_srq_stops_the_program) {
  const auto shared = pd.create_srq({}).value();
  auto made = pd.create_qp<rc>(cq, cq, shared).value();
  const auto self = made.endpoint();
  auto queue = std::move(made).handshake(self).value();
  const local_slice slice(0x1000, 64, local_key(7));
  EXPECT_DEATH(static_cast<void>(queue.post_receive({}, slice)),
               "that has a shared receive queue; post it to");
}
#endif

}  // namespace
}  // namespace verbena
