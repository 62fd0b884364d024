// SPDX-License-Identifier: MIT
// Message channels on a completion hub: one epoll for many, sleeping sides, late completions.
#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/killed_process.hpp"
#include "tests/unit/channel/message_pair.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/channel/detail/channel_core.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;
using testing_support::expect_error;

constexpr std::array<std::byte, 200> bytes_of_hub{};

deadline limit_of_hub() { return deadline::after(20s); }

struct connected_messages {
  message_channel one;
  message_channel other;
};

connected_messages join(prepared_message_channel one, prepared_message_channel other) {
  const auto to_one = one.endpoint();
  const auto to_other = other.endpoint();
  auto made = std::move(one).handshake(to_other).value();
  return {std::move(made), std::move(other).handshake(to_one).value()};
}

/// A context and a hub with events, and a hub without.
class message_hub : public ::testing::Test {
 protected:
  void SetUp() override {
    if (is_iwarp(context_)) GTEST_SKIP() << "iWARP connects by the connection manager";
  }
  static message_channel_options small(std::uint32_t window) { return tiny(window); }
  [[nodiscard]] connected_messages connect(const message_channel_options& options) const {
    return join(message_channel::prepare(pd_, hub_, options).value(),
                message_channel::prepare(pd_, polled_, options).value());
  }
  // Sends until a send is refused for want of credit.
  static void exhaust(message_channel& by) {
    for (const auto until = limit_of_hub(); !until.expired();) {
      const auto outcome = by.try_send(bytes_of_hub);
      if (outcome.refusal() == send_refusal::no_credit) return;
    }
    FAIL() << "the credit has no end";
  }
  // Sends one message; sleeps while that is impossible. Returns how often it woke.
  int send_asleep(message_channel& by) {
    for (int woken = 0;; ++woken) {
      const auto outcome = by.try_send(bytes_of_hub);
      if (!outcome.is_retryable()) {
        EXPECT_TRUE(outcome) << by.describe().message();
        return woken;
      }
      is_asleep_ = true;
      if (hub_.wait(limit_of_hub()).value() == 0) {
        ADD_FAILURE() << "the sender was not woken";
        return woken;
      }
    }
  }

  verbena::context context_ = open_tested();
  protection_domain pd_ = context_.allocate_pd().value();
  completion_hub hub_ = completion_hub::create(context_, 512, {.events = true}).value();
  completion_hub polled_ = completion_hub::create(context_, 512).value();
  std::atomic<bool> is_asleep_ = false;  // or about to be
};

TEST_F(message_hub, channel_reserves_its_places_until_it_is_destroyed) {
  const auto before = hub_.unreserved();
  {
    const auto made = message_channel::prepare(pd_, hub_, small(4)).value();
    EXPECT_EQ(hub_.unreserved(), before - 4 - 4 - message_channel::own_operations);
  }
  EXPECT_EQ(hub_.unreserved(), before);
  const auto little = completion_hub::create(context_, 13).value();
  expect_error(message_channel::prepare(pd_, little, small(4)),
               "the completion hub has room for 13 more operations in flight, and the channel "
               "needs 14");
}

TEST_F(message_hub, sides_with_and_without_sleep_agree_on_the_terms) {
  const auto sleeping = message_channel::prepare(pd_, hub_, small(4)).value();
  const auto polling = message_channel::prepare(pd_, polled_, small(4)).value();
  auto without = small(4);
  without.credits = credits::off;
  EXPECT_EQ(sleeping.endpoint().terms.credit_receives, 4);
  EXPECT_EQ(polling.endpoint().terms.credit_receives, 0);
  EXPECT_EQ(message_channel::prepare(pd_, hub_, without).value().endpoint().terms.credit_receives,
            0);
}

TEST_F(message_hub, pool_of_the_program_has_the_additional_receives) {
  const auto pool = buffer_pool::create(pd_, {.classes = {{.bytes = 256, .count = 11}}}).value();
  auto one = message_channel::prepare(pd_, hub_, pool, small(8)).value();
  const auto itself = one.endpoint();
  expect_error(std::move(one).handshake(itself), "too few free buffers");
}

// The processor time of the process, with the threads of the software device.
std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// Half of the channels are the peers of the others.
TEST_F(message_hub, one_epoll_serves_a_thousand_channels) {
  constexpr std::uint32_t count = 1000;
  const auto options = small(2);
  const std::uint32_t places = count * (2 + 2 + message_channel::own_operations);
  const auto hub = completion_hub::create(context_, places, {.events = true}).value();
  const auto pool =
      buffer_pool::create(pd_, {.classes = {{.bytes = 256, .count = 8 * count}}}).value();
  std::vector<message_channel> served;
  for (std::uint32_t i = 0; i < count; i += 2) {
    auto made = join(message_channel::prepare(pd_, hub, pool, options).value(),
                     message_channel::prepare(pd_, hub, pool, options).value());
    served.push_back(std::move(made.one));
    served.push_back(std::move(made.other));
  }
  const unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event readable{.events = EPOLLIN, .data = {.fd = hub.fd()}};
  ASSERT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, hub.fd(), &readable), 0);
  const auto await_event = [&](int most_ms) {
    epoll_event found{};
    return ::epoll_wait(epoll.get(), &found, 1, most_ms);
  };

  // Several rounds, so that receives are posted again and credits are granted.
  for (std::uint64_t round = 1; round <= 4; ++round) {
    bool all = false;
    for (const auto until = limit_of_hub(); !all && !until.expired();) {
      all = true;
      for (auto& each : served) {
        if (each.has_message()) {
          EXPECT_EQ(each.try_receive()->number(), round);
        }
        if (each.sent() < round) static_cast<void>(each.try_send(bytes_of_hub));
        all = all && each.sent() == round && each.received() == round && !each.has_message();
      }
      if (all || !hub.arm().value()) continue;
      ASSERT_NE(await_event(until.poll_timeout_ms()), 0) << "an event was missed";
      ASSERT_TRUE(hub.progress());
    }
    ASSERT_TRUE(all) << "round " << round;
  }

  while (!hub.arm().value()) {
  }
  EXPECT_TRUE(hub.next_deadline().is_never());
  const auto before = processor_time();
  EXPECT_EQ(await_event(1000), 0) << "an idle channel caused an event";
  EXPECT_LT(processor_time() - before, 10ms);
}

TEST_F(message_hub, sleeping_sender_without_credit_wakes_when_the_peer_receives) {
  auto [here, there] = connect(small(4));
  for (int round = 0; round < campaign_size(20, 500); ++round) {
    exhaust(here);
    std::atomic<bool> sent = false;
    std::thread peer([&, &other = there] {
      while (!is_asleep_) std::this_thread::yield();
      while (!sent) static_cast<void>(other.try_receive());
    });
    // A few completions of earlier messages may wake it too.
    EXPECT_LT(send_asleep(here), 20);
    sent = true;
    peer.join();
    is_asleep_ = false;
    ASSERT_EQ(here.failure(), nullptr);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(here.counters().bad_credits, 0U);
}

TEST_F(message_hub, two_sleeping_sides_flood_each_other_without_rnr_errors) {
  for (const std::uint32_t window : {1U, 2U, 3U, 8U, 32U}) {
    for (const std::uint32_t inline_bytes : {0U, 64U}) {
      SCOPED_TRACE("window " + std::to_string(window));
      auto options = small(window);
      options.inline_bytes = inline_bytes;
      const auto other_hub = completion_hub::create(context_, 512, {.events = true}).value();
      auto pair = join(message_channel::prepare(pd_, hub_, options).value(),
                       message_channel::prepare(pd_, other_hub, options).value());
      const auto count = static_cast<std::uint64_t>(campaign_size(500, 20'000));
      const auto run = [&](message_channel& own, const completion_hub& on, std::uint32_t to,
                           std::uint32_t from) {
        known_stream out(to, count);
        known_stream in(from, count);
        while (!(out.all_sent() && in.all_arrived() && own.try_drain())) {
          bool moved = !out.all_sent() && out.send(own).has_value();
          if (auto message = own.try_receive()) {
            in.take(*message);
            moved = true;
          }
          if (moved) continue;
          if (own.failure() != nullptr || on.wait(limit_of_hub()).value() == 0) {
            ADD_FAILURE() << to_string(own) << ", " << out.all_sent() << in.all_arrived();
            return;
          }
        }
      };
      std::thread peer([&] { run(pair.other, other_hub, 22, 21); });
      run(pair.one, hub_, 21, 22);
      peer.join();
      for (message_channel* const side : {&pair.one, &pair.other}) {
        EXPECT_EQ(side->failure(), nullptr);
        EXPECT_EQ(side->counters().bad_credits, 0U);
      }
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_F(message_hub, timer_finds_the_credit_that_causes_no_completion) {
  auto [there, here] = connect(small(4));  // `here` polls, and its credits are plain writes
  exhaust(here);
  EXPECT_FALSE(polled_.next_deadline().is_never());
  ASSERT_TRUE(here.drain(limit_of_hub()));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(there.receive(limit_of_hub()));
  there.progress();
  std::size_t events = 0;
  for (const auto until = limit_of_hub(); events == 0 && !until.expired();)
    events = polled_.progress().value();
  EXPECT_NE(events, 0U);
  EXPECT_TRUE(here.try_send(bytes_of_hub));
  static_cast<void>(polled_.progress());
  while (!polled_.next_deadline().is_never()) static_cast<void>(polled_.progress());
}

TEST_F(message_hub, peer_lost_while_the_sender_sleeps_is_detected) {
  auto options = small(4);
  options.reliability.timeout = ack_timeout::at_least(1ms);
  options.reliability.retry_count = 1;
  auto made = connect(options);
  exhaust(made.one);
  while (!made.one.try_drain()) ASSERT_NE(hub_.wait(limit_of_hub()).value(), 0U);
  EXPECT_EQ(made.one.try_send(bytes_of_hub).refusal(), send_refusal::no_credit);
  {
    const message_channel lost = std::move(made.other);
  }
  for (const auto until = limit_of_hub(); made.one.failure() == nullptr && !until.expired();)
    static_cast<void>(hub_.wait(until).value());
  ASSERT_NE(made.one.failure(), nullptr);
  EXPECT_EQ(made.one.failure()->part, failed_part::credit_write);
  EXPECT_LT(made.one.counters().credit_probes, 20U);
}

TEST_F(message_hub, drain_and_free_buffers_wake_a_sleeping_program) {
  auto options = small(16);
  options.send_buffers = 2;
  auto [here, there] = connect(options);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(here.try_send(std::span(bytes_of_hub).first(8)));
  while (!here.try_drain()) ASSERT_NE(hub_.wait(limit_of_hub()).value(), 0U);
  EXPECT_EQ(here.delivered(), 3U);
  // Two messages have the buffers; neither is signaled.
  ASSERT_TRUE(here.try_send(bytes_of_hub));
  ASSERT_TRUE(here.try_send(bytes_of_hub));
  std::optional<buffer> found = here.take_buffer();
  while (!found) {
    ASSERT_NE(hub_.wait(limit_of_hub()).value(), 0U);
    found = here.take_buffer();
  }
}

TEST_F(message_hub, receives_are_posted_when_the_program_returns_its_buffers) {
  auto options = small(4);
  options.receive_buffers = 4;
  auto [here, there] = connect(options);
  std::vector<received_message> kept;
  // All buffers of `here` but the 4 that are posted for credits.
  while (kept.size() < 4) {
    if (there.try_send(bytes_of_hub)) continue;
    if (auto message = here.try_receive()) kept.push_back(*std::move(message));
    static_cast<void>(there.try_drain());
  }
  EXPECT_EQ(there.try_send(bytes_of_hub).refusal(), send_refusal::no_credit);
  static_cast<void>(hub_.progress());
  EXPECT_FALSE(hub_.next_deadline().is_never()) << "the return of buffers causes no completion";
  std::thread other([&, &peer = there] {
    while (!is_asleep_) std::this_thread::yield();
    kept.clear();
    EXPECT_TRUE(peer.send(bytes_of_hub, limit_of_hub()));
  });
  is_asleep_ = true;
  while (!here.has_message()) ASSERT_NE(hub_.wait(limit_of_hub()).value(), 0U);
  other.join();
  while (auto message = here.try_receive()) EXPECT_EQ(message->length(), bytes_of_hub.size());
}

// The peer is a process that is stopped, so that it neither receives nor grants credits.
TEST_F(message_hub, process_killed_while_the_sender_sleeps_is_detected) {
  auto place = bringup::listener::open({.host = "127.0.0.1"}).value();
  killed_process peer("messages", connect_method::stream, connect_side::active, place.port(),
                      tracing::yes);
  ASSERT_TRUE(peer.begin());
  auto asleep = std::async(std::launch::async, [&] {
    const auto until = limit_of_hub();
    auto stream = place.accept(until).value();
    auto here =
        message_channel::prepare(pd_, hub_, small(4)).value().connect(stream, until).value();
    while (here.failure() == nullptr && !until.expired()) {
      if (!here.try_send(bytes_of_hub)) static_cast<void>(hub_.wait(until).value());
    }
    return here.failure() != nullptr;
  });
  peer.step(std::numeric_limits<int>::max());
  EXPECT_EQ(asleep.wait_for(50ms), std::future_status::timeout) << "it ended before the kill";
  peer.kill();
  EXPECT_TRUE(asleep.get());
}

TEST_F(message_hub, channels_with_their_own_events_sleep) {
  auto options = small(4);
  options.events = true;
  auto pair = join(message_channel::prepare(pd_, options).value(),
                   message_channel::prepare(pd_, options).value());
  while (!pair.one.arm().value()) {
  }
  EXPECT_GE(pair.one.fd(), 0);
  EXPECT_TRUE(pair.one.next_deadline().is_never());
  EXPECT_EQ(pair.one.wait(deadline::after(1ms)).value(), 0U);
  std::thread peer([&] { EXPECT_TRUE(pair.other.send(bytes_of_hub, limit_of_hub())); });
  while (!pair.one.has_message()) ASSERT_NE(pair.one.wait(limit_of_hub()).value(), 0U);
  peer.join();
  exhaust(pair.one);
  peer = std::thread([&] {
    for (std::uint64_t i = 0; i < pair.one.message_bytes() && pair.other.received() < 5; ++i)
      static_cast<void>(pair.other.receive(deadline::after(20ms)));
  });
  while (!pair.one.try_send(bytes_of_hub)) ASSERT_NE(pair.one.wait(limit_of_hub()).value(), 0U);
  peer.join();
}

// A member that counts.
class counted_member : public verbena::detail::table_member {
 public:
  void completed(const completion& done) noexcept override {
    ++completions;
    last = done.id();
  }
  void tend() override { ++tended; }
  [[nodiscard]] std::optional<time_point> expire(time_point now, std::size_t& events) override {
    ++expired;
    ++events;
    if (interval.count() == 0) return std::nullopt;
    return now + interval;
  }
  void lose(int code) noexcept override { lost = code; }

  int completions = 0;
  int tended = 0;
  int expired = 0;
  int lost = 0;
  std::uint64_t last = 0;
  std::chrono::nanoseconds interval{};
};

completion completion_with(std::uint64_t id) {
  ibv_wc native{};
  native.wr_id = id;
  return native;
}

TEST_F(message_hub, late_completions_do_not_reach_a_later_member) {
  verbena::detail::operation_table table(context_.create_cq(16).value(), 8);
  counted_member first;
  counted_member second;
  ASSERT_TRUE(table.enroll(first));
  const auto old = first.key();
  table.deliver(completion_with(old | 7U));
  EXPECT_EQ(first.completions, 1);
  EXPECT_EQ(first.last, old | 7U);
  table.dismiss(first);
  table.dismiss(first);  // has no effect
  ASSERT_TRUE(table.enroll(second));
  EXPECT_NE(second.key(), old);
  table.deliver(completion_with(old | 7U));
  table.deliver(completion_with(old | verbena::detail::table_member::mark | 7U));
  table.deliver(completion_with(second.key() + (std::uint64_t{1} << 32U)));
  EXPECT_EQ(first.completions, 1);
  EXPECT_EQ(second.completions, 0);
  table.deliver(completion_with(second.key() | verbena::detail::table_member::mark | 0x7fff'ffffU));
  EXPECT_EQ(second.completions, 1);
  table.dismiss(second);
}

TEST_F(message_hub, next_ready_does_not_hide_completions_of_channels_without_a_tag) {
  auto [here, there] = connect(small(4));
  ASSERT_TRUE(there.send(bytes_of_hub, limit_of_hub()));
  ASSERT_TRUE(there.drain(limit_of_hub()));
  std::array<std::uint64_t, 2> tags{};
  for (const auto until = limit_of_hub(); here.received() == 0 && !until.expired();)
    EXPECT_EQ(hub_.next_ready(tags).value(), 0U);
  EXPECT_FALSE(hub_.arm().value());
  EXPECT_TRUE(here.try_receive());
}

TEST_F(message_hub, names_channels_for_which_something_has_changed) {
  std::vector<connected_messages> pairs;
  pairs.reserve(3);
  for (std::uint64_t i = 0; i < 3; ++i) pairs.push_back(connect(small(4)));
  std::array<std::uint64_t, 2> tags{};
  EXPECT_EQ(hub_.next_ready(tags).value(), 0U);  // without tags
  for (std::uint64_t i = 0; i < 3; ++i) pairs[i].one.set_tag(100 + i);
  EXPECT_FALSE(hub_.arm().value());
  EXPECT_EQ(hub_.next_ready(tags).value(), 2U);
  EXPECT_EQ(tags, (std::array<std::uint64_t, 2>{100, 101}));
  EXPECT_NE(hub_.wait(deadline::never()).value(), 0U);
  EXPECT_EQ(hub_.next_ready(tags).value(), 1U);
  EXPECT_EQ(tags[0], 102U);
  EXPECT_EQ(hub_.next_ready(tags).value(), 0U);

  pairs[1].other.send(bytes_of_hub).value();
  while (hub_.next_ready(tags).value() == 0) ASSERT_NE(hub_.wait(limit_of_hub()).value(), 0U);
  EXPECT_EQ(tags[0], 101U);
  EXPECT_TRUE(pairs[1].one.try_receive());

  // The credit that the first channel granted may also have changed something.
  const auto named = [&](std::uint64_t tag) {
    bool found = false;
    std::array<std::uint64_t, 8> some{};
    while (const std::size_t count = hub_.next_ready(some).value())
      for (std::size_t i = 0; i < count; ++i) found = found || some.at(i) == tag;
    return found;
  };
  pairs[2].one.set_tag(7);
  pairs[0].one.set_tag(std::nullopt);
  EXPECT_TRUE(named(7));
  // A destroyed channel is not named.
  pairs[2].one.set_tag(8);
  pairs.pop_back();
  EXPECT_FALSE(named(8));
  // The end of a channel is.
  pairs[1].one.set_tag(9);
  EXPECT_TRUE(named(9));
  pairs[1].other.flush();
  pairs[1].one.flush();
  const auto until = limit_of_hub();
  while (!named(9) && !until.expired()) static_cast<void>(hub_.wait(deadline::after(10ms)).value());
  EXPECT_FALSE(until.expired());
}

// Only a hub returns tags.
TEST(message_channel_without_hub, sleeps_although_it_has_a_tag) {
  message_pair pair(message_channel_options{.events = true}, message_channel_options{});
  pair.a().set_tag(7);
  EXPECT_TRUE(pair.a().arm().value());
  EXPECT_EQ(pair.a().wait(deadline::after(1ms)).value(), 0U);
  ASSERT_TRUE(pair.b().send(std::as_bytes(std::span("hello", 5))));
  EXPECT_TRUE(pair.a().receive(limit_of_hub()));
}

// Late completions of a lost operation, and of a line that had the index before.
TEST_F(message_hub, late_completions_do_not_end_a_later_operation_of_a_line) {
  using verbena::detail::queued_line;
  using verbena::detail::queued_waiter;
  verbena::detail::operation_table table(context_.create_cq(16).value(), 8);
  std::uint32_t room = 4;
  std::array<queued_waiter, 3> waiters;
  std::uint64_t old = 0;
  {
    queued_line line(nullptr, room);
    ASSERT_TRUE(table.enroll(line));
    old = line.next_id();
    line.push(waiters[0]);
    EXPECT_EQ(room, 3U);
    EXPECT_EQ(&line.pop(), waiters.data());  // lost
    table.deliver(completion_with(old));
    line.push(waiters[1]);
    table.deliver(completion_with(old));
    table.deliver(completion_with(line.next_id()));  // not posted
    EXPECT_FALSE(waiters[1].ended);
    table.deliver(completion_with(old + (std::uint64_t{1} << 32U)));
    EXPECT_TRUE(waiters[1].ended);
    EXPECT_EQ(table.take_completed(), &waiters[1]);
    EXPECT_EQ(table.take_completed(), nullptr);
    EXPECT_EQ(room, 4U);
    table.dismiss(line);
    table.dismiss(line);  // has no effect
  }
  table.deliver(completion_with(old));
  queued_line line(nullptr, room);
  ASSERT_TRUE(table.enroll(line));
  EXPECT_NE(line.next_id(), old);
  EXPECT_EQ(static_cast<std::uint32_t>(line.next_id()), static_cast<std::uint32_t>(old));
  line.push(waiters[2]);
  table.deliver(completion_with(old));
  table.deliver(completion_with(line.next_id() + 1));  // of no line
  EXPECT_FALSE(waiters[2].ended);
  EXPECT_EQ(&line.pop(), &waiters[2]);
  table.dismiss(line);
}

TEST_F(message_hub, members_are_tended_once_after_their_completions) {
  verbena::detail::operation_table table(context_.create_cq(16).value(), 8);
  std::array<counted_member, 3> members;
  for (auto& each : members) ASSERT_TRUE(table.enroll(each));
  for (int i = 0; i < 3; ++i) table.deliver(completion_with(members[0].key()));
  table.deliver(completion_with(members[1].key()));
  table.attend(members[2]);
  table.dismiss(members[1]);
  EXPECT_EQ(table.upkeep(), 0U);
  EXPECT_EQ(members[0].tended, 1);
  EXPECT_EQ(members[1].tended, 0);
  EXPECT_EQ(members[2].tended, 1);
  EXPECT_EQ(table.upkeep(), 0U);
  EXPECT_EQ(members[0].tended, 1);
  table.lose_all(EIO);
  EXPECT_EQ(members[1].lost, 0);
  table.dismiss(members[0]);
  table.dismiss(members[2]);
}

TEST_F(message_hub, timers_run_when_they_are_due) {
  verbena::detail::operation_table table(context_.create_cq(16).value(), 8);
  counted_member once;
  counted_member often;
  ASSERT_TRUE(table.enroll(once) && table.enroll(often));
  often.interval = 1ms;
  table.start_timer(once);
  table.start_timer(often);
  table.start_timer(often);
  EXPECT_EQ(table.upkeep(), 2U);
  const auto due = table.next_due();
  EXPECT_GT(due, deadline::clock::now() - 1s);
  for (const auto until = limit_of_hub(); often.expired < 4 && !until.expired();)
    static_cast<void>(table.upkeep());
  EXPECT_EQ(often.expired, 4);
  EXPECT_EQ(once.expired, 1);
  EXPECT_GE(deadline::clock::now() - due, 2ms);
  table.dismiss(often);
  EXPECT_EQ(table.next_due(), deadline::clock::time_point::max());
  table.dismiss(once);
}

// Eight channels on a hub, their peers on another, all at random: sends, receives, sleep, and
// destruction with messages in flight.
class random_channels {
 public:
  random_channels(const protection_domain& pd, std::uint32_t seed) : pd_(pd), random_(seed) {
    for (auto& each : pairs_) connect(each);
  }
  void step() {
    pair& chosen = pairs_[random_() % pairs_.size()];
    const std::size_t side = random_() % 2;
    message_channel& own = *chosen.ends[side];
    switch (random_() % 16) {
      case 0:
        connect(chosen);
        break;
      case 1:
      case 2:
      case 3:
      case 4:
        while (chosen.out[side].send(own) && random_() % 4 != 0) {
        }
        break;
      case 5:
      case 6:
      case 7:
      case 8:
        while (auto message = own.try_receive()) {
          chosen.out[1 - side].take(*message);
          if (random_() % 4 == 0) break;
        }
        break;
      case 9:
        static_cast<void>(own.try_drain());
        break;
      case 10:
        static_cast<void>(hubs_[side].wait(deadline::after(100us)).value());
        break;
      default:
        static_cast<void>(hubs_[side].progress().value());
    }
    for (const auto& end : chosen.ends) {
      EXPECT_EQ(end->failure(), nullptr);
      EXPECT_EQ(end->counters().bad_credits, 0U);
    }
  }
  /// Has all messages arrive.
  void end() {
    for (const auto until = limit_of_hub(); !until.expired();) {
      bool all = true;
      for (auto& each : pairs_)
        for (const std::size_t side : {0U, 1U}) {
          while (auto message = each.ends[side]->try_receive()) each.out[1 - side].take(*message);
          all = all && each.ends[side]->try_drain() &&
                each.ends[side]->received() == each.ends[1 - side]->sent();
        }
      if (all) return;
    }
    ADD_FAILURE() << "messages were lost";
  }

 private:
  struct pair {
    std::array<std::optional<message_channel>, 2> ends;
    std::vector<known_stream> out;
  };
  void connect(pair& which) {
    const std::size_t first = random_() % 2;
    which.ends[first].reset();
    which.ends[1 - first].reset();
    const std::uint32_t window = 1 + random_() % 8;
    auto made = join(message_channel::prepare(pd_, hubs_[0], tiny(window)).value(),
                     message_channel::prepare(pd_, hubs_[1], tiny(window)).value());
    which.ends[0].emplace(std::move(made.one));
    which.ends[1].emplace(std::move(made.other));
    which.out.assign({known_stream(random_(), std::numeric_limits<std::uint64_t>::max()),
                      known_stream(random_(), std::numeric_limits<std::uint64_t>::max())});
  }

  protection_domain pd_;
  std::mt19937 random_;
  std::array<completion_hub, 2> hubs_{
      completion_hub::create(pd_.context(), 8 * 22, {.events = true}).value(),
      completion_hub::create(pd_.context(), 8 * 22, {.events = true}).value()};
  std::array<pair, 8> pairs_;
};

TEST_F(message_hub, channels_of_a_hub_lose_nothing_in_random_use) {
  const auto seed = campaign_seed(41);
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (int round = 0; round < campaign_size(3, 40) && !HasFailure(); ++round) {
    random_channels all(pd_, seed + static_cast<std::uint32_t>(round) * 7919U);
    for (int i = 0; i < 2000 && !HasFailure(); ++i) all.step();
    all.end();
  }
}

}  // namespace
}  // namespace verbena::test
