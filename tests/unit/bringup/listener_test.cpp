// SPDX-License-Identifier: MIT
#include "verbena/bringup/listener.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <netdb.h>
#include <poll.h>

#include <cerrno>
#include <mutex>
#include <string>

#include "tests/unit/bringup/peers.hpp"
#include "verbena/base/log.hpp"

namespace {

using namespace peers;
using testing::HasSubstr;
using verbena::error_kind;

constexpr auto no_wait = std::chrono::nanoseconds(0);

/// Collects what the library logs while it lives.
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

/// A proper client connects, is accepted and served, whatever else is going on.
void expect_service(bringup::listener& listening) {
  auto client = verbena::result<bringup::stream>(verbena::error({}));
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

/// Lets the listener look at what has arrived until `done`.
template <class Done>
void look_until(bringup::listener& listening, Done done) {
  const auto limit = soon();
  while (!done() && !limit.expired()) {
    const auto nobody = listening.accept(deadline::after(1ms));
    EXPECT_FALSE(nobody);
  }
  EXPECT_TRUE(done());
}

TEST(listener, takes_a_free_port_and_says_which) {
  const auto listening = listen();
  EXPECT_NE(listening.port(), 0);
  EXPECT_EQ(listening.local_address().host, "127.0.0.1");
}

TEST(listener, serves_ipv6) {
  auto six = bringup::listener::open({.host = "::1"});
  if (six) return expect_service(*six);
  EXPECT_THAT(six.error().message(), HasSubstr("::1"));  // a machine without IPv6 says so
}

TEST(listener, serves_names) {
  // A machine without /etc/hosts does not know itself; then the error names what is unknown.
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
  expect_service(named);
  auto client = verbena::result<bringup::stream>(verbena::error({}));
  std::thread connecting([&] {
    client = bringup::stream::connect({.host = "localhost", .port = named.port()}, soon());
  });
  EXPECT_TRUE(named.accept(soon()));
  connecting.join();
  EXPECT_TRUE(client);
}

TEST(listener, on_all_addresses_names_ipv4_peers_as_such) {
  auto listening = bringup::listener::open({}).value();
  const auto raw = raw_connection(listening.port());
  say(raw, bringup::encode_greeting(bringup::spoken_versions));
  EXPECT_THAT(listening.accept(soon()).value().peer(), HasSubstr("127.0.0.1:"));
}

TEST(listener, names_a_port_that_is_taken) {
  const auto first = listen();
  const auto second = bringup::listener::open(first.local_address());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), EADDRINUSE);
  EXPECT_THAT(second.error().message(), HasSubstr("another program listens there"));
}

TEST(listener, names_an_address_that_this_machine_does_not_have) {
  const auto made = bringup::listener::open({.host = "192.0.2.1"});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), EADDRNOTAVAIL);
}

TEST(listener, reports_that_nobody_came) {
  auto listening = listen();
  const auto nobody = listening.accept(deadline::after(no_wait));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().kind(), error_kind::timed_out);
}

TEST(listener, closes_garbage_names_it_and_goes_on) {
  log_recorder logged;
  auto listening = listen();
  const auto raw = raw_connection(listening.port());
  say(raw, verbena::bytes_of("GET / HTTP/1.1\r\n"));
  look_until(listening, [&] { return listening.statistics().garbage == 1; });
  EXPECT_THAT(logged.text(), HasSubstr("does not speak Verbena's bring-up"));
  EXPECT_TRUE(hear_everything(raw).empty());  // and closed
  expect_service(listening);
}

TEST(listener, tells_a_peer_of_another_version_which_it_speaks) {
  log_recorder logged;
  auto listening = listen();
  const auto raw = raw_connection(listening.port());
  say(raw, bringup::encode_greeting({.lowest = 7, .highest = 8}));
  look_until(listening, [&] { return listening.statistics().wrong_version == 1; });
  const auto ours = bringup::encode_greeting(bringup::spoken_versions);
  EXPECT_EQ(hear_everything(raw), std::vector(ours.begin(), ours.end()));
  EXPECT_THAT(logged.text(), HasSubstr("version 7 to 8"));
  expect_service(listening);
}

TEST(listener, is_not_held_up_by_slow_peers) {
  auto listening = listen({.greeting_timeout = 1h});
  const auto whole = bringup::encode_greeting({});
  std::vector<verbena::unique_fd> slow;
  for (int i = 0; i < 10; ++i) {
    slow.push_back(raw_connection(listening.port()));
    say(slow.back(), std::span(whole).first(7));
  }
  expect_service(listening);
  // Slow is not wrong: who completes the greeting in time is served.
  say(slow.front(), std::span(whole).subspan(7));
  EXPECT_TRUE(listening.accept(soon()));
}

TEST(listener, closes_peers_that_do_not_greet_in_time) {
  auto listening = listen({.greeting_timeout = 1ms});
  const auto silent = raw_connection(listening.port());
  look_until(listening, [&] { return listening.statistics().slow == 1; });
  EXPECT_TRUE(hear_everything(silent).empty());
}

TEST(listener, displaces_the_oldest_slow_peer_when_its_room_is_used_up) {
  auto listening = listen({.greeting_timeout = 1h, .max_greeting = 3});
  std::vector<verbena::unique_fd> slow;
  slow.reserve(8);
  for (int i = 0; i < 8; ++i) slow.push_back(raw_connection(listening.port()));
  look_until(listening, [&] { return listening.statistics().slow == 5; });
  EXPECT_TRUE(hear_everything(slow.front()).empty());
  expect_service(listening);
}

TEST(listener, never_displaces_a_peer_that_greeted) {
  auto listening = listen({.greeting_timeout = 1h, .max_greeting = 2});
  std::vector<verbena::unique_fd> good;
  for (int i = 0; i < 9; ++i) {
    good.push_back(raw_connection(listening.port()));
    say(good.back(), bringup::encode_greeting({}));
  }
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(listening.accept(soon()));
  EXPECT_EQ(listening.statistics().accepted, 9U);
  EXPECT_EQ(listening.statistics().slow, 0U);
}

TEST(listener, forgets_peers_that_go_away) {
  auto listening = listen();
  raw_connection(listening.port()).reset();
  look_until(listening, [&] { return listening.statistics().closed == 1; });
  expect_service(listening);
}

TEST(listener, becomes_readable_when_a_peer_comes) {
  auto listening = listen();
  EXPECT_FALSE(verbena::wait_for_fd(listening.fd(), POLLIN, deadline::after(no_wait)).value());
  const auto raw = raw_connection(listening.port());
  EXPECT_TRUE(verbena::wait_for_fd(listening.fd(), POLLIN, soon()).value());
}

TEST(listener_death, needs_room_for_a_greeting) {
  EXPECT_DEATH(static_cast<void>(bringup::listener::open({}, {.max_greeting = 0})),
               "room for at least one greeting");
}

}  // namespace
