// SPDX-License-Identifier: MIT
// Host names whose name server does not answer. This file replaces getaddrinfo(3).
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "src/bringup/socket.hpp"
#include "tests/unit/bringup/peers.hpp"

namespace {

/// A name server. Threads: thread-safe.
struct silent_name_server {
  static constexpr std::string_view domain = ".silent.invalid";

  std::mutex mutex;
  std::condition_variable changed;
  int asked = 0;
  int waiting = 0;
  bool answers = true;

  void ask() {
    std::unique_lock lock(mutex);
    ++asked;
    ++waiting;
    changed.notify_all();
    changed.wait(lock, [this] { return answers; });
    --waiting;
    changed.notify_all();
  }
  void set(bool is_answering) {
    const std::lock_guard lock(mutex);
    answers = is_answering;
    changed.notify_all();
  }
  void wait_for(int number) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return waiting == number; });
  }
};

silent_name_server& server() {
  static silent_name_server one;
  return one;
}

}  // namespace

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** list) {
  using function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool is_numeric = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (node != nullptr && !is_numeric && std::string_view(node).ends_with(server().domain)) {
    server().ask();
    return EAI_NONAME;
  }
  return real(node, service, hints, list);
}

namespace {

using namespace std::chrono_literals;
using namespace verbena;
using bringup::detail::resolve;
using bringup::detail::resolve_for;
using testing::HasSubstr;

constexpr int most_threads = 32;

auto resolve_name(const char* host, deadline until) {
  return resolve({.host = host, .port = 1}, resolve_for::connecting, until).wait();
}

TEST(resolve, threads_are_limited_if_the_name_server_does_not_answer) {
  server().set(false);
  std::vector<std::thread> callers;
  for (int i = 0; i < most_threads; ++i)
    callers.emplace_back([] {
      const auto found = resolve_name("first.silent.invalid", deadline::never());
      EXPECT_EQ(found.error().code(), EHOSTUNREACH);
    });
  server().wait_for(most_threads);
  for (int i = 0; i < 10; ++i) {
    const auto given_up = resolve_name("later.silent.invalid", deadline::after(1ms));
    ASSERT_FALSE(given_up);
    EXPECT_EQ(given_up.error().kind(), error_kind::timed_out);
    EXPECT_THAT(given_up.error().message(), HasSubstr("resolves 32 other host names"));
    EXPECT_THAT(given_up.error().message(), HasSubstr("later.silent.invalid"));
  }
  EXPECT_EQ(server().asked, most_threads);
  server().set(true);
  for (auto& each : callers) each.join();
  // No caller waits for the later names, so they are not resolved.
  EXPECT_EQ(resolve_name("last.silent.invalid", peers::soon()).error().code(), EHOSTUNREACH);
  EXPECT_EQ(server().asked, most_threads + 1);
}

}  // namespace
