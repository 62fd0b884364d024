// SPDX-License-Identifier: MIT
// Providers whose verbs fail: unresolved routes, missing interfaces, failing events.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"

namespace verbena {
namespace {

class refusing : public ::testing::Test {
 protected:
  failing_provider provider{*soft_provider().value()};
  context device = testing_support::open_soft(provider.get()).value();
  protection_domain pd = device.allocate_pd().value();
  completion_queue cq = device.create_cq(16).value();
};

// parity: ibverbs-202
TEST_F(refusing, peer_without_gid_is_refused_before_the_first_transition) {
  auto prepared = pd.create_qp<rc>(cq, cq).value();
  endpoint remote = prepared.endpoint();
  remote.gid.reset();
  provider.fail_verb("ibv_modify_qp", EIO);
  const auto refused = std::move(prepared).handshake(remote);
  EXPECT_EQ(provider.failed_verb(), "");
  provider.fail_call(0, 0);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("the peer has none"), std::string::npos);
}

// parity: ibverbs-223
TEST_F(refusing, transition_outside_the_table_succeeds_if_the_device_accepts_it) {
  static verbena::provider tolerant;
  tolerant = *soft_provider().value();
  tolerant.verbs.modify_qp.set([](ibv_qp*, ibv_qp_attr*, int) { return 0; });
  const auto opened = testing_support::open_soft(tolerant).value();
  const auto queue = opened.create_cq(4).value();
  const auto domain = opened.allocate_pd().value();
  auto prepared = domain.create_qp<rc>(queue, queue).value();
  const auto outside = queue_pair_attributes().set_state(queue_pair_state::ready_to_send);
  EXPECT_TRUE(prepared.modify(outside));
  tolerant.verbs.modify_qp.set([](ibv_qp*, ibv_qp_attr*, int) { return EINVAL; });
  const auto refused = prepared.modify(outside);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("there is no transition from RESET to RTS"),
            std::string::npos)
      << refused.error().message();
}

// parity: ibverbs-203, ibverbs-tests-77
TEST_F(refusing, unresolved_route_is_explained) {
  for (const int code : {ETIMEDOUT, ENETUNREACH, EHOSTUNREACH}) {
    auto prepared = pd.create_qp<rc>(cq, cq, {.route = {.gid_index = gid_index(0)}}).value();
    const auto self = prepared.endpoint();
    prepared.modify(prepared.init_attributes()).value();
    provider.fail_verb("ibv_modify_qp", code);
    const auto refused = prepared.modify(prepared.rtr_attributes(self).value());
    provider.fail_call(0, 0);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), code);
    const std::string message = refused.error().message();
    for (const std::string& part :
         {std::string("RoCE"), std::string("index 0 of port 1"), std::string("UDP port 4791"),
          to_string(*self.gid), std::string("queue pair 0x")})
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
}

// parity: ibverbs-166
TEST_F(refusing, provider_without_create_qp_ex_creates_classic_queue_pairs) {
  for (const int code : {EOPNOTSUPP, ENOSYS, EINVAL}) {
    provider.fail_verb("ibv_create_qp_ex", code);
    auto prepared = pd.create_qp<rc>(cq, cq).value();
    provider.fail_call(0, 0);
    EXPECT_NE(prepared.native(), nullptr);
    const auto self = prepared.endpoint();
    auto queue = std::move(prepared).handshake(self).value();
    const auto memory = pd.allocate(64, access::local_write).value();
    queue.post_receive({}, memory.slice(32, 32)).value();
    auto batch = queue.start_send();
    batch.send({.signaled = true}, memory.slice(0, 8));
    batch.submit().value();
    for (const auto& done : test::take(cq, 2)) done.result().value();
  }
}

// ibv_qp_to_qp_ex() reads a member that exists only in objects of ibv_create_qp_ex(3).
TEST_F(refusing, qp_to_qp_ex_is_not_called_for_classic_queue_pairs) {
  static verbena::provider classic;
  classic = *soft_provider().value();
  classic.verbs.create_qp_ex.set([](ibv_context*, ibv_qp_init_attr_ex*) -> ibv_qp* {
    errno = EOPNOTSUPP;
    return nullptr;
  });
  classic.verbs.qp_to_qp_ex.set([](ibv_qp* made) { return reinterpret_cast<ibv_qp_ex*>(made); });
  const auto opened = testing_support::open_soft(classic).value();
  const auto domain = opened.allocate_pd().value();
  const auto queue = opened.create_cq(16).value();
  const auto prepared = domain.create_qp<rc>(queue, queue).value();
  EXPECT_FALSE(prepared.is_extended());
  const auto adopted = queue_pair<rc>::adopt(prepared.native(), domain, ownership::borrow);
  EXPECT_FALSE(adopted.is_extended());
}

TEST_F(refusing, other_creation_errors_are_not_retried) {
  provider.fail_verb("ibv_create_qp_ex", ENOMEM);
  const auto refused = pd.create_qp<rc>(cq, cq);
  provider.fail_call(0, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ENOMEM);
  EXPECT_EQ(refused.error().call(), "ibv_create_qp_ex");
}

// parity: ibverbs-97
TEST_F(refusing, missing_create_cq_ex_error_names_create_cq) {
  provider.fail_verb("ibv_create_cq_ex", EOPNOTSUPP);
  const auto refused = device.create_extended_cq(4);
  provider.fail_call(0, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), error_kind::not_supported);
  EXPECT_NE(refused.error().message().find("use create_cq()"), std::string::npos);
}

TEST_F(refusing, failing_completion_channel_returns_error) {
  const auto channel = device.create_completion_channel().value();
  provider.fail_verb("ibv_get_cq_event", EIO);
  const auto refused = channel.wait(deadline::after(std::chrono::seconds(20)));
  provider.fail_call(0, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), EIO);
  EXPECT_EQ(refused.error().call(), "ibv_get_cq_event");
}

// The descriptor is readable, but another thread takes the event first.
// parity: ibverbs-86
TEST_F(refusing, wait_continues_if_another_thread_takes_the_event) {
  static int calls;
  calls = 0;
  static verbena::provider shared;
  shared = *soft_provider().value();
  shared.verbs.get_cq_event.set([](ibv_comp_channel* channel, ibv_cq** queue, void** cookie) {
    if (++calls > 2) return soft_provider().value()->verbs.get_cq_event(channel, queue, cookie);
    errno = EAGAIN;
    return -1;
  });
  const auto opened = testing_support::open_soft(shared).value();
  const auto channel = opened.create_completion_channel().value();
  const auto queue = opened.create_cq(16, {.channel = channel}).value();
  const auto domain = opened.allocate_pd().value();
  auto prepared = domain.create_qp<rc>(queue, queue).value();
  const auto self = prepared.endpoint();
  auto connected = std::move(prepared).handshake(self).value();
  queue.request_notification(notify::any_completion).value();
  connected.post_receive({}, std::span<const local_slice>()).value();
  auto batch = connected.start_send();
  batch.send({}, std::span<const local_slice>());
  batch.submit().value();
  const auto event = channel.wait(deadline::after(std::chrono::seconds(20))).value();
  ASSERT_TRUE(event.has_value());
  EXPECT_TRUE(event->is_from(queue));
  EXPECT_EQ(calls, 3);
}

// parity: ibverbs-21, rrddmma-67
TEST_F(refusing, create_qp_on_inactive_port_is_unavailable) {
  static verbena::provider down;
  down = *soft_provider().value();
  down.verbs.query_port.set([](ibv_context* of, std::uint8_t port, ibv_port_attr* attributes) {
    const int code = soft_provider().value()->verbs.query_port(of, port, attributes);
    attributes->state = IBV_PORT_DOWN;
    return code;
  });
  const auto opened = testing_support::open_soft(down).value();
  EXPECT_EQ(opened.query_port(port_number(1)).value().state(), port_state::down);
  const auto queue = opened.create_cq(4).value();
  const auto refused = opened.allocate_pd().value().create_qp<rc>(queue, queue);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), error_kind::unavailable);
  EXPECT_NE(refused.error().message().find("port 1"), std::string::npos)
      << refused.error().message();
}

TEST_F(refusing, query_and_notification_errors_name_verb_and_object) {
  auto prepared = pd.create_qp<rc>(cq, cq).value();
  provider.fail_verb("ibv_query_qp", EIO);
  const auto queried = prepared.current_state();
  provider.fail_verb("ibv_req_notify_cq", EIO);
  const auto armed = cq.request_notification(notify::any_completion);
  provider.fail_call(0, 0);
  ASSERT_FALSE(queried);
  EXPECT_EQ(queried.error().call(), "ibv_query_qp");
  EXPECT_NE(queried.error().object().find("queue pair 0x"), std::string::npos);
  ASSERT_FALSE(armed);
  EXPECT_EQ(armed.error().object(), "completion queue of soft0");
}

}  // namespace
}  // namespace verbena
