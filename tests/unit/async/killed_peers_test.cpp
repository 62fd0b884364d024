// SPDX-License-Identifier: MIT
// Kills the peer process at random times while coroutines are suspended. Each coroutine must be
// resumed once, with an error, within its limit. The campaign repeats this more often.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/killed_process.hpp"
#include "tests/unit/channel/known_messages.hpp"
#include "verbena/async/channel.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/async/message_channel.hpp"
#include "verbena/async/scope.hpp"
#include "verbena/async/task.hpp"
#include "verbena/bringup/listener.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;
using async::task;
using killed_clock = deadline::clock;

constexpr auto limit_of_traffic = 3s;
constexpr auto limit_of_idle = 300ms;
constexpr auto longest_late = 5s;  // for the flush, or for detecting the end of the peer

/// How a coroutine ended.
struct last_result {
  int resumed = 0;  // with a failure
  std::string reason;
  killed_clock::duration waited{};
};

/// The process under test: an engine, and coroutines that are suspended when the peer is killed.
class async_killed_peers : public ::testing::Test {
 public:
  void SetUp() override {
    if (is_iwarp(context_)) GTEST_SKIP() << "iWARP connects by the connection manager";
  }
  void operations_are_suspended() {
    start_peer("operations");
    auto with = listener_.accept(until_).value();
    auto prepared = pd_.create_channel(engine_.hub(), detail::options_of_side()).value();
    async::channel channel(engine_, std::move(prepared).connect(with, until_).value());
    const auto received = with.exchange(memory_.remote().encode(), until_).value();
    theirs_ = remote_region::decode(received).value();
    engine_.run(traffic(channel));
    expect_ends(limit_of_traffic);
  }
  void receives_are_suspended() {
    start_peer("operations");
    auto with = listener_.accept(until_).value();
    auto prepared = pd_.create_channel(engine_.hub(), detail::options_of_side()).value();
    async::channel channel(engine_, std::move(prepared).connect(with, until_).value());
    static_cast<void>(with.exchange(memory_.remote().encode(), until_).value());
    engine_.run(idle(channel));
    expect_ends(limit_of_idle);
  }
  void messages_are_suspended() {
    start_peer("messages");
    auto with = listener_.accept(until_).value();
    const message_channel_options options{.message_bytes = 256,
                                          .queues = {.max_send_wr = 8, .max_recv_wr = 8},
                                          .credits = credits::required};
    auto prepared = message_channel::prepare(pd_, engine_.hub(), options).value();
    async::message_channel channel(engine_, std::move(prepared).connect(with, until_).value());
    engine_.run(messages(channel));
    expect_ends(limit_of_traffic);
  }
  [[nodiscard]] killed_clock::duration longest() const noexcept { return longest_; }
  [[nodiscard]] std::uint32_t random() { return static_cast<std::uint32_t>(random_()); }

 private:
  void start_peer(const char* use) {
    results_.clear();
    until_ = deadline::after(20s);
    peer_.emplace(use, connect_method::stream, connect_side::active, listener_.port(), tracing::no);
  }
  task<void> kill_soon() {
    co_await engine_.wait_until(deadline::after(std::chrono::microseconds(random() % 20'000)));
    EXPECT_TRUE(std::ranges::all_of(results_, [](const auto& each) { return each.resumed == 0; }))
        << "an operation failed before the peer was killed";
    peer_->kill();
  }
  /// Repeats an operation until it fails.
  template <class Start>
  task<void> repeat(async::channel& channel, Start start) {
    last_result& mine = results_.emplace_back();
    for (;;) {
      const auto begun = killed_clock::now();
      const operation_result done = co_await start();
      if (done) continue;
      ++mine.resumed;
      mine.waited = killed_clock::now() - begun;
      mine.reason = channel.get().describe(done).message();
      co_return;
    }
  }
  task<void> throw_at_end(async::channel& channel) {
    while (true)
      (co_await channel.fetch_and_add(sink(memory_, 7168, 8), theirs_.slice(0, 8), 1,
                                      abort_after(limit_of_traffic)))
          .value();
  }
  task<void> traffic(async::channel& channel) {
    async::scope running;
    const auto limit = [] { return abort_after(limit_of_traffic); };
    for (std::size_t i = 0; i < 8; ++i) {
      const std::size_t at = 4096 + 256 * i;
      running.spawn(repeat(channel, [this, &channel, limit, at] {
        return channel.receive(sink(memory_, at, 256), limit());
      }));
    }
    for (std::size_t i = 0; i < 8; ++i) {
      const std::size_t at = 6144 + 8 * i;
      const auto there = theirs_.slice(64 * i, 8);
      running.spawn(repeat(channel, [this, &channel, limit, at] {
        return channel.send(source(memory_, at, 8), limit());
      }));
      running.spawn(repeat(channel, [this, &channel, limit, at, there] {
        return channel.write(source(memory_, at, 8), there, limit());
      }));
      running.spawn(repeat(channel, [this, &channel, limit, at, there] {
        return channel.read(sink(memory_, at + 512, 8), there, limit());
      }));
    }
    // An exception does not affect the other coroutines.
    running.spawn(throw_at_end(channel));
    running.spawn(kill_soon());
    EXPECT_THROW(co_await running.join(), verbena::exception);
  }
  task<void> idle(async::channel& channel) {
    async::scope running;
    for (std::size_t i = 0; i < 4; ++i)
      running.spawn(repeat(channel, [this, &channel, i] {
        return channel.receive(sink(memory_, 4096 + 256 * i, 256), abort_after(limit_of_idle));
      }));
    running.spawn(kill_soon());
    co_await running.join();
  }

  task<void> receive(async::message_channel& channel) {
    last_result& mine = results_.emplace_back();
    for (;;) {
      const auto begun = killed_clock::now();
      const auto message = co_await channel.receive(deadline::after(limit_of_traffic));
      if (message) continue;
      ++mine.resumed;
      mine.waited = killed_clock::now() - begun;
      mine.reason = message.error().message();
      co_return;
    }
  }
  task<void> send(async::message_channel& channel) {
    last_result& mine = results_.emplace_back();
    for (std::uint64_t number = 1;; ++number) {
      const known_message next(7, number, channel.get().message_bytes());
      const auto begun = killed_clock::now();
      const auto sent = co_await channel.send(next.bytes(), deadline::after(limit_of_traffic));
      if (sent) continue;
      ++mine.resumed;
      mine.waited = killed_clock::now() - begun;
      mine.reason = sent.error().message();
      co_return;
    }
  }
  task<void> messages(async::message_channel& channel) {
    async::scope running;
    for (int i = 0; i < 4; ++i) running.spawn(receive(channel));
    running.spawn(send(channel));
    running.spawn(kill_soon());
    co_await running.join();
  }

  void expect_ends(killed_clock::duration limit) {
    for (const last_result& each : results_) {
      EXPECT_EQ(each.resumed, 1);
      EXPECT_GT(each.reason.size(), 10U);
      EXPECT_LT(each.waited, limit + longest_late);
      longest_ = std::max(longest_, each.waited);
    }
  }

  verbena::context context_ = open_tested();
  protection_domain pd_ = context_.allocate_pd().value();
  memory_region memory_ = pd_.allocate(8192, access::local_write | access::remote_read |
                                                 access::remote_write | access::remote_atomic)
                              .value();
  async::engine engine_ = async::engine::create(context_).value();
  bringup::listener listener_ = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::optional<killed_process> peer_;
  remote_region theirs_;
  std::list<last_result> results_;
  deadline until_ = deadline::never();
  killed_clock::duration longest_{};
  std::mt19937 random_{campaign_seed(31)};
};

TEST_F(async_killed_peers, each_suspended_coroutine_is_resumed_once_with_a_reason) {
  const int kills = campaign_size(20, 100);
  for (int round = 0; round < kills && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    switch (random() % 5) {
      case 0:
        receives_are_suspended();
        break;
      case 1:
      case 2:
        messages_are_suspended();
        break;
      default:
        operations_are_suspended();
    }
  }
  std::printf("%d killed peers, the longest wait of a coroutine was %lld ms\n", kills,
              static_cast<long long>(longest() / 1ms));
}

}  // namespace
}  // namespace verbena::test
