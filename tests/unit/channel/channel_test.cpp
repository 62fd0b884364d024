// SPDX-License-Identifier: MIT
// Creation and options of channels, completion hubs, and a failing device.
#include <gtest/gtest.h>

#include <cerrno>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/channel/channel_pair.hpp"
#include "tests/unit/verbs/broken_polls.hpp"
#include "tests/unit/verbs/counting_provider.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena::test {
namespace {

using testing_support::counting_provider;
using testing_support::expect_error;
using testing_support::log_catcher;
using testing_support::open_soft;

// parity: ibverbs-rs-13
TEST(channel_creation, query_returns_the_options) {
  const channel_options options{
      .queues = {.max_send_wr = 7,
                 .max_recv_wr = 9,
                 .max_send_sge = 3,
                 .max_recv_sge = 2,
                 .max_inline_data = 32},
      .min_cq_entries = 100,
      .access = access::remote_read,
      .route = {.path_mtu = mtu::bytes_512},
      .first_psn = packet_sequence_number(77),
      .reliability = {.timeout = ack_timeout::at_least(std::chrono::milliseconds(100)),
                      .retry_count = 3,
                      .rnr_retry_count = 2,
                      .min_rnr_timer = rnr_timer::at_least(std::chrono::milliseconds(1)),
                      .read_depth = 4}};
  channel_pair pair(options);
  const auto now = pair.a().query().value();
  EXPECT_EQ(now.queues.max_send_wr, 7U);
  EXPECT_EQ(now.queues.max_recv_wr, 9U);
  EXPECT_GE(now.queues.max_send_sge, 3U);
  EXPECT_GE(now.queues.max_recv_sge, 2U);
  EXPECT_GE(now.queues.max_inline_data, 32U);
  EXPECT_EQ(now.min_cq_entries, 100U);
  EXPECT_EQ(now.access, options.access);
  EXPECT_EQ(now.route.path_mtu, options.route.path_mtu);
  EXPECT_EQ(now.first_psn, options.first_psn);
  EXPECT_EQ(now.reliability.timeout, options.reliability.timeout);
  EXPECT_EQ(now.reliability.retry_count, 3U);
  EXPECT_EQ(now.reliability.rnr_retry_count, 2U);
  EXPECT_EQ(now.reliability.min_rnr_timer, options.reliability.min_rnr_timer);
  EXPECT_EQ(now.reliability.read_depth, 4U);
}

TEST(channel_creation, to_string_has_queue_pair_peer_state_and_capacity) {
  channel_pair pair;
  const auto& described = pair.a();
  // Adapters of iWARP do not know the number of the peer's queue pair.
  const std::string name = "channel on " + pair.a().qp()->name() +
                           (is_iwarp(pair.context()) ? ", connected" : " to queue pair ");
  std::string text = to_string(described);
  EXPECT_EQ(text.substr(0, name.size()), name);
  EXPECT_NE(text.find(", connected, 0 in flight, room for 16 sends and 16 receives"),
            std::string::npos)
      << text;
  auto pool = pair.pool();
  auto pending = pair.a().post_receive(*pool.take(64));
  EXPECT_NE(
      to_string(described).find(", connected, 1 in flight, room for 16 sends and 15 receives"),
      std::string::npos)
      << to_string(described);
  pair.a().flush();
  ASSERT_NE(described.failure(), nullptr);
  text = to_string(described);
  EXPECT_NE(text.find(", ended: " + to_string(described.failure()->cause)), std::string::npos)
      << text;
}

// parity: ibverbs-rs-16
TEST(channel_creation, failure_of_each_creation_call_leaves_no_object) {
  counting_provider counting(*soft_provider().value());
  failing_provider failing(counting.get());
  const log_catcher log;
  const auto make = [&]() -> result<channel> {
    VERBENA_TRY(auto context, open_soft(failing.get()));
    VERBENA_TRY(auto pd, context.allocate_pd());
    VERBENA_TRY(auto prepared, pd.create_channel());
    const auto self = prepared.endpoint();
    return std::move(prepared).handshake(self);
  };
  std::size_t calls = 0;
  {
    failing.fail_call(0, 0);
    const auto made = make();
    ASSERT_TRUE(made);
    calls = failing.calls();
  }
  ASSERT_EQ(counting.live(), "");
  std::size_t refused = 0;
  for (std::size_t nth = 1; nth <= calls; ++nth) {
    failing.fail_call(nth, ENOMEM);
    if (!make()) ++refused;
    EXPECT_EQ(counting.live(), "") << "call " << nth;
  }
  EXPECT_GE(refused, 5U);
}

// parity: ibverbs-rs-18
TEST(channel_creation, completion_queue_has_an_entry_for_each_operation) {
  static int entries;
  static provider recording;
  recording = *soft_provider().value();
  recording.verbs.create_cq.set(
      [](ibv_context* of, int cqe, void* cookie, ibv_comp_channel* channel, int vector) {
        entries = cqe;
        return soft_provider().value()->verbs.create_cq(of, cqe, cookie, channel, vector);
      });
  const auto pd = open_soft(recording).value().allocate_pd().value();
  EXPECT_TRUE(pd.create_channel({.queues = {.max_send_wr = 20, .max_recv_wr = 30}}));
  EXPECT_GE(entries, 50);
  EXPECT_LT(entries, 500);
  EXPECT_TRUE(pd.create_channel({.min_cq_entries = 500}));
  EXPECT_GE(entries, 500);
}

// parity: ibverbs-rs-9
TEST(channel_creation, peer_has_no_access_by_default) {
  channel_pair pair(open_soft(), channel_options{});
  auto mine = pair.memory(8);
  const auto theirs = pair.memory(8);
  const auto written = pair.a().write(source(mine), theirs.remote(), abort_at(long_deadline()));
  EXPECT_EQ(written.end(), operation_end::failed);
  ASSERT_NE(written.completion(), nullptr);
  EXPECT_EQ(written.completion()->status(), completion_status::remote_invalid_request);
}

// parity: ibverbs-rs-14
TEST(channel_creation, depths_of_zero_are_refused) {
  auto pd = open_tested().allocate_pd().value();
  expect_error(pd.create_channel({.queues = {.max_send_wr = 0}}), "between 1 and");
  expect_error(pd.create_channel({.queues = {.max_recv_wr = 0}}), "between 1 and");
}

// parity: ibverbs-rs-19
TEST(completion_hub, channels_share_a_hub_and_reserve_entries) {
  auto context = open_tested();
  auto pd = context.allocate_pd().value();
  expect_error(completion_hub::create(context, 0), "at least 1 operation");
  const auto hub = completion_hub::create(context, 40).value();
  const channel_options options{.queues = {.max_send_wr = 10, .max_recv_wr = 10},
                                .access = access::remote_write};
  auto first = pd.create_channel(hub, options).value();
  {
    auto second = pd.create_channel(hub, options).value();
    EXPECT_EQ(hub.unreserved(), 0U);
    expect_error(pd.create_channel(hub, options), "room for 0 more operations");
  }
  EXPECT_EQ(hub.unreserved(), 20U);
  auto second = pd.create_channel(hub, options).value();
  const auto to_first = first.endpoint();
  const auto to_second = second.endpoint();
  auto a = std::move(first).handshake(to_second).value();
  auto b = std::move(second).handshake(to_first).value();
  const auto pool = buffer_pool::create(pd, {}).value();
  // A poll of one channel delivers the completions of both.
  auto receive = b.post_receive(std::move(*pool.take(1)));
  auto send = a.post_send(std::move(*pool.take(1)), {.length = 8});
  ASSERT_NE(send.wait(long_deadline()), nullptr);
  ASSERT_NE(receive.wait(long_deadline()), nullptr);
  // A blocking call also delivers the completions of the other channel.
  auto target = pd.allocate(8, access::local_write | access::remote_write).value();
  auto write_of_b = b.post_write(std::move(*pool.take(1)), target.remote(), {.length = 8});
  auto write_of_a = a.post_write(std::move(*pool.take(1)), target.remote(), {.length = 8});
  // Completions of different queue pairs have no order.
  const auto until = long_deadline();
  do {
    ASSERT_TRUE(a.write(source(target), target.remote(), abort_at(long_deadline())));
  } while (b.in_flight() != 0 && !until.expired());
  EXPECT_EQ(b.in_flight(), 0U);
  EXPECT_TRUE(*write_of_b.poll());
  EXPECT_TRUE(*write_of_a.poll());
  write_of_b.take_buffer().reset();
  write_of_a.take_buffer().reset();
  // Destroying one channel with operations in flight does not affect the other.
  {
    auto pending = b.post_receive(std::move(*pool.take(1)));
    const channel gone = std::move(b);
  }
  EXPECT_EQ(hub.unreserved(), 20U);
  EXPECT_EQ(pool.taken(), 2U);
  EXPECT_EQ(a.in_flight(), 0U);
}

// parity: ibverbs-rs-20, rrddmma-105
TEST(channel, is_made_on_one_thread_and_used_on_another) {
  auto pair = std::async(std::launch::async, [] { return std::make_unique<channel_pair>(); }).get();
  auto memory = pair->memory(8);
  EXPECT_TRUE(pair->a().write(source(memory), memory.remote(), abort_at(long_deadline())));
}

// parity: ibverbs-rs-50
TEST(channel, failed_polls_destroy_the_queue_pair_before_memory_is_returned) {
  counting_provider counting(*soft_provider().value());
  {
    channel_pair pair(open_soft(counting.get()).value(), channel_pair::default_options());
    const auto pool = pair.pool();
    auto pending = pair.a().post_receive(std::move(*pool.take(1)));
    auto inbox = pair.memory(8);
    operation_result received;
    {
      const broken_polls broken(pair.context());
      received = pair.a().receive(sink(inbox), abort_at(long_deadline()));
    }
    EXPECT_EQ(received.end(), operation_end::lost);
    EXPECT_EQ(received.code(), EIO);
    EXPECT_EQ(pair.a().qp(), nullptr);
    ASSERT_NE(pending.poll(), nullptr);
    EXPECT_EQ(pending.poll()->end(), operation_end::lost);
    EXPECT_FALSE(pending.take_buffer().empty());
    EXPECT_EQ(pair.a().receive(sink(inbox), abort_at(long_deadline())).refusal(),
              refusal::not_connected);
    expect_error(pair.a().query(), "has no queue pair");
  }
  EXPECT_EQ(counting.live(), "");
}

// parity: ibverbs-rs-17, rrddmma-107
TEST(channel, connects_over_a_stream) {
  auto listening = bringup::listener::open({.host = "127.0.0.1"}).value();
  auto context = open_tested();
  auto pd = context.allocate_pd().value();
  const auto until = long_deadline();
  std::thread answering([&] {
    auto peer = listening.accept(until).value();
    auto b = pd.create_channel().value().connect(peer, until).value();
    auto inbox = pd.allocate(8, access::local_write).value();
    const auto received = b.receive(sink(inbox), abort_at(until));
    EXPECT_TRUE(received);
    EXPECT_EQ(received.byte_length(), 8U);
  });
  auto peer = bringup::stream::connect(listening.local_address(), until).value();
  auto a = pd.create_channel().value().connect(peer, until).value();
  auto outbox = pd.allocate(8, access::local_write).value();
  EXPECT_TRUE(a.send(source(outbox), abort_at(until)));
  answering.join();
}

}  // namespace
}  // namespace verbena::test
