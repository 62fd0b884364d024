// SPDX-License-Identifier: MIT
// Two processes with a stream of numbered messages. At a random time, one process is killed or its
// port goes down. The delivery of each message at the sender must agree with the received messages.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/channel_pair.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/channel/reconnection.hpp"
#include "verbena/verbs/inject_event.hpp"

namespace verbena::test {
namespace {

using softdev::testing::child_process;

constexpr std::uint32_t numbers = 64;
constexpr std::uint32_t depth = 8;

// Counts how often the receiving processes received each number; outlives them.
class seen_numbers {
 public:
  using counts = std::array<std::atomic<std::uint32_t>, numbers>;
  seen_numbers()
      : memory_(::mmap(nullptr, sizeof(counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)),
        counts_(*new(memory_) counts{}) {}
  seen_numbers(const seen_numbers&) = delete;
  seen_numbers& operator=(const seen_numbers&) = delete;
  ~seen_numbers() { ::munmap(memory_, sizeof(counts)); }
  void add(std::uint32_t number) { ++counts_[number]; }
  [[nodiscard]] std::uint32_t of(std::uint32_t number) const { return counts_[number]; }

 private:
  void* memory_;
  counts& counts_;
};

// Options with short timeouts; devices of the kernel on a slow host need longer ones.
channel_options short_timeout_options() {
  return {.queues = {.max_send_wr = depth, .max_recv_wr = depth},
          .counts_messages = true,
          .reliability = {.timeout = ack_timeout::at_least(tested_device() == "soft0" ? 1ms : 60ms),
                          .retry_count = 3}};
}

// The receiving process.
class receiver {
 public:
  receiver(bringup::address to, seen_numbers& seen) : to_(std::move(to)), seen_(seen) {
    peer_.emplace(bringup::stream::connect(to_, long_deadline()).value());
    channel_.emplace(pd_.create_channel(short_timeout_options())
                         .value()
                         .connect(*peer_, long_deadline())
                         .value());
    fill();
  }
  // Receives until the last number, or until the sender ends the stream.
  void receive(std::optional<std::uint32_t> down_after = {}) {
    std::uint32_t received = 0;
    while (!is_over()) {
      ASSERT_FALSE(receives_.empty());
      const auto* const done = receives_.front().poll();
      if (done == nullptr) continue;
      auto memory = receives_.front().take_buffer();
      look(*done, memory);
      receives_.pop_front();
      receives_.push_back(channel_->post_receive(std::move(memory)));
      if (++received == down_after) {
        EXPECT_TRUE(inject_event(context_, "port 1 down"));
      }
    }
  }
  // The connection of the sender failed: reconnects.
  void reconnect() {
    EXPECT_TRUE(inject_event(context_, "gid-move"));
    EXPECT_TRUE(inject_event(context_, "port 1 up"));
    peer_.emplace(bringup::stream::connect(to_, long_deadline()).value());
    // Received messages that were not read are not lost.
    const auto again = channel_->reconnect(*peer_, long_deadline()).value();
    EXPECT_EQ(again.peer(), reconnected_peer::same);
    for (auto& each : receives_) {
      const auto* const done = each.poll();
      ASSERT_NE(done, nullptr);
      look(*done, each.take_buffer());
    }
    receives_.clear();
    fill();
  }

 private:
  void fill() {
    while (receives_.size() < depth)
      receives_.push_back(channel_->post_receive(std::move(*pool_.take(64))));
  }
  void look(const operation_result& done, const buffer& memory) {
    if (!done.has_value()) return;
    const auto number = std::to_integer<std::uint32_t>(memory.bytes()[0]);
    seen_.add(number);
    last_ = number == numbers - 1;
  }
  [[nodiscard]] bool is_over() const {
    pollfd gone{peer_->fd(), POLLRDHUP, 0};
    return last_ || ::poll(&gone, 1, 0) > 0;
  }

  verbena::context context_ = open_tested();
  protection_domain pd_ = context_.allocate_pd().value();
  buffer_pool pool_ =
      buffer_pool::create(pd_, {.classes = {{.bytes = 64, .count = 2 * depth}}}).value();
  bringup::address to_;
  seen_numbers& seen_;
  std::optional<bringup::stream> peer_;
  std::optional<channel> channel_;
  std::deque<pending_operation> receives_;
  bool last_ = false;
};

// The sending process.
class sender {
 public:
  [[nodiscard]] bringup::address address() const { return listening_.local_address(); }
  [[nodiscard]] verbena::channel& channel() { return *channel_; }
  void connect() {
    peer_.emplace(listening_.accept(long_deadline()).value());
    channel_.emplace(pd_.create_channel(short_timeout_options())
                         .value()
                         .connect(*peer_, long_deadline())
                         .value());
  }
  void hang_up() { peer_.reset(); }
  reconnection reconnect() {
    peer_.emplace(listening_.accept(long_deadline()).value());
    return channel_->reconnect(*peer_, long_deadline()).value();
  }
  // Sends the numbers in this order and calls `after` when a send has completed. Returns the
  // results in this order; a message that could not be posted does not have a result.
  template <class After>
  std::vector<std::pair<std::uint32_t, operation_result>> send(
      const std::vector<std::uint32_t>& what, After&& after) {
    std::vector<std::pair<std::uint32_t, operation_result>> out;
    std::deque<std::pair<std::uint32_t, pending_operation>> sends;
    const auto end_first = [&] {
      const auto* const done = sends.front().second.wait(long_deadline());
      ASSERT_NE(done, nullptr);
      out.emplace_back(sends.front().first, *done);
      sends.pop_front();
      after();
    };
    for (const std::uint32_t number : what) {
      if (channel_->failure() != nullptr) break;
      if (sends.size() == depth) end_first();
      auto memory = std::move(*pool_.take(64));
      memory.bytes()[0] = static_cast<std::byte>(number);
      sends.emplace_back(number, channel_->post_send(std::move(memory), {.length = 1}));
    }
    while (!sends.empty()) end_first();
    return out;
  }
  // No operation is in flight, and all buffers were returned.
  void expect_all_returned() const {
    EXPECT_EQ(channel_->in_flight(), 0U);
    EXPECT_EQ(pool_.taken(), 0U);
  }

 private:
  verbena::context context_ = open_tested();
  protection_domain pd_ = context_.allocate_pd().value();
  buffer_pool pool_ =
      buffer_pool::create(pd_, {.classes = {{.bytes = 64, .count = 2 * depth}}}).value();
  bringup::listener listening_ = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::optional<bringup::stream> peer_;
  std::optional<verbena::channel> channel_;
};

std::vector<std::uint32_t> from(std::uint32_t first) {
  std::vector<std::uint32_t> out;
  for (; first < numbers; ++first) out.push_back(first);
  return out;
}

// Known deliveries of a connection are correct, and no message was delivered twice.
void expect_agreement(const std::vector<std::pair<std::uint32_t, operation_result>>& sent,
                      const seen_numbers& seen) {
  for (const auto& [number, result] : sent) {
    EXPECT_LE(seen.of(number), 1U) << number;
    if (result.delivery() == delivery::not_done) {
      EXPECT_EQ(seen.of(number), 0U) << number;
    }
  }
}

TEST(recovery_processes, killed_peer_leaves_known_and_unknown_messages) {
  std::mt19937 random(campaign_seed(11));
  const int rounds = campaign_size(6, 60);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    seen_numbers seen;
    sender here;
    const auto receive = [&, to = here.address()](softdev::testing::stream& /*parent*/) {
      receiver(to, seen).receive();
      return 0;
    };
    std::optional<child_process> peer(std::in_place, receive);
    here.connect();
    // More messages follow than the peer has receives.
    auto left = std::uniform_int_distribution<std::uint32_t>(0, numbers - 3 * depth)(random);
    const auto sent = here.send(from(0), [&] {
      if (left-- != 0) return;
      peer->kill_it();
      EXPECT_EQ(peer->join(), 1000 + SIGKILL);
    });
    ASSERT_NE(here.channel().failure(), nullptr);
    here.channel().flush();
    here.expect_all_returned();
    expect_agreement(sent, seen);
    // A new process without the state of the old one: unknown deliveries remain unknown.
    here.hang_up();
    peer.emplace(receive);
    const auto again = here.reconnect();
    EXPECT_EQ(again.peer(), reconnected_peer::another);
    for (const auto& [number, result] : sent) EXPECT_EQ(again.reconcile(result), result.delivery());
    const auto rest = here.send(from(static_cast<std::uint32_t>(sent.size())), [] {});
    EXPECT_EQ(peer->join(), 0);
    for (const auto& [number, result] : rest) {
      EXPECT_EQ(result.delivery(), delivery::done);
      EXPECT_EQ(seen.of(number), 1U) << number;
    }
    here.expect_all_returned();
  }
}

TEST(recovery_processes, flapping_port_delivers_each_number_once) {
  std::mt19937 random(campaign_seed(12));
  const int rounds = campaign_size(6, 60);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    seen_numbers seen;
    sender here;
    const auto down_after = std::uniform_int_distribution<std::uint32_t>(1, numbers - 1)(random);
    child_process peer([&, to = here.address()](softdev::testing::stream& /*parent*/) {
      receiver there(to, seen);
      there.receive(down_after);
      there.reconnect();
      there.receive();
      return 0;
    });
    here.connect();
    const auto sent = here.send(from(0), [] {});
    expect_agreement(sent, seen);
    here.hang_up();
    const auto again = here.reconnect();
    here.expect_all_returned();
    EXPECT_EQ(again.peer(), reconnected_peer::same);
    ASSERT_TRUE(again.received_by_peer());
    std::vector<std::uint32_t> repeated;
    for (const auto& [number, result] : sent) {
      const auto known = again.reconcile(result);
      EXPECT_NE(known, delivery::unknown);
      if (known == delivery::not_done) repeated.push_back(number);
    }
    for (auto number = static_cast<std::uint32_t>(sent.size()); number < numbers; ++number)
      repeated.push_back(number);
    for (const auto& [number, result] : here.send(repeated, [] {})) EXPECT_TRUE(result.has_value());
    EXPECT_EQ(peer.join(), 0);
    for (std::uint32_t number = 0; number < numbers; ++number) EXPECT_EQ(seen.of(number), 1U);
    here.expect_all_returned();
  }
}

}  // namespace
}  // namespace verbena::test
