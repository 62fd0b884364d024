// SPDX-License-Identifier: MIT
// A hub that sleeps: events, arming, and completions at the moments at which they could be missed.
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/channel_pair.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/channel/pending_operation.hpp"

namespace verbena::test {
namespace {

bool is_readable(int fd) {
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, 0) == 1;
}

/// A channel on a hub with events, and its peer without.
class sleeping_hub : public ::testing::Test {
 protected:
  void SetUp() override {
    if (is_iwarp(context_)) GTEST_SKIP() << "iWARP connects by the connection manager";
  }
  static channel connect(prepared_channel&& one, const endpoint& other) {
    return std::move(one).handshake(other).value();
  }
  [[nodiscard]] pending_operation receive() { return here_.post_receive(pool_.take(64).value()); }
  void send_from_peer() {
    EXPECT_TRUE(there_.send(inline_data(std::as_bytes(std::span("text", 4)))));
  }

  verbena::context context_ = open_tested();
  protection_domain pd_ = context_.allocate_pd().value();
  completion_hub hub_ = completion_hub::create(context_, 64, {.events = true}).value();
  buffer_pool pool_ = buffer_pool::create(pd_, {.classes = {{.bytes = 64, .count = 64}}}).value();
  prepared_channel one_ =
      pd_.create_channel(hub_, {.queues = {.max_send_wr = 16, .max_recv_wr = 16}}).value();
  prepared_channel other_ =
      pd_.create_channel({.queues = {.max_send_wr = 16, .max_recv_wr = 16, .max_inline_data = 64}})
          .value();
  endpoint ends_[2] = {one_.endpoint(), other_.endpoint()};
  channel here_ = connect(std::move(one_), ends_[1]);
  channel there_ = connect(std::move(other_), ends_[0]);
};

TEST_F(sleeping_hub, hub_without_events_only_polls) {
  const auto polled = completion_hub::create(context_, 8).value();
  EXPECT_FALSE(polled.has_events());
  EXPECT_TRUE(hub_.has_events());
  EXPECT_EQ(polled.progress().value(), 0U);
}

TEST_F(sleeping_hub, descriptor_is_readable_after_the_next_completion) {
  auto arrived = receive();
  ASSERT_TRUE(hub_.arm().value());
  EXPECT_FALSE(is_readable(hub_.fd()));
  send_from_peer();
  pollfd wanted{.fd = hub_.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wanted, 1, 20'000), 1);
  EXPECT_EQ(hub_.progress().value(), 1U);
  EXPECT_NE(arrived.poll(), nullptr);
  ASSERT_TRUE(hub_.arm().value());
  EXPECT_FALSE(is_readable(hub_.fd())) << "arming takes the events of earlier completions";
}

// On iWARP, the connection of each channel begins with three operations of the library.
TEST(completion_hub_of_iwarp, has_entries_for_ready_indications) {
  const auto context = open_device("soft0").value();
  ibv_device& device = *context.native()->device;
  const auto before = device.transport_type;
  device.transport_type = IBV_TRANSPORT_IWARP;
  const auto hub = completion_hub::create(context, 64).value();
  device.transport_type = before;
  EXPECT_EQ(hub.unreserved(), 64U);
  EXPECT_GE(hub.cq().capacity(), 64U + 32U * 3U);
}

// Each request costs a system call or a doorbell.
TEST_F(sleeping_hub, arms_again_only_after_the_event_was_read) {
  static int requests;
  requests = 0;
  ibv_context* const native = context_.native();
  const ibv_context_ops before = native->ops;
  static decltype(before.req_notify_cq) request;
  request = before.req_notify_cq;
  native->ops.req_notify_cq = [](ibv_cq* queue, int solicited) {
    ++requests;
    return request(queue, solicited);
  };
  auto arrived = receive();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(hub_.arm().value());
  EXPECT_EQ(requests, 1);
  send_from_peer();
  EXPECT_EQ(hub_.wait(long_deadline()).value(), 1U);
  EXPECT_NE(arrived.poll(), nullptr);
  EXPECT_TRUE(hub_.arm().value());
  EXPECT_LE(requests, 2) << "the event may follow its completion";
  native->ops = before;
}

TEST_F(sleeping_hub, arming_reports_completions_that_precede_it) {
  auto arrived = receive();
  send_from_peer();
  // The send completed, so the message is here; no event was requested for it.
  EXPECT_FALSE(hub_.arm().value());
  EXPECT_NE(arrived.poll(), nullptr);
  EXPECT_TRUE(hub_.arm().value());
}

TEST_F(sleeping_hub, wait_ends_at_the_deadline_without_a_completion) {
  EXPECT_EQ(hub_.wait(deadline::after(1ms)).value(), 0U);
  EXPECT_EQ(hub_.wait(deadline::after(-1ms)).value(), 0U);
}

TEST_F(sleeping_hub, no_completion_is_missed_at_any_moment) {
  const int messages = campaign_size(2000, 100'000);
  std::atomic<int> received = 0;
  std::thread peer([&] {
    for (int i = 0; i < messages; ++i) {
      while (received.load() < i) std::this_thread::yield();
      send_from_peer();
    }
  });
  for (int i = 0; i < messages; ++i) {
    auto arrived = receive();
    received.store(i);
    while (arrived.poll() == nullptr) {
      ASSERT_NE(hub_.wait(long_deadline()).value(), 0U) << "message " << i << " was missed";
    }
  }
  received.store(messages);
  peer.join();
}

/// Two connected channels on a hub, and memory.
class tagged_operations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (is_iwarp(context_)) GTEST_SKIP() << "iWARP connects by the connection manager";
    const channel_options options{
        .queues = {.max_send_wr = 4, .max_recv_wr = 4, .max_inline_data = 64},
        .access = access::remote_read | access::remote_write | access::remote_atomic};
    auto one = pd_.create_channel(hub_, options).value();
    auto other = pd_.create_channel(hub_, options).value();
    const auto ends = std::pair(one.endpoint(), other.endpoint());
    a_.emplace(std::move(one).handshake(ends.second).value());
    b_.emplace(std::move(other).handshake(ends.first).value());
  }
  [[nodiscard]] sink into(std::size_t at) { return {memory_, at, 64}; }
  [[nodiscard]] source from(std::size_t at) const { return {memory_, at, 64}; }
  /// Waits until `count` operations have ended.
  [[nodiscard]] std::vector<completed_operation> next(std::size_t count) const {
    std::vector<completed_operation> out;
    std::array<completed_operation, 3> some;
    while (out.size() < count) {
      if (hub_.wait(long_deadline()).value() == 0) break;
      const std::size_t found = hub_.next_completed(some).value();
      out.insert(out.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(found));
    }
    return out;
  }

  verbena::context context_ = open_tested();
  protection_domain pd_ = context_.allocate_pd().value();
  memory_region memory_ = pd_.allocate(4096, all_access).value();
  completion_hub hub_ = completion_hub::create(context_, 16, {.events = true}).value();
  std::optional<channel> a_;
  std::optional<channel> b_;
};

TEST_F(tagged_operations, channel_without_hub_returns_its_own) {
  auto prepared = pd_.create_channel({.queues = {.max_send_wr = 4, .max_recv_wr = 4},
                                      .events = true,
                                      .access = access::remote_write})
                      .value();
  const auto end = prepared.endpoint();
  auto alone = std::move(prepared).handshake(end).value();  // to itself
  std::array<completed_operation, 4> ended;
  for (std::uint64_t tag = 0; tag < 20; ++tag) {
    ASSERT_EQ(alone.start_write(tag, from(0), memory_.remote().slice(128, 64)), std::nullopt);
    std::size_t count = 0;
    for (const auto until = long_deadline(); count == 0 && !until.expired();)
      count = alone.next_completed(ended).value();
    ASSERT_EQ(count, 1U);
    EXPECT_EQ(ended[0].tag, tag);
    EXPECT_TRUE(ended[0].result);
  }
  EXPECT_TRUE(alone.arm().value());
  EXPECT_EQ(alone.wait(deadline::after(1ms)).value(), 0U);
}

TEST_F(tagged_operations, end_with_their_tags_and_results) {
  std::array<sink, 2> sinks{into(1024), into(1088)};
  EXPECT_EQ(b_->start_receive(7, std::span(sinks).first(1)), std::nullopt);
  EXPECT_EQ(a_->start_send(8, inline_data(std::as_bytes(std::span("text", 4))), {.immediate = 3}),
            std::nullopt);
  EXPECT_EQ(a_->start_write(9, from(0), memory_.remote().slice(2048, 64)), std::nullopt);
  EXPECT_EQ(a_->start_read(10, std::span(sinks).last(1), memory_.remote().slice(0, 64)),
            std::nullopt);
  auto ended = next(4);
  std::ranges::sort(ended, {}, &completed_operation::tag);
  ASSERT_EQ(ended.size(), 4U);
  for (std::uint64_t i = 0; i < ended.size(); ++i) {
    EXPECT_EQ(ended[i].tag, 7 + i);
    EXPECT_TRUE(ended[i].result);
  }
  EXPECT_EQ(ended[0].result.value(), 4U);
  EXPECT_EQ(ended[0].result.immediate(), 3U);
  EXPECT_EQ(ended[3].result.value(), 64U);
  EXPECT_EQ(hub_.next_completed(ended).value(), 0U);
}

TEST_F(tagged_operations, atomics_store_the_old_value) {
  std::uint64_t word = 5;
  std::memcpy(memory_.bytes().data() + 512, &word, sizeof word);
  const sink first(memory_, 520, 8);
  const sink second(memory_, 528, 8);
  const auto target = memory_.remote().slice(512, 8);
  EXPECT_EQ(a_->start_fetch_and_add(1, first, target, 2), std::nullopt);
  EXPECT_EQ(next(1).at(0).result.value(), 8U);
  EXPECT_EQ(a_->start_compare_and_swap(2, second, target, {.expected = 7, .desired = 9}),
            std::nullopt);
  EXPECT_EQ(next(1).at(0).tag, 2U);
  std::memcpy(&word, memory_.bytes().data() + 512, sizeof word);
  EXPECT_EQ(word, 9U);
  std::memcpy(&word, memory_.bytes().data() + 528, sizeof word);
  EXPECT_EQ(word, 7U);
}

TEST_F(tagged_operations, refused_operation_returns_its_reason_and_does_not_end) {
  for (std::uint64_t i = 0; i < 4; ++i)
    EXPECT_EQ(a_->start_write(i, from(0), memory_.remote().slice(128, 64)), std::nullopt);
  const auto full = a_->start_write(4, from(0), memory_.remote().slice(128, 64));
  ASSERT_TRUE(full);
  EXPECT_EQ(full->refusal(), refusal::queue_full);
  const auto outside = a_->start_write(5, from(0), memory_.remote().slice(128, 8));
  ASSERT_TRUE(outside);
  EXPECT_EQ(next(4).size(), 4U);
  const auto late = a_->start_write(6, from(0), memory_.remote().slice(128, 8));
  ASSERT_TRUE(late);
  EXPECT_EQ(late->refusal(), refusal::remote_bounds);
  std::array<completed_operation, 4> none;
  EXPECT_EQ(hub_.next_completed(none).value(), 0U);
}

// Operations that were not collected need their places.
TEST_F(tagged_operations, as_many_can_wait_for_collection_as_the_hub_has_places) {
  std::uint64_t started = 0;
  for (int round = 0; round < 8; ++round) {
    while (!a_->start_write(started, from(0), memory_.remote().slice(128, 64))) ++started;
    hub_.progress().value();
  }
  EXPECT_EQ(started, 16U);
  const auto refused = a_->start_write(16, from(0), memory_.remote().slice(128, 64));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->refusal(), refusal::not_collected);
  EXPECT_NE(refused->error().message().find("next_completed()"), std::string::npos);
  std::array<completed_operation, 32> all;
  EXPECT_FALSE(hub_.arm().value());
  ASSERT_EQ(hub_.next_completed(all).value(), 16U);
  for (std::uint64_t i = 0; i < 16; ++i) EXPECT_EQ(all.at(i).tag, i);
  EXPECT_TRUE(hub_.arm().value());
  EXPECT_EQ(a_->start_write(99, from(0), memory_.remote().slice(128, 64)), std::nullopt);
  EXPECT_EQ(next(1).at(0).tag, 99U);
}

TEST_F(tagged_operations, hub_neither_sleeps_nor_arms_while_one_is_not_collected) {
  for (std::uint64_t i = 0; i < 3; ++i)
    EXPECT_EQ(a_->start_write(i, from(0), memory_.remote().slice(128, 64)), std::nullopt);
  EXPECT_NE(hub_.wait(long_deadline()).value(), 0U);
  std::array<completed_operation, 1> one;
  std::size_t found = 0;
  while (found < 2) found += hub_.next_completed(one).value();
  EXPECT_FALSE(hub_.arm().value());
  EXPECT_NE(hub_.wait(deadline::never()).value(), 0U);
  EXPECT_EQ(hub_.next_completed(one).value(), 1U);
  EXPECT_TRUE(hub_.arm().value());
  EXPECT_EQ(hub_.wait(deadline::after(1ms)).value(), 0U);
}

// The program examines the pending operation only after arm() has reported a completion.
TEST_F(tagged_operations, next_completed_does_not_hide_completions_of_other_operations) {
  const auto pool = buffer_pool::create(pd_, {.classes = {{.bytes = 64, .count = 1}}}).value();
  auto arrived = b_->post_receive(pool.take(64).value());
  EXPECT_EQ(a_->start_send(8, inline_data(std::as_bytes(std::span("text", 4)))), std::nullopt);
  std::array<completed_operation, 2> some;
  for (const auto until = long_deadline(); hub_.next_completed(some).value() == 0;)
    ASSERT_FALSE(until.expired());
  // The message arrived before its send completed.
  EXPECT_FALSE(hub_.arm().value());
  EXPECT_NE(arrived.poll(), nullptr);
  EXPECT_TRUE(hub_.arm().value());
}

TEST_F(tagged_operations, destroyed_channel_ends_them_as_lost) {
  std::array<sink, 1> sinks{into(1024)};
  EXPECT_EQ(b_->start_receive(5, sinks), std::nullopt);
  b_.reset();
  const auto ended = next(1);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].tag, 5U);
  EXPECT_EQ(ended[0].result.end(), operation_end::lost);
}

TEST_F(tagged_operations, failure_is_described_by_the_channel) {
  const auto gone = [&] {
    const auto region = pd_.allocate(4096, all_access).value();
    return region.remote().slice(0, 64);
  }();
  EXPECT_EQ(a_->start_write(1, from(0), gone), std::nullopt);
  const auto ended = next(1);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].result.end(), operation_end::failed);
  ASSERT_NE(a_->failure(), nullptr);
}

}  // namespace
}  // namespace verbena::test
