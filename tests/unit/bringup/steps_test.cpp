// SPDX-License-Identifier: MIT
// Streams and negotiations in steps: both sides on one thread, ends and deadlines at each step.
#include "tests/unit/steps.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;
using negotiated_rc = bringup::negotiated_queue_pair<rc>;

/// Two streams that are connected by steps on this thread.
std::pair<bringup::stream, bringup::stream> connected_by_steps() {
  auto listening = peers::listen();
  driven accepting(listening.accept_in_steps(peers::soon()));
  driven connecting(bringup::stream::connect_in_steps(
      {.host = "127.0.0.1", .port = listening.port()}, peers::soon()));
  drive(accepting, connecting);
  return {accepting.take(), connecting.take()};
}

class negotiation_steps : public ::testing::Test {
 public:
  [[nodiscard]] driven<negotiated_rc> begin(
      bringup::stream& over, deadline until,
      owned_function<result<void>(queue_pair<rc>&)> post = {}) const {
    return driven(bringup::negotiate_in_steps<rc>(pd.create_qp<rc>(cq, cq).value(), over, until,
                                                  std::move(post), {.probing = probing}));
  }

  context device = testing_support::open_soft();
  protection_domain pd = device.allocate_pd().value();
  completion_queue cq = device.create_cq(64).value();
  bringup::probing probing = bringup::probing::automatic;
};

TEST(stream_steps, both_sides_connect_on_one_thread) {
  auto [server, client] = connected_by_steps();
  EXPECT_EQ(server.version(), client.version());
  driven sending(client.send_in_steps(peers::bytes_from("question"), peers::soon()));
  driven receiving(server.receive_in_steps(peers::soon()));
  drive(sending, receiving);
  EXPECT_EQ(receiving.take(), peers::bytes_from("question"));
  EXPECT_TRUE(sending.outcome());
}

TEST(stream_steps, large_blobs_are_exchanged_on_one_thread) {
  auto [server, client] = connected_by_steps();
  const std::vector<std::byte> large(60'000, std::byte{7});
  driven one(client.exchange_in_steps(large, peers::soon()));
  driven other(server.exchange_in_steps(peers::bytes_from("short"), peers::soon()));
  drive(one, other);
  EXPECT_EQ(other.take(), large);
  EXPECT_EQ(one.take(), peers::bytes_from("short"));
}

TEST(stream_steps, wait_is_the_blocking_form) {
  auto [server, client] = peers::connected();
  EXPECT_TRUE(client.send_in_steps(peers::bytes_from("x"), peers::soon()).wait());
  EXPECT_EQ(server.receive_in_steps(peers::soon()).wait().value(), peers::bytes_from("x"));
}

TEST(stream_steps, operation_says_what_it_waits_for) {
  auto [server, client] = peers::connected();
  const auto until = peers::soon();
  auto receiving = server.receive_in_steps(until);
  EXPECT_FALSE(receiving.progress());
  EXPECT_EQ(receiving.fd(), server.fd());
  EXPECT_EQ(receiving.events(), POLLIN);
  EXPECT_EQ(receiving.next_deadline().when(), until.when());
  client.send(peers::bytes_from("x"), peers::soon()).value();
  const auto got = receiving.progress();
  ASSERT_TRUE(got || receiving.progress());
}

TEST(stream_steps, ended_operation_is_ready_at_once) {
  auto [server, client] = peers::connected();
  server.shut_down();
  auto receiving = server.receive_in_steps(peers::soon());
  EXPECT_TRUE(receiving.next_deadline().expired());
  const auto outcome = receiving.progress();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->error().code(), ENOTCONN);
}

TEST(stream_steps, deadline_ends_each_operation) {
  auto listening = peers::listen();
  driven accepting(listening.accept_in_steps(deadline::after(10ms)));
  drive(accepting);
  EXPECT_EQ(accepting.outcome().error().kind(), error_kind::timed_out);
  driven connecting(
      bringup::stream::connect_in_steps(listening.local_address(), deadline::after(10ms)));
  drive(connecting);
  EXPECT_EQ(connecting.outcome().error().kind(), error_kind::timed_out);
  auto [server, client] = peers::connected();
  driven receiving(server.receive_in_steps(deadline::after(10ms)));
  drive(receiving);
  EXPECT_EQ(receiving.outcome().error().kind(), error_kind::timed_out);
}

TEST(stream_steps, destroyed_operation_ends_the_stream) {
  auto [server, client] = peers::connected();
  {
    auto unfinished = server.receive_in_steps(peers::soon());
  }
  EXPECT_EQ(server.receive(peers::soon()).error().code(), ENOTCONN);
}

TEST(stream_steps, blob_is_sent_during_a_receive) {
  auto [server, client] = peers::connected();
  auto receiving = server.receive_in_steps(peers::soon());
  EXPECT_FALSE(receiving.progress());
  server.send(peers::bytes_from("first"), peers::soon()).value();
  EXPECT_EQ(client.receive(peers::soon()).value(), peers::bytes_from("first"));
  client.send(peers::bytes_from("second"), peers::soon()).value();
  driven rest(std::move(receiving));
  drive(rest);
  EXPECT_EQ(rest.outcome().value(), peers::bytes_from("second"));
}

TEST(stream_steps, moved_operation_continues) {
  auto [server, client] = peers::connected();
  auto one = server.receive_in_steps(peers::soon());
  auto other = std::move(one);
  one = std::move(other);
  client.send(peers::bytes_from("x"), peers::soon()).value();
  EXPECT_EQ(std::move(one).wait().value(), peers::bytes_from("x"));
}

TEST(stream_steps, host_name_is_resolved_without_blocking) {
  auto listening = peers::listen();
  driven accepting(listening.accept_in_steps(peers::soon()));
  driven connecting(bringup::stream::connect_in_steps(
      {.host = "localhost", .port = listening.port()}, peers::soon()));
  drive(accepting, connecting);
  EXPECT_TRUE(connecting.outcome());
}

TEST(stream_steps, refused_connection_is_repeated) {
  const auto port = peers::listen().port();
  driven connecting(bringup::stream::connect_in_steps({.host = "127.0.0.1", .port = port},
                                                      peers::soon(), {.retry_refused = 250ms}));
  const auto begin = std::chrono::steady_clock::now();
  drive(connecting);
  EXPECT_EQ(connecting.outcome().error().code(), ECONNREFUSED);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 190ms);
}

TEST(stream_steps, socket_is_adopted_on_one_thread) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  driven one(bringup::stream::adopt_in_steps(unique_fd(ends[0]), peers::soon()));
  driven other(bringup::stream::adopt_in_steps(unique_fd(ends[1]), peers::soon()));
  drive(one, other);
  EXPECT_TRUE(one.outcome());
  EXPECT_TRUE(other.outcome());
}

TEST_F(negotiation_steps, both_sides_connect_on_one_thread) {
  for (const auto wanted : {bringup::probing::never, bringup::probing::always}) {
    probing = wanted;
    auto [server, client] = connected_by_steps();
    int posts = 0;
    const auto post = [&posts](queue_pair<rc>&) -> result<void> {
      ++posts;
      return {};
    };
    auto one = begin(server, peers::soon(), post);
    auto other = begin(client, peers::soon(), post);
    drive(one, other);
    EXPECT_EQ(posts, 2);
    const auto made = one.take();
    EXPECT_EQ(made.terms->agreed.probe, wanted == bringup::probing::always);
    EXPECT_EQ(made.terms->theirs.queue_pair.number, other.take().queue.number());
    // The streams are usable again.
    client.send(peers::bytes_from("x"), peers::soon()).value();
    EXPECT_EQ(server.receive(peers::soon()).value(), peers::bytes_from("x"));
  }
}

TEST_F(negotiation_steps, failed_post_of_receives_ends_both_sides) {
  auto [server, client] = connected_by_steps();
  auto one = begin(server, peers::soon(), [](queue_pair<rc>&) -> result<void> {
    return error::unavailable(ENOMEM, "post", "queue", "no memory");
  });
  auto other = begin(client, peers::soon());
  drive(one, other);
  EXPECT_EQ(one.outcome().error().code(), ENOMEM);
  EXPECT_EQ(other.outcome().error().code(), ECONNABORTED);
}

TEST_F(negotiation_steps, exception_of_the_program_is_thrown_by_progress) {
  auto [server, client] = connected_by_steps();
  auto steps =
      bringup::negotiate_in_steps<rc>(pd.create_qp<rc>(cq, cq).value(), server, peers::soon(),
                                      [](queue_pair<rc>&) -> result<void> { throw 7; });
  auto other = begin(client, peers::soon());
  const auto run = [&] {
    while (!steps.progress()) other.progress();
  };
  EXPECT_THROW(run(), int);
  EXPECT_EQ(server.receive(peers::soon()).error().code(), ENOTCONN);
  drive(other);
  ASSERT_FALSE(other.outcome());
  EXPECT_EQ(other.outcome().error().code(), ECONNABORTED) << other.outcome().error().message();
}

// One side is destroyed after any number of steps. The other side ends, and its error is that of a
// closed connection.
TEST_F(negotiation_steps, peer_that_is_destroyed_at_any_step_ends_the_negotiation) {
  probing = bringup::probing::always;
  int failed = 0;
  for (int count = 0; count < 30; ++count) {
    std::optional streams(connected_by_steps());
    auto one = begin(streams->first, peers::soon());
    auto other = begin(streams->second, peers::soon());
    for (int i = 0; i < count; ++i) step(one, other);
    other.destroy();
    streams->second.shut_down();
    drive(one);
    if (!one.outcome()) {
      EXPECT_EQ(one.outcome().error().code(), ECONNRESET) << one.outcome().error().message();
      EXPECT_EQ(streams->first.receive(peers::soon()).error().code(), ENOTCONN);
      ++failed;
    }
  }
  EXPECT_GE(failed, 2);
}

// The peer stops after any number of steps.
TEST_F(negotiation_steps, deadline_ends_each_step) {
  int failed = 0;
  for (int count = 0; count < 12; ++count) {
    auto [server, client] = connected_by_steps();
    auto one = begin(server, deadline::after(60ms));
    auto other = begin(client, peers::soon());
    for (int i = 0; i < count; ++i) {
      one.progress();
      other.progress();
    }
    drive(one);
    if (one.outcome()) continue;
    EXPECT_EQ(one.outcome().error().kind(), error_kind::timed_out);
    ++failed;
  }
  EXPECT_GE(failed, 2);
}

}  // namespace
}  // namespace verbena::test
