// SPDX-License-Identifier: MIT
// Failed channels: the reported cause, reconnection, and the delivery of each message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/channel/channel_pair.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/channel/reconnection.hpp"
#include "verbena/channel/resume_token.hpp"
#include "verbena/verbs/inject_event.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

channel_options counting() {
  auto options = channel_pair::default_options();
  options.counts_messages = true;
  return options;
}

// Options with timeouts of a few milliseconds.
channel_options few_retries_options() {
  auto options = counting();
  options.reliability.timeout = ack_timeout::at_least(1ms);
  options.reliability.retry_count = 3;
  return options;
}

// Reconnects both channels of a pair; `change` may change the resume token of the second.
struct both_reconnected {
  reconnection a;
  reconnection b;
};
template <class Change>
both_reconnected reconnect(channel_pair& pair, Change&& change) {
  auto first = pair.a().prepare_reconnect().value();
  auto second = pair.b().prepare_reconnect().value();
  const auto to_first = first.endpoint();
  const auto to_second = second.endpoint();
  auto told = second.resume_token();
  const auto told_by_first = resume_token::decode(first.resume_token().encode()).value();
  EXPECT_EQ(told_by_first, first.resume_token());
  change(told);
  return {.a = std::move(first).handshake(to_second, told).value(),
          .b = std::move(second).handshake(to_first, told_by_first).value()};
}
both_reconnected reconnect(channel_pair& pair) {
  return reconnect(pair, [](resume_token& /*told*/) {});
}

// A message each way.
void expect_working(channel_pair& pair, unsigned char value) {
  auto outbox = pair.memory(8, value);
  auto inbox = pair.memory(8);
  const auto send_message = [&](channel& from, channel& to) {
    const auto received = to.scope(abort_at(long_deadline()), [&](auto& receiving) {
      auto message = receiving.receive(sink(inbox));
      EXPECT_TRUE(from.send(source(outbox), abort_at(long_deadline())));
      EXPECT_TRUE(message.wait());
    });
    EXPECT_TRUE(received);
    EXPECT_TRUE(all_are(inbox.bytes(), value));
  };
  send_message(pair.a(), pair.b());
  send_message(pair.b(), pair.a());
  EXPECT_EQ(pair.a().failure(), nullptr);
}

std::vector<pending_operation> post_sends(channel& from, const buffer_pool& pool, int count) {
  std::vector<pending_operation> out;
  out.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    out.push_back(from.post_send(std::move(*pool.take(1)), {.length = 8}));
  return out;
}

TEST(recovery, first_failure_is_kept_and_later_ones_are_counted) {
  channel_pair pair(few_retries_options());
  const auto pool = pair.pool();
  auto locked = pair.pd().allocate(64, access::local_write).value();
  auto receive = pair.a().post_receive(std::move(*pool.take(1)));
  auto refused = pair.a().post_write(std::move(*pool.take(1)), locked.remote(), {.length = 8});
  auto read = pair.a().post_read(std::move(*pool.take(1)), locked.remote(), {.length = 8});
  auto sends = post_sends(pair.a(), pool, 2);
  EXPECT_EQ(pair.a().failure(), nullptr);
  ASSERT_NE(refused.wait(long_deadline()), nullptr);
  pair.a().flush();
  const auto* const why = pair.a().failure();
  ASSERT_NE(why, nullptr);
  EXPECT_EQ(why->cause, failure_cause::operation);
  ASSERT_TRUE(why->first);
  EXPECT_EQ(why->first->completion()->status(), completion_status::remote_access_error);
  EXPECT_EQ(why->first->posted().line(), refused.poll()->posted().line());
  // The write was refused, but writes are executed in pieces.
  EXPECT_EQ(refused.poll()->delivery(), delivery::unknown);
  EXPECT_EQ(read.poll()->delivery(), delivery::not_done);
  EXPECT_EQ(receive.poll()->delivery(), delivery::not_done);
  EXPECT_EQ(sends[0].poll()->delivery(), delivery::unknown);
  EXPECT_EQ(why->fates, (operation_fates{.not_done = 1, .unknown = 3, .receives = 1}));
  const std::string words = pair.a().describe_failure().message();
  EXPECT_THAT(words, ::testing::HasSubstr("recovery_test.cpp"));
  EXPECT_THAT(words, ::testing::HasSubstr("an operation failed"));
  EXPECT_THAT(words, ::testing::HasSubstr("1 not done, 3 unknown, 1 receives"));
  for (auto* each : {&receive, &refused, &read, &sends[0], &sends[1]}) each->take_buffer().reset();
  EXPECT_EQ(pool.taken(), 0U);
}

TEST(recovery, abort_and_flush_are_distinct_causes) {
  channel_pair pair(counting());
  auto inbox = pair.memory(8);
  EXPECT_EQ(pair.a().receive(sink(inbox), abort_after(100ms)).end(), operation_end::aborted);
  ASSERT_NE(pair.a().failure(), nullptr);
  EXPECT_EQ(pair.a().failure()->cause, failure_cause::aborted);
  ASSERT_TRUE(pair.a().failure()->first);
  EXPECT_EQ(pair.a().failure()->first->delivery(), delivery::not_done);
  EXPECT_THAT(pair.a().describe_failure().message(), ::testing::HasSubstr("an abort_at passed"));
  pair.b().flush();
  EXPECT_EQ(pair.b().failure()->cause, failure_cause::program);
  EXPECT_THAT(pair.b().failure()->error().message(),
              ::testing::HasSubstr("the program ended the connection"));
  reconnect(pair);
  expect_working(pair, 7);
}

TEST(recovery, message_without_receive_was_not_delivered) {
  auto options = few_retries_options();
  options.reliability.rnr_retry_count = 1;
  channel_pair pair(options);
  auto outbox = pair.memory(8);
  const auto sent = pair.a().send(source(outbox), abort_at(long_deadline()));
  EXPECT_EQ(sent.completion()->status(), completion_status::rnr_retries_exceeded);
  EXPECT_EQ(sent.delivery(), delivery::not_done);
  EXPECT_EQ(operation_result().delivery(), delivery::not_done);
}

// Three messages arrive, five do not. Then both sides reconnect, and the second reports `told`.
struct settled {
  reconnection again;
  std::vector<delivery> messages;
};
settled settle_eight_messages(channel_pair& pair, std::optional<std::uint64_t> told) {
  const auto pool = pair.pool();
  std::vector<pending_operation> receives;
  receives.reserve(3);
  for (int i = 0; i < 3; ++i) receives.push_back(pair.b().post_receive(std::move(*pool.take(1))));
  auto sends = post_sends(pair.a(), pool, 8);
  for (auto& each : receives) EXPECT_TRUE(each.wait(long_deadline())->has_value());
  // A message can be received before its acknowledgement arrives: waits for these too.
  for (std::size_t i = 0; i < receives.size(); ++i) {
    const auto* const acknowledged = sends[i].wait(long_deadline());
    EXPECT_TRUE(acknowledged != nullptr && acknowledged->has_value());
  }
  pair.a().flush();
  const auto both = reconnect(pair, [&](resume_token& of) {
    EXPECT_EQ(of.before->received, 3U);
    of.before->received = told;
  });
  EXPECT_EQ(both.a.peer(), reconnected_peer::same);
  EXPECT_EQ(both.b.peer(), reconnected_peer::same);
  EXPECT_EQ(both.b.received_by_peer(), 0U);
  settled out{.again = both.a, .messages = {}};
  for (auto& each : sends) {
    EXPECT_EQ(each.poll()->delivery(),
              out.messages.size() < 3 ? delivery::done : delivery::unknown);
    out.messages.push_back(both.a.reconcile(*each.poll()));
  }
  return out;
}

TEST(recovery, reconcile_reports_which_unknown_messages_arrived) {
  using enum delivery;
  channel_pair pair(counting());
  const auto messages = [&](std::optional<std::uint64_t> told) {
    return settle_eight_messages(pair, told).messages;
  };
  EXPECT_THAT(messages(3), ::testing::ElementsAre(done, done, done, not_done, not_done, not_done,
                                                  not_done, not_done));
  // Acknowledgements can be lost: this side cannot distinguish these two messages from the others.
  EXPECT_THAT(messages(5),
              ::testing::ElementsAre(done, done, done, done, done, not_done, not_done, not_done));
  EXPECT_THAT(messages(8), ::testing::Each(done));
  // No count, a count above the sent messages, a count below the acknowledged messages.
  for (const auto nonsense : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(9),
                              std::optional<std::uint64_t>(2)})
    EXPECT_THAT(messages(nonsense), ::testing::ElementsAre(done, done, done, unknown, unknown,
                                                           unknown, unknown, unknown));
  expect_working(pair, 9);
}

TEST(recovery, count_of_another_connection_is_ignored) {
  channel_pair pair(counting());
  const auto changes = std::to_array<void (*)(resume_token&)>(
      {[](resume_token& of) { of.before->connection += 1; },
       [](resume_token& of) { of.before->peer.channel ^= 1U; },
       [](resume_token& of) { of.before->peer.connection += 1; },
       [](resume_token& of) { of.before.reset(); }});
  for (const auto change : changes) {
    const auto both = reconnect(pair, change);
    EXPECT_EQ(both.a.peer(), reconnected_peer::same);
    EXPECT_EQ(both.a.received_by_peer(), std::nullopt);
  }
  const auto both = reconnect(pair, [](resume_token& of) { of.self.channel ^= 1U; });
  EXPECT_EQ(both.a.peer(), reconnected_peer::another);
  EXPECT_EQ(both.a.received_by_peer(), std::nullopt);
}

TEST(recovery, write_with_immediate_counts_but_is_never_known_as_not_done) {
  channel_pair pair(counting());
  const auto pool = pair.pool();
  auto target = pair.memory(8);
  auto receive = pair.b().post_receive(std::move(*pool.take(1)));
  auto plain = pair.a().post_write(std::move(*pool.take(1)), target.remote(), {.length = 8});
  auto first = pair.a().post_write(std::move(*pool.take(1)), target.remote(), {.length = 8},
                                   {.immediate = 1});
  auto second = pair.a().post_write(std::move(*pool.take(1)), target.remote(), {.length = 8},
                                    {.immediate = 2});
  auto send = pair.a().post_send(std::move(*pool.take(1)), {.length = 8});
  ASSERT_TRUE(receive.wait(long_deadline())->has_value());
  const auto again = reconnect(pair).a;
  EXPECT_EQ(again.received_by_peer(), 1U);
  EXPECT_EQ(again.reconcile(*plain.poll()), delivery::done);
  EXPECT_EQ(again.reconcile(*first.poll()), delivery::done);
  EXPECT_EQ(again.reconcile(*second.poll()), delivery::unknown);
  EXPECT_EQ(again.reconcile(*send.poll()), delivery::not_done);
}

TEST(resume_token, garbage_is_refused) {
  const resume_token whole{
      .self = {.channel = 5, .connection = 3},
      .before = resume_token::past{
          .connection = 2, .peer = {.channel = 7, .connection = 9}, .received = 77}};
  const auto bytes = whole.encode();
  EXPECT_EQ(resume_token::decode(bytes).value(), whole);
  expect_error(resume_token::decode(std::span(bytes).first(55)), "56 bytes");
  auto other = bytes;
  other[0] = std::byte{2};
  expect_error(resume_token::decode(other), "version 2");
  // Invalid flags, reserved bytes that are not zero, invalid numbers.
  for (std::size_t at = 1; at < 8; ++at) {
    other = bytes;
    other[at] = std::byte{0x80};
    expect_error(resume_token::decode(other), "contradict");
  }
  for (const std::size_t number : {8, 16, 24, 32, 40}) {
    other = bytes;
    std::fill_n(other.begin() + static_cast<std::ptrdiff_t>(number), 8, std::byte{0});
    expect_error(resume_token::decode(other), "contradict");
  }
  other = bytes;
  other[1] = std::byte{0};  // no earlier connection, but its numbers
  expect_error(resume_token::decode(other), "contradict");
  other[1] = std::byte{1};  // does not count, but has a count
  expect_error(resume_token::decode(other), "contradict");
}

// Runs both ends of a stream at once, `there` on a second thread.
template <class Here, class There>
auto over_a_stream(Here&& here, There&& there) {
  auto listening = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::thread answering([&] {
    auto peer = listening.accept(long_deadline()).value();
    there(peer);
  });
  auto peer = bringup::stream::connect(listening.local_address(), long_deadline()).value();
  auto out = here(peer);
  answering.join();
  return out;
}

TEST(reconnect, distinguishes_same_restarted_and_unknown_peers) {
  auto context = open_tested();
  auto pd = context.allocate_pd().value();
  // Each side has its own protection domain and thread.
  auto other_pd = open_tested().allocate_pd().value();
  std::optional<channel> b;
  auto a = over_a_stream(
      [&](auto& peer) {
        return pd.create_channel(counting()).value().connect(peer, long_deadline()).value();
      },
      [&](auto& peer) {
        b.emplace(
            other_pd.create_channel(counting()).value().connect(peer, long_deadline()).value());
      });
  const auto again = [&](auto&& there) {
    return over_a_stream([&](auto& peer) { return a.reconnect(peer, long_deadline()).value(); },
                         there);
  };
  const auto live = again([&](auto& peer) {
    const auto made = b->reconnect(peer, long_deadline()).value();
    EXPECT_EQ(made.peer(), reconnected_peer::same);
    EXPECT_EQ(made.received_by_peer(), 0U);
  });
  EXPECT_EQ(live.peer(), reconnected_peer::same);
  EXPECT_EQ(live.received_by_peer(), 0U);
  const auto restarted = again([&](auto& peer) {
    b.emplace(other_pd.create_channel(counting()).value().connect(peer, long_deadline()).value());
  });
  EXPECT_EQ(restarted.peer(), reconnected_peer::another);
  EXPECT_EQ(restarted.received_by_peer(), std::nullopt);
  const auto silent = again([&](auto& peer) {
    b.reset();
    auto cq = other_pd.context().create_cq(16).value();
    auto queue = other_pd.create_qp<rc>(cq, cq).value();
    EXPECT_TRUE(bringup::connect_queue_pair(std::move(queue), peer, long_deadline()));
  });
  EXPECT_EQ(silent.peer(), reconnected_peer::unknown);
}

TEST(reconnect, fails_without_a_peer_and_can_be_repeated) {
  channel_pair pair(counting());
  const auto pool = pair.pool();
  auto pending = pair.a().post_receive(std::move(*pool.take(1)));
  const auto failed =
      over_a_stream([&](auto& peer) { return pair.a().reconnect(peer, long_deadline()); },
                    [](auto& peer) { peer.refuse("not today"); });
  expect_error(failed, "not today");
  // All buffers were returned, and posts are refused.
  EXPECT_EQ(pending.poll()->delivery(), delivery::not_done);
  pending.take_buffer().reset();
  EXPECT_EQ(pool.taken(), 0U);
  EXPECT_EQ(pair.a().qp(), nullptr);
  EXPECT_EQ(pair.a().in_flight(), 0U);
  EXPECT_EQ(pair.a().post_receive(std::move(*pool.take(1))).poll()->refusal(),
            refusal::not_connected);
  expect_error(pair.a().query(), "has no queue pair");
  EXPECT_EQ(pair.a().failure()->cause, failure_cause::program);
  const auto both = reconnect(pair);
  EXPECT_EQ(both.a.peer(), reconnected_peer::same);
  EXPECT_EQ(both.a.received_by_peer(), 0U);
  expect_working(pair, 3);
}

TEST(reconnect, peer_with_invalid_resume_token_is_refused) {
  channel_pair pair(counting());
  const auto failed = over_a_stream(
      [&](auto& peer) { return pair.a().reconnect(peer, long_deadline()); },
      [&](auto& peer) {
        auto cq = pair.context().create_cq(16).value();
        auto queue = pair.pd().create_qp<rc>(cq, cq).value();
        static_cast<void>(bringup::connect_queue_pair(std::move(queue), peer, long_deadline(),
                                                      {.message = bytes_of("garbage")}));
      });
  expect_error(failed, "56 bytes");
}

gid_index source_of(channel& of) {
  return of.qp()->query(queue_pair_attribute::address).value().address()->source_gid_index;
}

// The destructor restores the port of the device.
class flapping_port {
 public:
  explicit flapping_port(const context& of) : of_(of) {}
  flapping_port(const flapping_port&) = delete;
  flapping_port& operator=(const flapping_port&) = delete;
  ~flapping_port() { up(); }
  void down() const { EXPECT_TRUE(inject_event(of_, "port 1 down")); }
  void up() const { EXPECT_TRUE(inject_event(of_, "port 1 up")); }
  void move_gids() const { EXPECT_TRUE(inject_event(of_, "gid-move")); }

 private:
  const context& of_;
};

TEST(port_flap, within_the_retries_loses_no_message) {
  auto options = channel_pair::default_options();
  options.reliability.timeout = ack_timeout::at_least(100ms);
  channel_pair pair(options);
  const flapping_port port(pair.context());
  const auto pool = pair.pool();
  std::vector<pending_operation> receives;
  receives.reserve(4);
  for (int i = 0; i < 4; ++i) receives.push_back(pair.b().post_receive(std::move(*pool.take(1))));
  port.down();
  auto outbox = *pool.take(1);
  outbox.bytes()[0] = std::byte{42};
  auto send = pair.a().post_send(std::move(outbox), {.length = 1});
  EXPECT_EQ(send.wait(deadline::after(2ms)), nullptr);
  EXPECT_EQ(receives[0].poll(), nullptr);
  port.up();
  ASSERT_NE(send.wait(long_deadline()), nullptr);
  EXPECT_TRUE(send.poll()->has_value());
  EXPECT_TRUE(receives[0].wait(long_deadline())->has_value());
  EXPECT_EQ(receives[0].take_buffer().bytes()[0], std::byte{42});
  EXPECT_EQ(receives[1].poll(), nullptr) << "the message was received twice";
  EXPECT_EQ(pair.a().failure(), nullptr);
}

TEST(port_flap, beyond_the_retries_fails_and_reconnect_finds_the_moved_gid) {
  channel_pair pair(few_retries_options());
  const flapping_port port(pair.context());
  auto outbox = pair.memory(8);
  const auto before = source_of(pair.a());
  port.down();
  const auto sent = pair.a().send(source(outbox), abort_at(long_deadline()));
  EXPECT_EQ(sent.completion()->status(), completion_status::retries_exceeded);
  EXPECT_EQ(sent.delivery(), delivery::unknown);
  EXPECT_THAT(pair.a().describe_failure().message(),
              ::testing::HasSubstr("port 1 is not active now: down"));
  expect_error(pair.a().prepare_reconnect(), "the port is not up");
  port.move_gids();
  const auto patient = bringup::negotiation_options{.port_timeout = 20s};
  const auto again = over_a_stream(
      [&](auto& peer) { return pair.a().reconnect(peer, long_deadline(), patient).value(); },
      [&](auto& peer) {
        port.up();
        EXPECT_TRUE(pair.b().reconnect(peer, long_deadline(), patient));
      });
  EXPECT_EQ(again.reconcile(sent), delivery::not_done);
  EXPECT_EQ(source_of(pair.a()).value(), before.value() + 1);
  expect_working(pair, 5);
}

TEST(port_flap, gid_selected_by_index_is_found_after_a_move) {
  auto options = few_retries_options();
  options.route.gid_index = testing_support::open_soft().routable_gid(port_number(1)).value().index;
  channel_pair pair(options);
  const flapping_port port(pair.context());
  port.move_gids();
  reconnect(pair);
  EXPECT_EQ(source_of(pair.a()).value(), options.route.gid_index->value() + 1);
  expect_working(pair, 6);
}

TEST(inject_event, unknown_command_is_named) {
  const auto context = testing_support::open_soft();
  expect_error(inject_event(context, "port 1 sideways"),
               "'sideways' is not valid here; use one of up, down");
}

}  // namespace
}  // namespace verbena::test
