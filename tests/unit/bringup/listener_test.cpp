// SPDX-License-Identifier: MIT
#include "verbena/bringup/listener.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <mutex>
#include <string>
#include <utility>

#include "tests/unit/bringup/peers.hpp"
#include "verbena/base/log.hpp"

namespace {

using namespace peers;
using testing::HasSubstr;
using verbena::error_kind;

constexpr auto no_wait = std::chrono::nanoseconds(0);

/// Records the log messages of the library during its lifetime.
class log_recorder {
 public:
  log_recorder() { verbena::set_log_hook(&record, this); }
  ~log_recorder() { verbena::set_log_hook(nullptr); }
  log_recorder(const log_recorder&) = delete;
  log_recorder& operator=(const log_recorder&) = delete;
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  static void record(verbena::log_level, std::string_view line, void* user) {
    auto& self = *static_cast<log_recorder*>(user);
    const std::lock_guard lock(self.mutex_);
    self.text_.append(line).append("\n");
  }
  std::mutex mutex_;
  std::string text_;
};

/// Expects that a valid client can connect and is served.
void expect_client_is_served(bringup::listener& listening) {
  auto client =
      verbena::result<bringup::stream>(verbena::error(verbena::error_kind::os, 0, "not connected"));
  std::thread connecting([&] {
    client = bringup::stream::connect(listening.local_address(), soon());
    if (client) static_cast<void>(client->send(bytes_from("hello"), soon()));
  });
  auto served = listening.accept(soon());
  connecting.join();
  ASSERT_TRUE(served) << served.error().message();
  ASSERT_TRUE(client) << client.error().message();
  EXPECT_EQ(served->receive(soon()).value(), bytes_from("hello"));
}

/// Polls the listener until `done()` returns true.
template <class Done>
void poll_until(bringup::listener& listening, Done done) {
  const auto limit = soon();
  while (!done() && !limit.expired()) {
    const auto nobody = listening.accept(deadline::after(1ms));
    EXPECT_FALSE(nobody);
  }
  EXPECT_TRUE(done());
}

TEST(listener, port_0_selects_a_free_port) {
  const auto listening = listen();
  EXPECT_NE(listening.port(), 0);
  EXPECT_EQ(listening.local_address().host, "127.0.0.1");
}

// parity: rrddmma-110
TEST(listener, ipv6_peer_is_accepted) {
  auto six = bringup::listener::open({.host = "::1"});
  if (six) return expect_client_is_served(*six);
  EXPECT_THAT(six.error().message(),
              HasSubstr("::1"));  // on a host without IPv6 the error names the address
}

// parity: rrddmma-110
TEST(listener, host_name_is_resolved) {
  // On a host without /etc/hosts, `localhost` is unknown and the error names it.
  addrinfo* found = nullptr;
  const bool known = ::getaddrinfo("localhost", nullptr, nullptr, &found) == 0;
  if (known) ::freeaddrinfo(found);
  auto opened = bringup::listener::open({.host = "localhost"});
  ASSERT_EQ(opened.has_value(), known);
  if (!known) {
    EXPECT_THAT(opened.error().message(), HasSubstr("localhost"));
    return;
  }
  auto named = std::move(opened).value();
  expect_client_is_served(named);
  auto client =
      verbena::result<bringup::stream>(verbena::error(verbena::error_kind::os, 0, "not connected"));
  std::thread connecting([&] {
    client = bringup::stream::connect({.host = "localhost", .port = named.port()}, soon());
  });
  EXPECT_TRUE(named.accept(soon()));
  connecting.join();
  EXPECT_TRUE(client);
}

TEST(listener, wildcard_address_shows_ipv4_peers_as_ipv4) {
  auto listening = bringup::listener::open({}).value();
  const auto raw = raw_connection(listening.port());
  send_bytes(raw, bringup::encode_greeting(bringup::supported_versions));
  EXPECT_THAT(listening.accept(soon()).value().peer(), HasSubstr("127.0.0.1:"));
}

TEST(listener, port_in_use_returns_eaddrinuse) {
  const auto first = listen();
  const auto second = bringup::listener::open(first.local_address());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), EADDRINUSE);
  EXPECT_THAT(second.error().message(), HasSubstr("another process uses this port"));
}

TEST(listener, foreign_address_returns_eaddrnotavail) {
  const auto made = bringup::listener::open({.host = "192.0.2.1"});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), EADDRNOTAVAIL);
}

TEST(listener, accept_without_a_peer_times_out) {
  auto listening = listen();
  const auto nobody = listening.accept(deadline::after(no_wait));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().kind(), error_kind::timed_out);
  EXPECT_THAT(nobody.error().message(), HasSubstr(to_string(listening.local_address())));
  EXPECT_THAT(nobody.error().message(), HasSubstr("check that the peer connects to"));
}

TEST(listener, garbage_is_closed_and_logged) {
  log_recorder logged;
  auto listening = listen();
  const auto raw = raw_connection(listening.port());
  send_bytes(raw, verbena::bytes_of("GET / HTTP/1.1\r\n"));
  poll_until(listening, [&] { return listening.statistics().garbage == 1; });
  EXPECT_THAT(logged.text(), HasSubstr("does not use Verbena's connection setup protocol"));
  EXPECT_TRUE(read_until_closed(raw).empty());
  expect_client_is_served(listening);
}

TEST(listener, peer_of_another_version_gets_the_greeting) {
  log_recorder logged;
  auto listening = listen();
  const auto raw = raw_connection(listening.port());
  send_bytes(raw, bringup::encode_greeting({.lowest = 7, .highest = 8}));
  poll_until(listening, [&] { return listening.statistics().wrong_version == 1; });
  const auto ours = bringup::encode_greeting(bringup::supported_versions);
  EXPECT_EQ(read_until_closed(raw), std::vector(ours.begin(), ours.end()));
  EXPECT_THAT(logged.text(), HasSubstr("version 7 to 8"));
  expect_client_is_served(listening);
}

TEST(listener, slow_peers_do_not_delay_others) {
  auto listening = listen({.greeting_timeout = 1h});
  const auto whole = bringup::encode_greeting({});
  std::vector<verbena::unique_fd> slow;
  for (int i = 0; i < 10; ++i) {
    slow.push_back(raw_connection(listening.port()));
    send_bytes(slow.back(), std::span(whole).first(7));
  }
  expect_client_is_served(listening);
  // A slow peer that completes its greeting before the timeout is accepted.
  send_bytes(slow.front(), std::span(whole).subspan(7));
  EXPECT_TRUE(listening.accept(soon()));
}

TEST(listener, silent_peer_is_closed_after_the_timeout) {
  auto listening = listen({.greeting_timeout = 1ms});
  const auto silent = raw_connection(listening.port());
  poll_until(listening, [&] { return listening.statistics().slow == 1; });
  EXPECT_TRUE(read_until_closed(silent).empty());
}

TEST(listener, new_connection_replaces_the_oldest_slow_peer) {
  auto listening = listen({.greeting_timeout = 1h, .max_greeting = 3, .min_greeting_time = 0s});
  std::vector<verbena::unique_fd> slow;
  slow.reserve(8);
  for (int i = 0; i < 8; ++i) slow.push_back(raw_connection(listening.port()));
  poll_until(listening, [&] { return listening.statistics().slow == 5; });
  EXPECT_TRUE(read_until_closed(slow.front()).empty());
  expect_client_is_served(listening);
}

TEST(listener, burst_of_connections_that_greet_later_is_accepted) {
  auto listening = listen({.greeting_timeout = 1h, .max_greeting = 3, .min_greeting_time = 1h});
  std::vector<verbena::unique_fd> clients;
  clients.reserve(8);
  for (int i = 0; i < 8; ++i) clients.push_back(raw_connection(listening.port()));
  // Those in the backlog do not keep the descriptor readable: the caller can sleep.
  poll_until(listening, [&] {
    return !verbena::wait_for_fd(listening.fd(), POLLIN, deadline::after(no_wait)).value();
  });
  for (const auto& each : clients) send_bytes(each, bringup::encode_greeting({}));
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(listening.accept(soon())) << i;
  EXPECT_EQ(listening.statistics().slow, 0U);
}

// Connections beyond the backlog are never established here, because none is accepted.
TEST(listener, many_connections_are_established_before_they_are_accepted) {
  std::ifstream setting("/proc/sys/net/core/somaxconn");
  std::size_t limit = 0;
  ASSERT_TRUE(setting >> limit);
  const std::size_t count = std::min<std::size_t>(limit, 400);
  auto listening = listen({});
  std::vector<verbena::unique_fd> clients;
  clients.reserve(count);
  while (clients.size() < count) clients.push_back(raw_connection(listening.port()));
  send_bytes(clients.back(), bringup::encode_greeting({}));
  clients.erase(clients.begin(), clients.end() - 1);
  EXPECT_TRUE(listening.accept(soon()));
}

// A child of fork has copies of the sockets, so closing them here does not close the connections.
TEST(listener, closed_connection_that_a_child_process_holds_does_not_wake_the_listener) {
  auto listening = listen({.greeting_timeout = 1ms});
  const auto slow = raw_connection(listening.port());
  EXPECT_FALSE(listening.accept(deadline::after(no_wait)));
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  poll_until(listening, [&] { return listening.statistics().slow == 1; });
  send_bytes(slow, bytes_from("x"));
  poll_until(listening, [&] {
    return !verbena::wait_for_fd(listening.fd(), POLLIN, deadline::after(no_wait)).value();
  });
  EXPECT_FALSE(verbena::wait_for_fd(listening.fd(), POLLIN, deadline::after(20ms)).value());
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(listener, slow_peer_is_replaced_after_its_time) {
  auto listening = listen({.greeting_timeout = 1h, .max_greeting = 1, .min_greeting_time = 20ms});
  const auto slow = raw_connection(listening.port());
  const auto next = raw_connection(listening.port());
  EXPECT_FALSE(listening.accept(deadline::after(no_wait)));
  EXPECT_TRUE(verbena::wait_for_fd(listening.fd(), POLLIN, soon()).value());
  poll_until(listening, [&] { return listening.statistics().slow == 1; });
  EXPECT_TRUE(read_until_closed(slow).empty());
  send_bytes(next, bringup::encode_greeting({}));
  EXPECT_TRUE(listening.accept(soon()));
}

TEST(listener, peer_with_a_complete_greeting_is_not_replaced) {
  auto listening = listen({.greeting_timeout = 1h, .max_greeting = 2});
  std::vector<verbena::unique_fd> good;
  for (int i = 0; i < 9; ++i) {
    good.push_back(raw_connection(listening.port()));
    send_bytes(good.back(), bringup::encode_greeting({}));
  }
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(listening.accept(soon()));
  EXPECT_EQ(listening.statistics().accepted, 9U);
  EXPECT_EQ(listening.statistics().slow, 0U);
}

TEST(listener, peer_that_disconnects_is_counted) {
  auto listening = listen();
  raw_connection(listening.port()).reset();
  poll_until(listening, [&] { return listening.statistics().closed == 1; });
  expect_client_is_served(listening);
}

TEST(listener, fd_is_readable_after_a_connection) {
  auto listening = listen();
  EXPECT_FALSE(verbena::wait_for_fd(listening.fd(), POLLIN, deadline::after(no_wait)).value());
  const auto raw = raw_connection(listening.port());
  EXPECT_TRUE(verbena::wait_for_fd(listening.fd(), POLLIN, soon()).value());
}

TEST(listener, fd_stays_readable_until_each_greeted_peer_is_accepted) {
  auto listening = listen();
  std::vector<verbena::unique_fd> greeted;
  for (int i = 0; i < 3; ++i) {
    greeted.push_back(raw_connection(listening.port()));
    send_bytes(greeted.back(), bringup::encode_greeting({}));
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(verbena::wait_for_fd(listening.fd(), POLLIN, soon()).value()) << i;
    EXPECT_TRUE(listening.accept(soon())) << i;
  }
  EXPECT_FALSE(verbena::wait_for_fd(listening.fd(), POLLIN, deadline::after(no_wait)).value());
}

TEST(listener, without_free_descriptors_existing_peers_are_served_and_time_out) {
  auto listening = listen({.greeting_timeout = 500ms});
  const auto greeting = bringup::encode_greeting(bringup::supported_versions);
  const std::array silent = {raw_connection(listening.port()), raw_connection(listening.port())};
  const std::array greeted = {raw_connection(listening.port()), raw_connection(listening.port())};
  for (const auto& each : greeted) send_bytes(each, greeting);
  const auto first = listening.accept(soon()).value();
  const auto late = raw_connection(listening.port());
  // UBSan needs a free descriptor when it examines the type of an object for the first time.
  EXPECT_FALSE(verbena::error::from_errno(EMFILE, "accept4").message().empty());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  auto limited = before;
  limited.rlim_cur = 0;  // all open descriptors exceed it
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limited), 0);

  EXPECT_TRUE(listening.accept(soon())) << "the second peer has sent its greeting";
  const auto begin = deadline::clock::now();
  const auto limit = soon();
  int failures = 0;
  while (listening.statistics().slow != silent.size() && !limit.expired()) {
    const auto nobody = listening.accept(deadline::after(20ms));
    EXPECT_FALSE(nobody);
    if (!nobody && nobody.error().code() == EMFILE) ++failures;
  }
  EXPECT_EQ(listening.statistics().slow, silent.size());
  EXPECT_GE(failures, 1);
  EXPECT_LE(failures, (deadline::clock::now() - begin) / 100ms + 2) << "a busy loop";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  send_bytes(late, greeting);
  EXPECT_TRUE(listening.accept(soon()));
}

TEST(listener_death, max_greeting_of_0_aborts) {
  EXPECT_DEATH(static_cast<void>(bringup::listener::open({}, {.max_greeting = 0})),
               "max_greeting is 0");
}

TEST(listener, move_transfers_the_socket) {
  auto made = bringup::listener::open({"127.0.0.1", 0}).value();
  const auto port = made.port();
  bringup::listener moved = std::move(made);
  EXPECT_EQ(moved.port(), port);
  moved = bringup::listener::open({"127.0.0.1", 0}).value();
  EXPECT_NE(moved.port(), 0);
  expect_client_is_served(moved);
}

TEST(listener_death, use_of_a_moved_from_listener_stops_the_program) {
  auto made = bringup::listener::open({"127.0.0.1", 0}).value();
  const bringup::listener moved = std::move(made);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): the use is the test
  EXPECT_DEATH(static_cast<void>(made.port()), "a moved-from listener was used");
}

}  // namespace
