// SPDX-License-Identifier: MIT
// Identifiers: connection steps and their events, on one thread, without blocking.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <future>
#include <string>

#include "tests/unit/cm/served.hpp"
#include "verbena/cm/address_info.hpp"
#include "verbena/cm/connector.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/global_route_header.hpp"

namespace verbena {
namespace {

using cm::event_kind;
using cm::identifier;
using test::bytes_of;
using test::text_of;
using namespace std::chrono_literals;

class identifiers : public test::served {
 protected:
  [[nodiscard]] identifier make(cm::port_space space = cm::port_space::tcp) const {
    return identifier::create(channel(), space).value();
  }
  /// Returns an identifier that listens on a free port of here().
  [[nodiscard]] identifier listening(cm::port_space space = cm::port_space::tcp) const {
    auto id = make(space);
    id.bind(here()).value();
    id.listen().value();
    return id;
  }
  /// Returns an identifier that has resolved the address of `peer` and the route to it.
  [[nodiscard]] identifier resolved(const identifier& peer) const {
    auto id = make(peer.space());
    id.resolve_address(here().with_port(peer.local_address()->port()), 5s, here()).value();
    next(channel(), event_kind::address_resolved);
    id.resolve_route(5s).value();
    next(channel(), event_kind::route_resolved);
    return id;
  }
};

/// Modifies a queue pair to state `to` with the attributes that the identifier returns.
void modify_to(const identifier& id, prepared_queue_pair<rc>& queue, queue_pair_state to) {
  if (const auto changes = id.attributes(to).value(); !changes.mask().empty())
    queue.modify(changes).value();
}

// parity: ibverbs-290, ibverbs-291, ibverbs-292
TEST_F(identifiers, events_connect_step_by_step) {
  EXPECT_FALSE(channel().poll_event().value()) << "no event is pending";
  EXPECT_GE(channel().fd(), 0);
  auto listener = listening();
  auto active = resolved(listener);
  EXPECT_NE(active.port(), std::nullopt);
  test::objects own(active.context().value());
  auto asking = own.pd.create_qp<rc>(own.cq, own.cq).value();
  modify_to(active, asking, queue_pair_state::init);
  active.connect({.private_data = bytes_of("hello"), .queue_pair = asking.number()}).value();

  pollfd readable{.fd = channel().fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&readable, 1, 20'000), 1);
  auto request = next(channel(), event_kind::connect_request);
  EXPECT_TRUE(request.concerns(listener));
  EXPECT_FALSE(request.concerns(active));
  EXPECT_EQ(text_of(request.private_data()), "hello");
  ASSERT_TRUE(request.connection());
  EXPECT_EQ(text_of(request.connection()->private_data), "hello");
  EXPECT_FALSE(request.datagram());
  auto passive = request.take_request().value();
  EXPECT_TRUE(request.concerns(passive));
  EXPECT_FALSE(request.take_request()) << "the request was already taken";
  if (!passive.is_iwarp()) {
    EXPECT_EQ(request.connection()->queue_pair, asking.number());
  }

  auto answering = own.pd.create_qp<rc>(own.cq, own.cq).value();
  for (const auto state : {queue_pair_state::init, queue_pair_state::ready_to_receive,
                           queue_pair_state::ready_to_send})
    modify_to(passive, answering, state);
  passive.accept({.private_data = bytes_of("welcome"), .queue_pair = answering.number()}).value();

  if (passive.is_iwarp()) {
    next(channel(), event_kind::established);
  } else {
    const auto response = next(channel(), event_kind::connect_response);
    EXPECT_EQ(text_of(response.private_data()), "welcome");
    for (const auto state : {queue_pair_state::init, queue_pair_state::ready_to_receive,
                             queue_pair_state::ready_to_send})
      modify_to(active, asking, state);
    active.establish().value();
  }
  next(channel(), event_kind::established);
  if (!active.is_iwarp()) {  // iWARP devices do not report it
    EXPECT_EQ(asking.current_state().value(), queue_pair_state::ready_to_send);
    EXPECT_EQ(answering.current_state().value(), queue_pair_state::ready_to_send);
  }

  active.disconnect().value();
  const auto first = next(channel(), event_kind::disconnected);
  static_cast<void>(passive.disconnect());  // on iWARP the device has already answered
  const auto second = next(channel(), event_kind::disconnected);
  EXPECT_NE(first.concerns(active), second.concerns(active));
  EXPECT_NE(first.concerns(passive), second.concerns(passive));
}

// parity: ibverbs-298
TEST_F(identifiers, notify_replaces_the_last_message_of_the_handshake) {
  auto listener = listening();
  if (listener.is_iwarp()) GTEST_SKIP() << "the handshake of iWARP has no last message";
  auto active = resolved(listener);
  test::objects own(active.context().value());
  auto asking = own.pd.create_qp<rc>(own.cq, own.cq).value();
  modify_to(active, asking, queue_pair_state::init);
  active.connect({.queue_pair = asking.number()}).value();
  auto passive = next(channel(), event_kind::connect_request).take_request().value();
  auto answering = own.pd.create_qp<rc>(own.cq, own.cq).value();
  for (const auto state : {queue_pair_state::init, queue_pair_state::ready_to_receive,
                           queue_pair_state::ready_to_send})
    modify_to(passive, answering, state);
  const auto early = passive.notify(async_event_kind::communication_established);
  ASSERT_FALSE(early) << "the request was not accepted yet";
  EXPECT_EQ(early.error().code(), EINVAL);
  passive.accept({.queue_pair = answering.number()}).value();
  next(channel(), event_kind::connect_response);
  // The active side does not call establish(): its last message is missing.
  passive.notify(async_event_kind::communication_established).value();
  EXPECT_TRUE(next(channel(), event_kind::established).concerns(passive));
}

// parity: ibverbs-279
TEST_F(identifiers, retry_counts_of_the_options_reach_the_peer) {
  auto listener = listening();
  if (listener.is_iwarp()) GTEST_SKIP() << "TCP has no retry counts";
  auto peer = find(listener.local_address()->port());
  auto options = test::remote_read_and_write();
  options.reliability.retry_count = 5;
  options.reliability.rnr_retry_count = 3;
  auto asked = std::async(std::launch::async, [&] { return test::connect_to(peer, {}, options); });
  {
    const auto request = next(channel(), event_kind::connect_request);
    ASSERT_TRUE(request.connection());
    EXPECT_EQ(request.connection()->retry_count, 5);
    EXPECT_EQ(request.connection()->rnr_retry_count, 3);
  }
  EXPECT_FALSE(asked.get()) << "the destroyed event rejects the request";
}

// parity: ibverbs-275
TEST_F(identifiers, destroyed_event_rejects_its_request) {
  auto listener = listening();
  auto active = resolved(listener);
  test::objects own(active.context().value());
  auto asking = own.pd.create_qp<rc>(own.cq, own.cq).value();
  modify_to(active, asking, queue_pair_state::init);
  active.connect({.queue_pair = asking.number()}).value();
  {
    const auto dropped = next(channel(), event_kind::connect_request);
  }
  const auto refused = next(channel(), event_kind::rejected);
  EXPECT_TRUE(refused.concerns(active));
  EXPECT_TRUE(refused.rejected());
  EXPECT_EQ(refused.failure("rdma_connect").code(), ECONNREFUSED);
}

// parity: ibverbs-295
TEST_F(identifiers, take_request_of_another_event_is_rejected) {
  auto id = make();
  id.resolve_address(here().with_port(1), 5s).value();
  auto resolved = next(channel(), event_kind::address_resolved);
  EXPECT_FALSE(resolved.connection());
  const auto none = resolved.take_request();
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("only CONNECT_REQUEST"), std::string::npos);
}

// parity: ibverbs-282, ibverbs-293
TEST_F(identifiers, bound_identifier_has_address_and_device) {
  auto id = make();
  EXPECT_EQ(id.space(), cm::port_space::tcp);
  EXPECT_FALSE(id.local_address());
  EXPECT_FALSE(id.peer_address());
  EXPECT_FALSE(id.port());
  const auto none = id.context();
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("no device is bound"), std::string::npos);
  EXPECT_FALSE(id.resolve_route(1s)) << "without a device there is no route";
  EXPECT_FALSE(id.connect({}));

  id.bind(here()).value();
  EXPECT_EQ(id.local_address()->host(), here().host());
  EXPECT_NE(id.local_address()->port(), 0);
  EXPECT_TRUE(id.port());
  EXPECT_FALSE(id.context().value().name().empty());
  EXPECT_EQ(id.name(), "identifier at " + to_string(*id.local_address()) + " on " +
                           id.context().value().name());
  EXPECT_EQ(&id.provider(), &from());
}

// parity: ibverbs-296
TEST_F(identifiers, options_are_set) {
  auto id = make();
  id.set_type_of_service(64).value();
  id.allow_address_reuse().value();
  id.set_ack_timeout(ack_timeout::at_least(100ms)).value();
  auto ipv6 = make();
  ipv6.limit_to_address_family().value();
  ipv6.bind(cm::socket_address::any_ipv6()).value();
  id.bind(here()).value();
  auto twin = make();
  twin.allow_address_reuse().value();
  EXPECT_TRUE(twin.bind(*id.local_address()));
  auto stranger = make();
  const auto taken = stranger.bind(*id.local_address());
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code(), EADDRINUSE);
  EXPECT_NE(taken.error().message().find("0: any free one"), std::string::npos);
}

// parity: ibverbs-297
TEST_F(identifiers, migrate_moves_events_to_another_channel) {
  const auto other = cm::event_channel::create(from()).value();
  auto id = make();
  id.migrate(other).value();
  id.resolve_address(here().with_port(1), 5s).value();
  next(other, event_kind::address_resolved);
  EXPECT_FALSE(channel().poll_event().value());
}

// parity: ibverbs-294
TEST_F(identifiers, destruction_does_not_wait_for_held_events) {
  auto id = std::make_optional(make());
  id->resolve_address(here().with_port(1), 5s).value();
  const auto held = next(channel(), event_kind::address_resolved);
  id.reset();
  EXPECT_EQ(held.kind(), event_kind::address_resolved);
}

TEST_F(identifiers, unknown_address_has_no_device) {
  auto id = make();
  const auto elsewhere = cm::socket_address::parse("192.0.2.77").value();
  const auto bound = id.bind(elsewhere);
  ASSERT_FALSE(bound);
  EXPECT_NE(bound.error().message().find("devinfo"), std::string::npos) << bound.error().message();
}

TEST_F(identifiers, datagram_service_returns_its_address) {
  if (listening().is_iwarp()) GTEST_SKIP() << "iWARP does not support datagrams";
  auto listener = listening(cm::port_space::udp);
  auto active = resolved(listener);
  test::objects own(active.context().value());
  const auto port = queue_pair_options<ud>{.route = {.port = *active.port()}};
  auto sender =
      own.pd.create_qp<ud>(own.cq, own.cq, port).value().activate(cm::datagram_queue_key).value();
  active.connect({.private_data = bytes_of("who")}).value();
  auto request = next(channel(), event_kind::connect_request);
  EXPECT_EQ(text_of(request.private_data()), "who");
  auto passive = request.take_request().value();
  auto receiver =
      own.pd.create_qp<ud>(own.cq, own.cq, port).value().activate(cm::datagram_queue_key).value();
  receiver.post_receive({.id = 3}, own.memory.slice(0, 512)).value();
  passive.accept({.private_data = bytes_of("me"), .queue_pair = receiver.number()}).value();
  const auto reached = next(channel(), event_kind::established);
  EXPECT_EQ(text_of(reached.private_data()), "me");
  ASSERT_TRUE(reached.datagram());
  EXPECT_EQ(reached.datagram()->queue_pair, receiver.number());
  EXPECT_EQ(reached.datagram()->key, cm::datagram_queue_key);

  const auto way = own.pd.create_ah(reached.datagram()->address).value();
  std::ranges::copy(bytes_of("datagram"), own.memory.bytes().subspan(1024).begin());
  auto batch = sender.start_send();
  batch.send({.id = 4, .signaled = true}, own.memory.slice(1024, 8),
             way.destination(reached.datagram()->queue_pair, reached.datagram()->key));
  batch.submit().value();
  for (const auto& done : own.take(2)) done.result().value();
  EXPECT_EQ(text_of(own.memory.bytes().subspan(40, 8)), "datagram");
}

TEST_F(identifiers, ece_options_reach_the_peer) {
  if (listening().is_iwarp()) GTEST_SKIP() << "iWARP does not support ECE";
  auto listener = listening();
  auto active = resolved(listener);
  test::objects own(active.context().value());
  auto asking = own.pd.create_qp<rc>(own.cq, own.cq).value();
  const cm::ece offered{.vendor = 0x15b3, .options = 0x1001};
  active.set_local_ece(offered).value();
  modify_to(active, asking, queue_pair_state::init);
  active.connect({.queue_pair = asking.number()}).value();
  auto request = next(channel(), event_kind::connect_request);
  auto passive = request.take_request().value();
  EXPECT_EQ(passive.remote_ece().value(), offered);
  passive.reject_ece().value();
  EXPECT_TRUE(next(channel(), event_kind::rejected).concerns(active));
}

TEST_F(identifiers, multicast_groups_are_joined_and_left) {
  if (listening().is_iwarp()) GTEST_SKIP() << "iWARP does not support datagrams";
  auto id = make(cm::port_space::udp);
  const auto group = cm::socket_address::parse("239.1.2.3").value();
  EXPECT_FALSE(id.join_multicast(group)) << "the identifier is not bound to a device";
  id.bind(here()).value();
  const auto begun = id.join_multicast(group, cm::membership::send_only);
  ASSERT_TRUE(begun) << begun.error().message();
  const auto joined = next(channel(), event_kind::multicast_join);
  EXPECT_TRUE(joined.concerns(id));
  ASSERT_TRUE(joined.datagram());
  EXPECT_TRUE(joined.datagram()->address.gid);
  EXPECT_TRUE(joined.private_data().empty());
  id.leave_multicast(group).value();
  EXPECT_EQ(id.leave_multicast(group).error().code(), EADDRNOTAVAIL);
}

TEST_F(identifiers, multicast_join_returns_the_group_address) {
  if (listening().is_iwarp()) GTEST_SKIP() << "iWARP does not support datagrams";
  auto id = make(cm::port_space::udp);
  id.bind(here()).value();
  // The address contains the process ID, because other tests run at the same time.
  const auto number = std::to_string(getpid() >> 8 & 0xff) + "." + std::to_string(getpid() & 0xff);
  const auto group = cm::socket_address::parse("239.4." + number).value();
  id.join_multicast(group).value();
  const auto joined = next(channel(), event_kind::multicast_join);
  ASSERT_TRUE(joined.datagram());
  const cm::datagram_parameters where = *joined.datagram();
  EXPECT_EQ(where.queue_pair, queue_pair_number(queue_pair_number::max));
  test::objects own(id.context().value());
  const auto member = [&] {
    return own.pd.create_qp<ud>(own.cq, own.cq, {.route = {.port = *id.port()}})
        .value()
        .activate(where.key)
        .value();
  };
  auto one = member();
  auto other = member();
  for (auto* each : {&one, &other}) {
    each->attach(*where.address.gid, where.address.lid).value();
    each->post_receive({.id = 3}, own.memory.slice(each == &one ? 0 : 512, 512)).value();
  }
  const auto way = own.pd.create_ah(where.address).value();
  std::ranges::copy(bytes_of("to all"), own.memory.bytes().subspan(1024).begin());
  auto batch = one.start_send();
  batch.send({.id = 4, .signaled = true}, own.memory.slice(1024, 6),
             way.destination(where.queue_pair, where.key));
  batch.submit().value();
  for (const auto& done : own.take(3)) done.result().value();
  for (const std::size_t at : {0, 512})
    EXPECT_EQ(text_of(own.memory.bytes().subspan(at + 40, 6)), "to all");
  for (auto* each : {&one, &other}) each->detach(*where.address.gid, where.address.lid).value();
  id.leave_multicast(group).value();
}

TEST_F(identifiers, resolved_addresses_connect) {
  const auto resolved = cm::resolve(
      {.node = here().host(), .service = "7471", .numeric_host = true, .no_route = true}, from());
  ASSERT_TRUE(resolved) << resolved.error().message();
  ASSERT_FALSE(resolved->empty());
  EXPECT_EQ(resolved->front().destination, here().with_port(7471));
  EXPECT_EQ(resolved->front().space, cm::port_space::tcp);
  const auto passive = cm::resolve({.node = here().host(),
                                    .service = "7471",
                                    .passive = true,
                                    .numeric_host = true,
                                    .no_route = true},
                                   from());
  ASSERT_TRUE(passive) << passive.error().message();
  EXPECT_EQ(passive->front().source, here().with_port(7471));
  const auto nobody =
      cm::resolve({.node = "no address", .numeric_host = true, .no_route = true}, from());
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().call(), "rdma_getaddrinfo");
}

}  // namespace
}  // namespace verbena
