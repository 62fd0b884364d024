// SPDX-License-Identifier: MIT
// Limits of a store for clients that do not send, or do not read, and its log about closed
// connections.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "src/net/store_message.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/base/log.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/store.hpp"
#include "verbena/net/store_client.hpp"

namespace verbena::test {
namespace {

TEST(store_trust, silent_connections_beyond_the_limit_replace_older_ones) {
  const test_store store({.listener = {.max_greeting = 2}});
  std::vector<bringup::stream> silent;
  silent.reserve(4);
  for (int i = 0; i < 4; ++i)
    silent.push_back(bringup::stream::connect(store.address(), test_deadline()).value());
  EXPECT_FALSE(silent.front().receive(test_deadline()));
  auto client = connect_client(store.member(0, 1));
  EXPECT_TRUE(client.exchange("x", bytes_of("x"), test_deadline()));
}

TEST(store_trust, slow_client_is_not_replaced_before_the_minimum_time) {
  const test_store store(
      {.listener = {.greeting_timeout = 60s, .max_greeting = 2, .min_greeting_time = 60s}});
  const auto connect = [&](deadline until) {
    return bringup::stream::connect(store.address(), until);
  };
  std::vector<bringup::stream> slow;
  slow.reserve(2);
  for (int i = 0; i < 2; ++i) slow.push_back(connect(test_deadline()).value());
  const auto third =
      net::store_client::connect(store.member(0, 1, "third"), deadline::after(200ms));
  ASSERT_FALSE(third);
  EXPECT_TRUE(third.error().is(std::errc::timed_out));
  EXPECT_EQ((*store).statistics().refused, 0U);
  // A rank that joins has no longer one of the places.
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    slow[rank]
        .send(encode(net::detail::store_hello{.rank = rank, .size = 3, .name = "test"}),
              test_deadline())
        .value();
    EXPECT_TRUE(slow[rank].receive(test_deadline()));
  }
  EXPECT_TRUE(net::store_client::connect(store.member(2, 3), test_deadline()));
}

// The rank computes for longer than the time in which the store disconnects other clients that do
// not read: 2 s for each MiB. The sockets cannot hold the answer.
TEST(store_trust, rank_that_reads_a_long_answer_late_remains_connected) {
  const test_store store({.max_message_bytes = std::size_t{4} << 20U});
  auto rank = bringup::stream::connect(store.address(), test_deadline(),
                                       {.stream = {.max_blob_bytes = std::size_t{4} << 20U}})
                  .value();
  rank.send(encode(net::detail::store_hello{.rank = 0, .size = 1, .name = "test"}), test_deadline())
      .value();
  rank.receive(test_deadline()).value();
  const net::exchanged_bytes bytes((std::size_t{4} << 20U) - 1024);
  const std::span<const std::byte> part = bytes;
  rank.send(net::detail::encode_exchange({.number = 1, .timeout_ms = 1000, .name = "x"},
                                         std::span(&part, 1)),
            test_deadline())
      .value();
  const auto late = deadline::after(9s);
  while (!late.expired()) ::poll(nullptr, 0, late.poll_timeout_ms());
  const auto answer = rank.receive(test_deadline());
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_GT(answer->size(), bytes.size());
}

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

/// A group of one rank that has caused an answer of `bytes`, at least 8 MiB. The sockets cannot
/// hold the answer: the limits of the kernel are 4 MiB to send and, by SO_RCVBUF, less to receive.
bringup::stream rank_with_long_answer(const test_store& store, const std::string& name,
                                      std::size_t bytes = 8 * mebibyte) {
  auto rank = bringup::stream::connect(store.address(), test_deadline(),
                                       {.stream = {.max_blob_bytes = bytes}})
                  .value();
  const int room = 65536;
  EXPECT_EQ(::setsockopt(rank.fd(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
  rank.send(encode(net::detail::store_hello{.rank = 0, .size = 1, .name = name}), test_deadline())
      .value();
  rank.receive(test_deadline()).value();
  const net::exchanged_bytes part(bytes - 1024);
  const std::span<const std::byte> view = part;
  rank.send(net::detail::encode_exchange({.number = 1, .timeout_ms = 1000, .name = "x"},
                                         std::span(&view, 1)),
            test_deadline())
      .value();
  // The store sends the answer.
  pollfd answer{.fd = rank.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&answer, 1, test_deadline().poll_timeout_ms()), 1);
  return rank;
}

TEST(store_trust, ranks_that_do_not_read_are_disconnected_beyond_the_limit_of_unread_bytes) {
  const test_store store({.max_message_bytes = 8 * mebibyte,
                          .max_unread_bytes = 20 * mebibyte,
                          .unread_timeout = 50ms});
  auto first = rank_with_long_answer(store, "first");
  auto second = rank_with_long_answer(store, "second");
  const auto slow = deadline::after(500ms);
  while (!slow.expired()) ::poll(nullptr, 0, slow.poll_timeout_ms());
  EXPECT_EQ((*store).statistics().refused, 0U);
  auto third = rank_with_long_answer(store, "third");
  const auto until = test_deadline();
  while ((*store).statistics().refused == 0) ASSERT_FALSE(until.expired());
  EXPECT_EQ(first.receive(test_deadline()).error().code(), ECONNRESET);
  EXPECT_TRUE(second.receive(test_deadline()));
  EXPECT_TRUE(third.receive(test_deadline()));
  EXPECT_EQ((*store).statistics().refused, 1U);
}

TEST(store_trust, ranks_with_the_most_unread_bytes_are_disconnected_first) {
  const test_store store({.max_message_bytes = 16 * mebibyte,
                          .max_unread_bytes = 26 * mebibyte,
                          .unread_timeout = 50ms});
  auto first = rank_with_long_answer(store, "first");
  auto second = rank_with_long_answer(store, "second", 16 * mebibyte);
  const auto slow = deadline::after(500ms);
  while (!slow.expired()) ::poll(nullptr, 0, slow.poll_timeout_ms());
  auto third = rank_with_long_answer(store, "third");
  const auto until = test_deadline();
  while ((*store).statistics().refused == 0) ASSERT_FALSE(until.expired());
  EXPECT_TRUE(first.receive(test_deadline()));
  EXPECT_EQ(second.receive(test_deadline()).error().code(), ECONNRESET);
  EXPECT_TRUE(third.receive(test_deadline()));
  EXPECT_EQ((*store).statistics().refused, 1U);
}

/// The lines of the log while it exists.
class log_lines {
 public:
  log_lines() {
    set_log_hook(
        [](log_level /*level*/, std::string_view line, void* user) {
          auto& self = *static_cast<log_lines*>(user);
          const std::lock_guard lock(self.mutex_);
          self.text_ += std::string(line) + "\n";
        },
        this, log_level::info);
  }
  log_lines(const log_lines&) = delete;
  log_lines& operator=(const log_lines&) = delete;
  ~log_lines() { set_log_hook(nullptr); }
  /// Waits for a line with this text, and returns all lines.
  [[nodiscard]] std::string await(std::string_view words) const {
    const auto until = test_deadline();
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (text_.find(words) != std::string::npos || until.expired()) return text_;
      }
      std::this_thread::yield();
    }
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

TEST(store_log, of_closed_connections_names_the_rank_and_no_other_version) {
  const log_lines log;
  const test_store store;
  {
    const auto stranger = bringup::stream::connect(store.address(), test_deadline()).value();
  }
  {
    const auto idle = connect_client(store.member(0, 3));
  }
  {
    auto waits = bringup::stream::connect(store.address(), test_deadline()).value();
    waits
        .send(encode(net::detail::store_hello{.rank = 1, .size = 3, .name = "test"}),
              test_deadline())
        .value();
    waits.receive(test_deadline()).value();
    const std::span<const std::byte> part;
    waits
        .send(net::detail::encode_agreement(
                  {.number = 1, .timeout_ms = 60'000, .awaited = {2}, .name = "shrink"},
                  std::span(&part, 1)),
              test_deadline())
        .value();
  }
  EXPECT_NE(log.await("before it had joined").find("before it had joined"), std::string::npos);
  EXPECT_NE(log.await("rank 0 of").find("rank 0 of group \"test\", closed the connection"),
            std::string::npos);
  const auto text = log.await("rank 1 of");
  EXPECT_NE(text.find("rank 1 of group \"test\", closed the connection"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("one version of the library"), std::string::npos) << text;
}

}  // namespace
}  // namespace verbena::test
