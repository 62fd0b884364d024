// SPDX-License-Identifier: MIT
// Connector, listener and connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <initializer_list>
#include <string>

#include "tests/unit/cm/served.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena {
namespace {

using test::accept_request;
using test::bytes_of;
using test::connect_to;
using test::end;
using test::test_deadline;
using test::text_of;
using namespace std::chrono_literals;

class connections : public test::served {
 protected:
  struct pair {
    end active;
    end passive;
  };

  /// Returns both sides of one connection. The active side connects on another thread.
  [[nodiscard]] pair connect(
      const cm::connection_options& asking = {}, const cm::connection_options& answering = {},
      const queue_pair_options<rc>& active = test::remote_read_and_write(),
      const queue_pair_options<rc>& passive = test::remote_read_and_write()) {
    auto listener = open();
    auto peer = find(listener.port());
    auto asked = std::async(std::launch::async, [&] { return connect_to(peer, asking, active); });
    auto passive_end = accept_request(listener.accept(test_deadline()).value(), answering, passive);
    auto active_end = asked.get();
    return {std::move(active_end).value(), std::move(passive_end).value()};
  }

  /// Returns the address of this host with `port`, as error messages print it.
  [[nodiscard]] std::string address(std::uint16_t port) const {
    return to_string(here().with_port(port));
  }

  /// Connects `peer` to `listener`, passes the request to `answer`, and returns the result of
  /// the active side.
  template <class Answer>
  [[nodiscard]] result<end> connect_with_answer(cm::listener& listener, cm::connector& peer,
                                                Answer answer) {
    auto asked = std::async(std::launch::async, [&] { return connect_to(peer); });
    answer(listener.accept(test_deadline()).value());
    return asked.get();
  }
};

void send(end& from, std::string_view text) {
  const auto into = from.own->memory.slice(0, text.size());
  std::ranges::copy(bytes_of(text), from.own->memory.bytes().begin());
  auto batch = from.link.qp().start_send();
  batch.send({.id = 1, .signaled = true}, into);
  batch.submit().value();
}

/// Expects that the message contains all `words`.
void expect_all(const error& what, std::initializer_list<std::string> words) {
  for (const auto& each : words)
    EXPECT_NE(what.message().find(each), std::string::npos) << each << ": " << what.message();
}

std::string device_name(const cm::connector& of) { return " on " + of.context().value().name(); }

bool is_iwarp(end& of) { return of.link.id().is_iwarp(); }

// parity: ibverbs-271, ibverbs-280, ibverbs-282
TEST_F(connections, private_data_and_messages_arrive) {
  auto [active, passive] =
      connect({.private_data = bytes_of("question")}, {.private_data = bytes_of("answer")});
  EXPECT_EQ(text_of(passive.link.peer_private_data()), "question");
  const auto padded = passive.link.peer_private_data();
  ASSERT_GE(padded.size(), 8U);
  EXPECT_EQ(std::ranges::count(padded.subspan(8), std::byte{}), std::ssize(padded) - 8);
  EXPECT_EQ(text_of(active.link.peer_private_data()), "answer");
  EXPECT_EQ(active.link.peer_address()->host(), here().host());
  EXPECT_EQ(active.link.peer_address()->port(), passive.link.local_address()->port());
  EXPECT_EQ(active.link.local_address()->port(), passive.link.peer_address()->port());

  passive.link.qp().post_receive({.id = 7}, passive.own->memory.slice(0, 64)).value();
  send(active, "over");
  passive.own->take(1).at(0).result().value();
  active.own->take(1).at(0).result().value();
  EXPECT_EQ(text_of(passive.own->memory.bytes().first(4)), "over");
}

// parity: ibverbs-272
TEST_F(connections, access_flags_of_the_options_apply) {
  auto [active, passive] = connect();
  // On iWARP the active side sends first.
  for (auto [writer, reader] : {std::pair{&active, &passive}, std::pair{&passive, &active}}) {
    std::ranges::fill(writer->own->memory.bytes().first(64), std::byte{0x5a});
    auto batch = writer->link.qp().start_send();
    batch.write({.id = 1, .signaled = true}, writer->own->memory.slice(0, 64),
                reader->own->memory.remote().slice(128, 64));
    batch.submit().value();
    writer->own->take(1).at(0).result().value();
  }
  EXPECT_EQ(active.own->memory.bytes()[128], std::byte{0x5a});
}

// parity: ibverbs-298
TEST_F(connections, connection_is_usable_after_notify_established) {
  auto [active, passive] = connect();
  // The kernel refuses the call for a connection that is already established.
  const auto told = passive.link.notify_established();
  EXPECT_TRUE(told || told.error().code() == EISCONN) << told.error().message();
  EXPECT_FALSE(passive.link.is_disconnected().value());
  passive.link.qp().post_receive({.id = 7}, passive.own->memory.slice(0, 64)).value();
  send(active, "over");
  passive.own->take(1).at(0).result().value();
  EXPECT_EQ(text_of(passive.own->memory.bytes().first(4)), "over");
}

// parity: ibverbs-273, ibverbs-279
TEST_F(connections, read_depths_are_negotiated) {
  using attribute = queue_pair_attribute;
  auto active_options = test::remote_read_and_write();
  active_options.reliability.read_depth = 4;
  auto passive_options = test::remote_read_and_write();
  passive_options.reliability.read_depth = 2;
  auto [active, passive] = connect({}, {}, active_options, passive_options);
  if (is_iwarp(active)) GTEST_SKIP() << "the connection manager of iWARP does not report depths";
  const auto wanted = attribute::initiator_depth | attribute::responder_resources;
  const auto asked = active.link.qp().query(wanted).value();
  const auto granted = passive.link.qp().query(wanted).value();
  EXPECT_EQ(asked.initiator_depth(), 2);
  EXPECT_EQ(asked.responder_resources(), 2);
  EXPECT_EQ(granted.initiator_depth(), 2);
  EXPECT_EQ(granted.responder_resources(), 2);

  auto [wide, narrow] = connect({.responder_resources = 4, .initiator_depth = 2},
                                {.responder_resources = 2, .initiator_depth = 4});
  const auto narrowed = narrow.link.qp().query(wanted).value();
  EXPECT_EQ(narrowed.responder_resources(), 2);
  EXPECT_EQ(narrowed.initiator_depth(), 4);

  // One option does not change the default of the other.
  auto [alone, other] = connect({.responder_resources = 1}, {}, active_options, active_options);
  const auto of_alone = alone.link.qp().query(wanted).value();
  EXPECT_EQ(of_alone.responder_resources(), 1);
  EXPECT_EQ(of_alone.initiator_depth(), 4);
}

// rdma_accept(3): the initiator depth must not exceed the value of the request.
TEST_F(connections, initiator_depth_above_the_request_is_refused) {
  auto listener = open();
  auto peer = find(listener.port());
  auto asked =
      std::async(std::launch::async, [&] { return connect_to(peer, {.responder_resources = 2}); });
  auto request = listener.accept(test_deadline()).value();
  if (request.id().is_iwarp()) {
    EXPECT_TRUE(std::move(request).reject());
    EXPECT_FALSE(asked.get());
    GTEST_SKIP() << "on iWARP the request is not a limit";
  }
  EXPECT_EQ(request.parameters().initiator_depth, 2);
  const auto refused = accept_request(std::move(request), {.initiator_depth = 4});
  EXPECT_FALSE(asked.get());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), error_kind::invalid_argument);
  expect_all(refused.error(), {"initiator_depth 4 exceeds 2", "request of the peer"});
}

TEST_F(connections, depth_above_the_device_is_refused) {
  auto listener = open();
  auto peer = find(listener.port());
  const auto device = peer.context().value().query().value();
  for (const bool initiator : {true, false}) {
    const int limit = initiator ? device.max_initiator_depth() : device.max_responder_resources();
    if (limit + 1 >= cm::connection_parameters::device_maximum) continue;
    const auto above = static_cast<std::uint8_t>(limit + 1);
    cm::connection_options options;
    (initiator ? options.initiator_depth : options.responder_resources) = above;
    const auto refused = connect_to(peer, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), error_kind::invalid_argument);
    expect_all(refused.error(), {"exceeds " + std::to_string(limit), "the limit of the device"});
  }
}

// parity: ibverbs-274, ibverbs-270, ibverbs-299
TEST_F(connections, several_requests_are_accepted_at_the_same_time) {
  auto listener = open();
  auto first_peer = find(listener.port());
  auto second_peer = find(listener.port());
  EXPECT_TRUE(listener.id().is_valid() && first_peer.id().is_valid());
  auto first = std::async(std::launch::async, [&] { return connect_to(first_peer); });
  auto request = listener.accept(test_deadline()).value();
  auto second = std::async(std::launch::async, [&] { return connect_to(second_peer); });
  auto later = listener.accept(test_deadline()).value();
  EXPECT_TRUE(request.id().is_valid() && later.id().is_valid());
  EXPECT_NE(request.id().native(), later.id().native());
  auto on_another_thread =
      std::async(std::launch::async, [&] { return accept_request(std::move(later)); });
  auto later_end = on_another_thread.get().value();
  auto end_of_first = accept_request(std::move(request)).value();
  auto active_first = first.get().value();
  auto active_second = second.get().value();
  end_of_first.link.qp().post_receive({}, end_of_first.own->memory.slice(0, 64)).value();
  later_end.link.qp().post_receive({}, later_end.own->memory.slice(0, 64)).value();
  send(active_first, "one");
  send(active_second, "two");
  end_of_first.own->take(1).at(0).result().value();
  later_end.own->take(1).at(0).result().value();
  EXPECT_EQ(text_of(end_of_first.own->memory.bytes().first(3)), "one");
  EXPECT_EQ(text_of(later_end.own->memory.bytes().first(3)), "two");
}

// parity: ibverbs-286
TEST_F(connections, disconnect_flushes_both_sides) {
  auto [active, passive] = connect();
  active.link.qp().post_receive({.id = 1}, active.own->memory.slice(0, 64)).value();
  passive.link.qp().post_receive({.id = 2}, passive.own->memory.slice(0, 64)).value();
  EXPECT_FALSE(passive.link.is_disconnected().value());
  active.link.disconnect().value();
  active.link.disconnect().value();
  EXPECT_EQ(active.own->take(1).at(0).status(), completion_status::flushed);
  EXPECT_TRUE(passive.link.wait_disconnected(test_deadline()).value());
  EXPECT_EQ(passive.own->take(1).at(0).status(), completion_status::flushed);
  EXPECT_TRUE(active.link.wait_disconnected(test_deadline()).value());
}

// parity: ibverbs-287, ibverbs-299
TEST_F(connections, destruction_closes_despite_other_handles) {
  auto [active, passive] = connect();
  const cm::identifier kept = active.link.id();
  {
    const auto dropped = std::move(active.link);
  }
  EXPECT_TRUE(passive.link.wait_disconnected(test_deadline()).value());
  EXPECT_TRUE(kept.is_valid());
}

// parity: ibverbs-288
TEST_F(connections, device_objects_outlive_the_connection) {
  auto listener = open();
  auto peer = find(listener.port());
  auto asked = std::async(std::launch::async, [&] { return connect_to(peer); });
  auto passive = accept_request(listener.accept(test_deadline()).value()).value();
  auto own = std::move(asked.get().value().own);  // destroys the connection
  EXPECT_TRUE(passive.link.wait_disconnected(test_deadline()).value());
  const auto more = own->pd.allocate(64, access::local_write);
  EXPECT_TRUE(more) << more.error().message();
}

// parity: ibverbs-284
TEST_F(connections, rejection_has_status_and_private_data) {
  auto listener = open();
  auto peer = find(listener.port());
  const auto outcome = connect_with_answer(listener, peer, [](cm::connection_request request) {
    EXPECT_GE(request.parameters().responder_resources, 1);
    std::move(request).reject(bytes_of("busy")).value();
  });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), ECONNREFUSED);
  ASSERT_TRUE(peer.rejection());
  EXPECT_TRUE(peer.rejection()->is_consumer_reject());
  EXPECT_EQ(text_of(peer.rejection()->private_data), "busy");
}

// parity: ibverbs-275
TEST_F(connections, destroyed_request_is_rejected) {
  auto listener = open();
  auto peer = find(listener.port());
  const auto outcome = connect_with_answer(listener, peer, [](const cm::connection_request&) {});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), ECONNREFUSED) << outcome.error().message();
  EXPECT_TRUE(peer.rejection());
}

// parity: ibverbs-278
TEST_F(connections, connect_without_listener_is_rejected) {
  std::uint16_t port = 0;
  {
    auto listener = open();
    port = listener.port();
  }
  auto peer = find(port);
  const auto outcome = connect_to(peer);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), ECONNREFUSED) << outcome.error().message();
  expect_all(outcome.error(), {"listens", address(port), device_name(peer)});
}

// parity: ibverbs-277, ibverbs-270
TEST_F(connections, unanswered_request_times_out) {
  auto listener = open();
  auto peer = find(listener.port());
  test::objects own(peer.context().value());
  auto prepared = peer.create_qp(own.pd, own.cq, own.cq).value();
  const auto begin = deadline::clock::now();
  const auto outcome = peer.connect(std::move(prepared), {}, deadline::after(200ms));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind(), error_kind::timed_out) << outcome.error().message();
  expect_all(outcome.error(), {address(listener.port()), device_name(peer), "check that the host"});
  EXPECT_GE(deadline::clock::now() - begin, 200ms);
}

// parity: ibverbs-276
TEST_F(connections, accept_without_request_times_out) {
  auto listener = open();
  const auto begin = deadline::clock::now();
  const auto outcome = listener.accept(deadline::after(50ms));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind(), error_kind::timed_out);
  expect_all(outcome.error(), {address(listener.port()), "does the peer connect to this address"});
  EXPECT_GE(deadline::clock::now() - begin, 50ms);
}

// parity: ibverbs-281
TEST_F(connections, private_data_above_the_limit_is_rejected) {
  const std::vector<std::byte> bytes(200, std::byte{1});
  const std::span<const std::byte> all(bytes);
  auto listener = open();
  auto peer = find(listener.port());
  const auto asking = connect_to(peer, {.private_data = all.first(57)});
  ASSERT_FALSE(asking);
  EXPECT_EQ(asking.error().kind(), error_kind::invalid_argument);
  EXPECT_NE(asking.error().message().find("at most 56 bytes, not 57"), std::string::npos)
      << asking.error().message();

  auto again = find(listener.port());
  auto asked = std::async(std::launch::async,
                          [&] { return connect_to(again, {.private_data = all.first(56)}); });
  auto request = listener.accept(test_deadline()).value();
  EXPECT_TRUE(std::ranges::equal(request.private_data().first(56), all.first(56)));
  const auto answering = accept_request(std::move(request), {.private_data = all.first(197)});
  ASSERT_FALSE(answering);
  EXPECT_NE(answering.error().message().find("at most 196 bytes, not 197"), std::string::npos);
  EXPECT_FALSE(asked.get());

  auto third = find(listener.port());
  const auto outcome = connect_with_answer(listener, third, [&](cm::connection_request refused) {
    const auto much = std::move(refused).reject(all.first(149));
    ASSERT_FALSE(much);
    EXPECT_NE(much.error().message().find("at most 148 bytes, not 149"), std::string::npos);
  });
  EXPECT_FALSE(outcome);
}

// parity: ibverbs-289
TEST_F(connections, queue_pair_of_another_device_is_rejected) {
  auto listener = open();
  auto peer = find(listener.port());
  const auto devices = list_devices(from()).value();
  const auto other = devices.at(0).open().value();
  test::objects own(other);
  auto prepared = own.pd.create_qp<rc>(own.cq, own.cq).value();
  const auto outcome = peer.connect(std::move(prepared), {}, test_deadline());
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message().find("a different open device"), std::string::npos);
}

// parity: ibverbs-285
TEST_F(connections, datagram_port_space_is_rejected) {
  const auto to = bringup::address{.host = here().host(), .port = 1};
  for (const auto space : {cm::port_space::udp, cm::port_space::ipoib}) {
    const auto asking = cm::connector::resolve(to, test_deadline(), {.space = space});
    ASSERT_FALSE(asking);
    EXPECT_EQ(asking.error().kind(), error_kind::invalid_argument);
    const auto listening = cm::listener::open(to, {.space = space});
    ASSERT_FALSE(listening);
    EXPECT_EQ(listening.error().kind(), error_kind::invalid_argument);
  }
}

// parity: ibverbs-269, ibverbs-283
TEST_F(connections, wildcard_listener_accepts_a_chosen_source_address) {
  auto listener = cm::listener::open({.host = "", .port = 0}).value();
  ASSERT_NE(listener.port(), 0);
  const auto found =
      cm::connector::resolve({.host = here().host(), .port = listener.port()}, test_deadline(),
                             {.from = here(), .type_of_service = 32});
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->local_address()->host(), here().host());
  auto peer = *found;
  auto asked = std::async(std::launch::async, [&] { return connect_to(peer); });
  auto passive = accept_request(listener.accept(test_deadline()).value()).value();
  EXPECT_TRUE(asked.get());
  EXPECT_EQ(passive.link.peer_address()->host(), here().host());
}

}  // namespace
}  // namespace verbena
