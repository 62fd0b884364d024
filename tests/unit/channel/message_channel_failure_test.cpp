// SPDX-License-Identifier: MIT
// Message channels that fail: the peer exits, the program closes them, the device fails.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>

#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/channel/message_pair.hpp"
#include "tests/unit/steps.hpp"
#include "tests/unit/verbs/counting_provider.hpp"
#include "verbena/base/exception.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/channel/prepared_channel.hpp"
#include "verbena/memory/buffer_pool.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;
using testing_support::counting_provider;
using testing_support::expect_error;
using testing_support::open_soft;

constexpr std::array<std::byte, 200> message_bytes{};

// The states of both sides for one direction agree in all cases, except that a side that cannot
// poll does not see the messages that its adapter has received.
void expect_consistent(const message_channel& from, const message_channel& to) {
  if (to.qp() != nullptr) {
    EXPECT_LE(from.delivered(), to.received());
  }
  EXPECT_LE(to.received(), from.sent());
  EXPECT_EQ(from.unknown(), (message_range{from.delivered() + 1, from.sent() - from.delivered()}));
}

TEST(message_channel_failure, lost_peer_leaves_a_range_of_unknown_messages) {
  auto options = tiny(8);
  options.reliability.timeout = ack_timeout::at_least(1ms);
  options.reliability.retry_count = 1;
  message_pair pair(options);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(pair.a().try_send(message_bytes));
  ASSERT_TRUE(pair.a().drain(deadline::after(20s)));
  pair.drop_b();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pair.a().try_send(message_bytes));
  EXPECT_FALSE(pair.a().drain(deadline::after(20s)));
  const auto* const failure = pair.a().failure();
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->part, failed_part::message);
  EXPECT_EQ(failure->message, 5U);
  ASSERT_TRUE(failure->done.has_value());
  EXPECT_EQ(failure->done->status(), completion_status::retries_exceeded);
  EXPECT_EQ(pair.a().delivered(), 4U);
  EXPECT_EQ(pair.a().unknown(), (message_range{5, 3}));
  EXPECT_NE(pair.a().describe().message().find("messages 5 to 7"), std::string::npos)
      << pair.a().describe().message();
  EXPECT_EQ(pair.a().send(message_bytes, deadline::after(20s)).code(), ENOTCONN);
  EXPECT_FALSE(pair.a().receive(deadline::after(20s)));
  EXPECT_THROW(static_cast<void>(pair.a().try_send(message_bytes).value()), exception);
  // All memory is returned, and can be used for other purposes.
  pair.a().flush();
  EXPECT_EQ(pair.a().receive_pool().taken(), 0U);
  EXPECT_EQ(pair.a().failure()->part, failed_part::message);
}

TEST(message_channel_failure, peer_lost_while_waiting_for_credit_is_detected) {
  auto options = tiny(4);
  options.reliability.timeout = ack_timeout::at_least(1ms);
  options.reliability.retry_count = 1;
  message_pair pair(options);
  while (pair.a().try_send(message_bytes)) {
  }
  ASSERT_TRUE(pair.a().drain(deadline::after(20s)));
  // The peer exists, but does not poll. On a loaded host, 10 ms may pass without a poll of this
  // side.
  const auto until = deadline::after(20s);
  do {
    EXPECT_EQ(pair.a().send(message_bytes, deadline::after(10ms)).refusal(),
              send_refusal::no_credit);
  } while (pair.a().counters().credit_probes == 0 && !until.expired());
  EXPECT_GE(pair.a().counters().credit_probes, 1U);
  EXPECT_LE(pair.a().counters().credit_probes, 1000U);
  EXPECT_EQ(pair.a().failure(), nullptr);
  pair.drop_b();
  EXPECT_EQ(pair.a().send(message_bytes, deadline::after(20s)).refusal(), send_refusal::ended);
  const auto* const failure = pair.a().failure();
  ASSERT_NE(failure, nullptr);
  // On iWARP the connection of this side ends too, and its requests are flushed.
  const bool flushes = is_iwarp(pair.context());
  EXPECT_EQ(failure->part, flushes ? failed_part::receive : failed_part::credit_write);
  EXPECT_EQ(failure->done->status(),
            flushes ? completion_status::flushed : completion_status::retries_exceeded);
  EXPECT_EQ(pair.a().unknown().count, 0U);
}

TEST(message_channel_failure, credit_is_probed_at_intervals_that_double_up_to_65536_polls) {
  message_pair pair(tiny(4));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(pair.a().try_send(message_bytes));
  ASSERT_TRUE(pair.a().drain(deadline::after(20s)));
  ASSERT_EQ(pair.a().try_send(message_bytes).refusal(), send_refusal::no_credit);
  const auto polls_to_next_probe = [&] {
    const std::uint64_t before = pair.a().counters().credit_probes;
    int polls = 0;
    while (pair.a().counters().credit_probes == before && polls < 100'000) {
      pair.a().progress();
      ++polls;
    }
    return polls;
  };
  const int first = polls_to_next_probe();
  EXPECT_GT(first, 200);  // try_send() may have polled
  EXPECT_LE(first, 256);
  for (int total = 256; total < 131'072; total *= 2) EXPECT_EQ(polls_to_next_probe(), total);
  EXPECT_EQ(polls_to_next_probe(), 65'536);
}

TEST(message_channel_failure, flush_returns_all_memory_and_reports_the_unknown_range) {
  auto options = tiny(8);
  options.credits = credits::off;
  options.reliability.rnr_retry_count = 7;
  message_pair pair(options);
  auto region = buffer::of(pair.pd().allocate(256, access::local_write).value());
  const auto until = deadline::after(20s);
  while (pair.a().sent() < 12 && !until.expired())
    static_cast<void>(pair.a().try_send(message_bytes));
  while (pair.b().received() < 8 && !until.expired()) pair.b().progress();
  const auto sent = pair.a().sent();
  pair.a().flush();
  ASSERT_NE(pair.a().failure(), nullptr);
  EXPECT_EQ(pair.a().failure()->part, failed_part::flush);
  EXPECT_EQ(pair.a().sent(), sent);
  EXPECT_LT(pair.a().delivered(), sent);
  EXPECT_EQ(pair.a().receive_pool().taken(), 0U);
  EXPECT_EQ(pair.a().try_send(std::move(region)).refusal(), send_refusal::ended);
  EXPECT_FALSE(
      region.empty());  // NOLINT(bugprone-use-after-move,*.Move): refused, so it stays ours
  EXPECT_NE(pair.a().describe().message().find("the program ended the channel"), std::string::npos);
  // Messages that arrived can still be received.
  while (pair.b().try_receive()) {
  }
  expect_consistent(pair.a(), pair.b());
  EXPECT_GE(pair.b().received(), 8U);
}

TEST(message_channel_failure, invalid_credit_of_the_peer_is_ignored) {
  message_pair pair(tiny(4));
  while (pair.a().try_send(message_bytes)) {
  }
  ASSERT_EQ(pair.a().sent(), 4U);
  auto writing = pair.pd().create_channel({.access = access::remote_write}).value();
  const auto itself = writing.endpoint();
  auto liar = std::move(writing).handshake(itself).value();
  for (const std::uint64_t lie : {~std::uint64_t{0}, std::uint64_t{9}}) {
    std::array<std::byte, 8> word{};
    store_network_order(word.data(), lie);
    auto memory = pair.pd().allocate(8, access::local_write).value();
    std::ranges::copy(word, memory.bytes().begin());
    ASSERT_TRUE(liar.write(source(memory), pair.end_of_a().terms.word, abort_after(20s)));
    const auto before = pair.a().counters().bad_credits;
    EXPECT_EQ(pair.a().try_send(message_bytes).refusal(), send_refusal::no_credit);
    EXPECT_GT(pair.a().counters().bad_credits, before);
  }
}

// The n-th call of the data path fails; all others are passed to the device.
class data_path_fault {
 public:
  explicit data_path_fault(const context& of) : native_(of.native()), wrapped_(native_->ops) {
    instance = this;
    native_->ops.post_send = [](ibv_qp* queue, ibv_send_wr* list, ibv_send_wr** refused) {
      if (!instance->fails()) return instance->wrapped_.post_send(queue, list, refused);
      *refused = list;
      return EIO;
    };
    native_->ops.post_recv = [](ibv_qp* queue, ibv_recv_wr* list, ibv_recv_wr** refused) {
      if (!instance->fails()) return instance->wrapped_.post_recv(queue, list, refused);
      *refused = list;
      return EIO;
    };
    native_->ops.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
      if (std::exchange(instance->polls_fail_, false)) return -EIO;
      return instance->fails() ? -EIO : instance->wrapped_.poll_cq(queue, count, out);
    };
  }
  data_path_fault(const data_path_fault&) = delete;
  data_path_fault& operator=(const data_path_fault&) = delete;
  ~data_path_fault() {
    native_->ops = wrapped_;
    instance = nullptr;
  }
  void fail_call(int nth) { left_ = nth; }
  void fail_next_poll() { polls_fail_ = true; }
  [[nodiscard]] bool happened() const { return left_ == 0; }

 private:
  bool fails() {
    if (left_ <= 0) return false;
    --left_;
    return left_ == 0;
  }

  static inline data_path_fault* instance = nullptr;
  ibv_context* native_;
  ibv_context_ops wrapped_;
  int left_ = -1;
  bool polls_fail_ = false;
};

message_channel_options with_one_send_buffer() {
  auto options = tiny(4);
  options.send_buffers = 1;
  options.reliability.timeout = ack_timeout::at_least(1ms);
  options.reliability.retry_count = 1;
  return options;
}

// While a message waits for a buffer, the channel polls.
TEST(message_channel_failure, message_is_refused_if_the_poll_for_its_buffer_fails) {
  message_pair pair(with_one_send_buffer());
  data_path_fault fault(pair.context());
  ASSERT_TRUE(pair.a().try_send(message_bytes));
  fault.fail_next_poll();
  const auto outcome = pair.a().try_send(message_bytes);
  EXPECT_EQ(outcome.refusal(), send_refusal::ended);
  EXPECT_EQ(outcome.code(), ENOTCONN);
  EXPECT_EQ(pair.a().sent(), 1U);
  EXPECT_EQ(pair.a().qp(), nullptr);
}

TEST(message_channel_failure, message_is_refused_if_the_poll_for_its_buffer_finds_the_end) {
  message_pair pair(with_one_send_buffer());
  pair.drop_b();
  ASSERT_TRUE(pair.a().try_send(message_bytes));
  const auto until = deadline::after(20s);
  auto outcome = pair.a().try_send(message_bytes);
  while (outcome.refusal() == send_refusal::no_buffer && !until.expired())
    outcome = pair.a().try_send(message_bytes);
  EXPECT_EQ(outcome.refusal(), send_refusal::ended);
  EXPECT_EQ(pair.a().sent(), 1U);
  ASSERT_NE(pair.a().failure(), nullptr);
}

// A request that succeeded without a signal has no completion that the flush could wait for.
TEST(message_channel_failure, flush_after_unsignaled_requests_keeps_the_queue_pair) {
  message_pair pair;
  ASSERT_TRUE(pair.a().send(message_bytes));
  {
    const auto received = pair.b().receive(deadline::after(20s));
    ASSERT_TRUE(received);
  }
  pair.b().progress();  // may grant a credit
  for (message_channel* each : {&pair.a(), &pair.b()}) {
    each->flush();
    EXPECT_NE(each->qp(), nullptr) << "destroyed because completions were missing";
    EXPECT_EQ(each->receive_pool().taken(), 0U);
    EXPECT_EQ(each->failure()->part, failed_part::flush);
  }
}

// A message channel whose peer is a channel that keeps no rules.
class lawless_peer {
 public:
  explicit lawless_peer(std::uint32_t most)
      : channel_(prepared_.connected(most)), peer_(prepared_.peer()) {}

  [[nodiscard]] message_channel& channel() { return channel_; }
  [[nodiscard]] verbena::channel& peer() { return peer_; }
  [[nodiscard]] const remote_region& word() const { return prepared_.end.terms.word; }
  [[nodiscard]] source bytes() { return source(memory_); }
  void expect_protocol_failure(const char* words) {
    EXPECT_FALSE(channel_.receive(deadline::after(20s)));
    ASSERT_NE(channel_.failure(), nullptr);
    EXPECT_EQ(channel_.failure()->part, failed_part::protocol);
    EXPECT_EQ(channel_.received(), 0U);
    EXPECT_EQ(channel_.describe().kind(), error_kind::protocol);
    EXPECT_NE(channel_.describe().message().find(words), std::string::npos)
        << channel_.describe().message();
    EXPECT_EQ(channel_.try_send(message_bytes).refusal(), send_refusal::ended);
    channel_.flush();
    EXPECT_EQ(channel_.receive_pool().taken(), 0U);
  }

 private:
  struct both {
    verbena::context context = open_tested();
    protection_domain pd = context.allocate_pd().value();
    prepared_message_channel messages = message_channel::prepare(pd, with_credits()).value();
    prepared_channel plain = pd.create_channel({.access = access::remote_write}).value();
    message_endpoint end = messages.endpoint();
    endpoint to_plain = plain.endpoint();

    static message_channel_options with_credits() {
      auto options = tiny(4);
      options.credits = credits::preferred;
      return options;
    }
    message_channel connected(std::uint32_t most) {
      return std::move(messages)
          .handshake({.terms = {.credits = credits::off,
                                .message_bytes = most,
                                .receives = 4,
                                .word = end.terms.word},
                      .connection = to_plain})
          .value();
    }
    verbena::channel peer() { return std::move(plain).handshake(end.connection).value(); }
  };

  both prepared_;
  message_channel channel_;
  verbena::channel peer_;
  memory_region memory_ = prepared_.pd.allocate(8, access::local_write).value();
};

TEST(message_channel_failure, write_with_immediate_data_of_the_peer_is_no_message) {
  if (is_iwarp(open_tested())) GTEST_SKIP() << "iWARP has no immediate data";
  lawless_peer pair(4);
  ASSERT_TRUE(pair.peer().write(pair.bytes(), pair.word(), abort_after(20s), {.immediate = 1}));
  pair.expect_protocol_failure("a write with immediate data of the peer consumed a receive");
}

TEST(message_channel_failure, channel_whose_hub_fails_while_it_connects_keeps_its_buffers) {
  if (is_iwarp(open_tested())) GTEST_SKIP() << "iWARP connects by the connection manager";
  const auto device = open_tested();
  const auto pd = device.allocate_pd().value();
  const auto pool = buffer_pool::create(pd, {.classes = {{.bytes = 256, .count = 8}}}).value();
  const auto hub = completion_hub::create(device, 64).value();
  auto [server, client] = peers::connected();
  driven one(message_channel::prepare(pd, hub, pool, tiny(4))
                 .value()
                 .connect_in_steps(server, deadline::after(20s)));
  driven other(
      message_channel::prepare(pd, tiny(4)).value().connect_in_steps(client, deadline::after(20s)));
  while (pool.taken() == 0 && !one.has_ended()) {
    one.progress();
    if (pool.taken() == 0) other.progress();
  }
  ASSERT_FALSE(one.has_ended());
  {
    data_path_fault fault(device);
    fault.fail_next_poll();
    EXPECT_FALSE(hub.progress());
  }
  EXPECT_EQ(pool.taken(), 4U);
  drive(one, other);
  EXPECT_EQ(one.outcome().error().code(), EIO);
  EXPECT_EQ(pool.taken(), 0U);
}

// The adapter may still fill the buffers of a queue pair that exists.
TEST(message_channel_failure, refused_destruction_while_connecting_keeps_the_buffers) {
  failing_provider failing(*soft_provider().value());
  const testing_support::log_catcher log;
  const auto pd = open_soft(failing.get()).value().allocate_pd().value();
  const auto pool = buffer_pool::create(pd, {.classes = {{.bytes = 256, .count = 8}}}).value();
  std::optional streams(peers::connected());
  driven one(message_channel::prepare(pd, pool, tiny(4))
                 .value()
                 .connect_in_steps(streams->first, deadline::after(20s)));
  driven other(message_channel::prepare(pd, tiny(4))
                   .value()
                   .connect_in_steps(streams->second, deadline::after(20s)));
  while (pool.taken() == 0 && !one.has_ended()) {
    one.progress();
    if (pool.taken() == 0) other.progress();
  }
  ASSERT_FALSE(one.has_ended());
  other.destroy();
  streams->second.shut_down();
  failing.fail_verb("ibv_destroy_qp", EBUSY);
  drive(one);
  failing.fail_call(0, 0);
  EXPECT_FALSE(one.outcome());
  EXPECT_EQ(pool.taken(), 4U);
  EXPECT_TRUE(log.contains("a message channel cannot be destroyed")) << log.text();
}

TEST(message_channel_failure, failure_of_each_data_path_call_is_reported) {
  counting_provider counting(*soft_provider().value());
  int lost = 0;
  int refused_posts = 0;
  int refused_messages = 0;
  bool happened = true;
  for (int nth = 1; happened; ++nth) {
    {
      message_pair pair(tiny(4), tiny(4), open_soft(counting.get()).value());
      data_path_fault fault(pair.context());
      fault.fail_call(nth);
      for (int i = 0; i < 10; ++i) {
        for (message_channel* side : {&pair.a(), &pair.b()}) {
          const auto outcome = side->try_send(message_bytes);
          if (outcome.refusal() == send_refusal::verb) {
            EXPECT_EQ(outcome.code(), EIO);
            EXPECT_EQ(side->failure(), nullptr);  // no request was posted
            ++refused_messages;
          }
        }
        for (message_channel* side : {&pair.a(), &pair.b()}) static_cast<void>(side->try_receive());
      }
      happened = fault.happened();
      for (message_channel* side : {&pair.a(), &pair.b()}) {
        side->flush();
        ASSERT_NE(side->failure(), nullptr);
        if (side->failure()->part == failed_part::polling) ++lost;
        if (side->failure()->part == failed_part::posting) ++refused_posts;
        if (side->failure()->part == failed_part::polling) {
          EXPECT_EQ(side->qp(), nullptr);
        }
        EXPECT_EQ(side->failure()->code, side->failure()->part >= failed_part::polling &&
                                                 side->failure()->part <= failed_part::posting
                                             ? EIO
                                             : 0);
        EXPECT_NE(side->describe().message(), "");
        while (side->try_receive()) {
        }
        EXPECT_EQ(side->receive_pool().taken(), 0U);
      }
      expect_consistent(pair.a(), pair.b());
      expect_consistent(pair.b(), pair.a());
    }
    EXPECT_EQ(counting.live(), "") << "call " << nth;
  }
  EXPECT_GE(lost, 5);
  EXPECT_GE(refused_posts, 5);
  EXPECT_GE(refused_messages, 5);
}

TEST(message_channel_failure, failure_of_each_creation_call_leaves_no_object) {
  counting_provider counting(*soft_provider().value());
  failing_provider failing(counting.get());
  const testing_support::log_catcher log;
  const auto make = [&]() -> result<message_channel> {
    VERBENA_TRY(auto context, open_soft(failing.get()));
    VERBENA_TRY(auto pd, context.allocate_pd());
    VERBENA_TRY(auto prepared, message_channel::prepare(pd, tiny(2)));
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
  EXPECT_GE(refused, 9U);
}

TEST(message_channel_failure, mismatch_of_credits_is_reported) {
  auto pd = open_tested().allocate_pd().value();
  auto without = tiny(2);
  without.credits = credits::off;
  auto a = message_channel::prepare(pd, tiny(2)).value();
  auto b = message_channel::prepare(pd, without).value();
  const auto end_of_a = a.endpoint();
  const auto end_of_b = b.endpoint();
  expect_error(std::move(a).handshake(end_of_b), "the peer has them off");
  expect_error(std::move(b).handshake(end_of_a), "this side has them off");
}

TEST(message_channel_failure, options_out_of_their_ranges_are_refused) {
  auto pd = open_tested().allocate_pd().value();
  const auto refused = [&](const message_channel_options& options, const char* words) {
    expect_error(message_channel::prepare(pd, options), words);
  };
  refused({.queues = {.max_send_wr = 0}}, "between 1 and");
  refused({.queues = {.max_recv_wr = 0}}, "between 1 and");
  refused({.message_bytes = 0}, "message_bytes must be at least 1");
  refused({.queues = {.max_recv_wr = 8}, .receive_buffers = 7}, "at least max_recv_wr");
  // Together with the receives for credits, the number would wrap around.
  refused({.receive_buffers = 0xffff'ffff, .events = true}, "at most 67108859");
}

TEST(received_message, moved_from_message_is_empty) {
  const auto pd = open_tested().allocate_pd().value();
  auto memory = buffer::of(pd.allocate(64, access::local_write).value());
  received_message first(std::move(memory), 10, 7);
  received_message second(std::move(first));
  // NOLINTBEGIN(bugprone-use-after-move,*.Move): this is what the test looks at
  EXPECT_TRUE(first.bytes().empty());
  EXPECT_EQ(first.length(), 0U);
  EXPECT_TRUE(first.text().empty());
  EXPECT_EQ(second.bytes().size(), 10U);
  EXPECT_EQ(second.number(), 7U);
  first = std::move(second);
  EXPECT_TRUE(second.bytes().empty());
  EXPECT_EQ(first.bytes().size(), 10U);
  EXPECT_FALSE(std::move(first).take_buffer().empty());
  EXPECT_TRUE(first.bytes().empty());
  // NOLINTEND(bugprone-use-after-move,*.Move)
}

TEST(message_endpoint, round_trips_and_refuses_invalid_bytes) {
  const message_endpoint known{
      .terms = {.credits = credits::required,
                .message_bytes = 4096,
                .receives = 7,
                .credit_receives = 4,
                .word = remote_region({.address = 64, .length = 8, .key = remote_key(9)})},
      .connection = {.queue_pair = queue_pair_number(17)}};
  const auto good = known.encode();
  EXPECT_EQ(message_endpoint::decode(good).value(), known);
  expect_error(message_endpoint::decode(std::span(good).first(good.size() - 1)), "bytes, not");
  expect_error(message_terms::decode(std::span(good).first(5)), "bytes, not");
  const auto broken = [&](std::size_t at, std::uint8_t value, const char* words) {
    auto bytes = good;
    bytes[at] = std::byte{value};
    expect_error(message_endpoint::decode(bytes), words);
  };
  broken(0, 1, "version 1 is unknown");
  broken(0, 3, "version 3 is unknown");
  broken(1, 2, "flags 2 are unknown");
  broken(1, 4, "flags 4 are unknown");
  broken(3, 1, "reserved bytes are not zero");
  broken(6, 0, "must be at least 1");
  broken(11, 0, "must be at least 1");
  broken(12, 9, "version");
  broken(20, 65, "8 bytes at a multiple of 8");
  broken(28, 16, "8 bytes at a multiple of 8");
  broken(33, 9, "version");
}

TEST(message_channel_death, violated_contracts_stop_the_program) {
  message_pair pair(tiny(2));
  EXPECT_DEATH(static_cast<void>(pair.a().try_send(buffer())),
               "empty or moved-from buffer was sent");
  EXPECT_DEATH(static_cast<void>(pair.a().describe()),
               "describe.. of a message channel without failure");
  EXPECT_DEATH(static_cast<void>(send_result::of(1).error()), "of a message that was accepted");
  EXPECT_DEATH(static_cast<void>(received_message(buffer(), 1, 1)), "longer than its buffer");
  const message_channel taken = std::move(pair.a());
  EXPECT_DEATH(static_cast<void>(pair.a().sent()), "a moved-from message_channel was used");
}

}  // namespace
}  // namespace verbena::test
