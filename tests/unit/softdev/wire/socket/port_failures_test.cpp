// SPDX-License-Identifier: MIT
// Failures while a process begins to share the port.
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/unit/softdev/descriptor_limit.hpp"
#include "tests/unit/softdev/wire/socket/wired_host.hpp"

namespace verbena::softdev::wire {
namespace {

using role = port_share::role;

TEST(port_failures, owner_without_a_socket_for_sending_gives_up_the_port) {
  const std::uint16_t port = free_port();
  wired_host failed(1, port);
  wired_host next(2, port);
  {
    const descriptor_limit limit(2);  // the listener and the UDP socket of the port
    const auto refused = failed.path.connect(failed.pair(), failed.route_to(next));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), EMFILE);
  }
  EXPECT_EQ(failed.path.role(), role::none);
  const auto opened = next.path.open_sockets();
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ(*opened, role::owner);
  // The first process can try again.
  failed.prepare(failed.pair(), failed.route_to(next));
  EXPECT_EQ(failed.path.role(), role::client);
}

TEST(port_failures, client_without_a_socket_for_sending_gives_up_the_port) {
  const std::uint16_t port = free_port();
  auto owner = std::make_unique<wired_host>(std::uint8_t{1}, port);
  wired_host failed(2, port);
  ASSERT_EQ(owner->path.open_sockets().value(), role::owner);
  ASSERT_EQ(failed.path.open_sockets().value(), role::none);
  ASSERT_TRUE(run_until({owner.get()}, [&] {
    const descriptor_limit limit(1);  // the UDP socket of the owner
    const auto joined = failed.path.open_sockets();
    return !joined && joined.error().code() == EMFILE;
  }));
  EXPECT_EQ(failed.path.role(), role::none);
  owner.reset();
  wired_host next(3, port);
  const auto opened = next.path.open_sockets();
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ(*opened, role::owner);
}

/// Two threads on one processor: a thread that wakes up usually preempts the other one, here
/// between two critical sections of it.
void use_one_processor() {
  cpu_set_t all;
  CPU_ZERO(&all);
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_ZERO(&all);
  CPU_SET(first, &all);
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
}

TEST(port_failures, call_that_gives_up_does_not_end_the_role_of_another_call) {
  for (int round = 0; round < 30; ++round) {
    const std::uint16_t port = free_port();
    port_share owner = port_share::open(port, 5).value();
    ASSERT_EQ(owner.join().value(), role::owner);
    wired_host mine(1, port, {.patience = std::chrono::milliseconds(-1)});
    std::atomic<bool> shares{false};
    // Few calls per turn of the other thread: the owner serves 64 connections per turn.
    std::atomic<int> calls{0};
    std::thread impatient([&] {
      use_one_processor();
      while (!shares)
        if (calls <= 0 || calls.fetch_sub(1) <= 0 || mine.path.open()) std::this_thread::yield();
    });
    std::thread patient([&] {
      use_one_processor();
      time_ns now = 1;
      while (mine.path.open_sockets().value() != role::client) {
        owner.serve(now += 1'000'000'000);
        if (mine.path.open_sockets().value() == role::client) break;
        calls = 16;
        static_cast<void>(::poll(nullptr, 0, 1));
      }
      shares = true;
    });
    patient.join();
    impatient.join();
    EXPECT_EQ(mine.path.role(), role::client) << round;
  }
}

}  // namespace
}  // namespace verbena::softdev::wire
