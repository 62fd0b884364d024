// SPDX-License-Identifier: MIT
// Failures while a process begins to share the port.
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/unit/softdev/wire/socket/wired_host.hpp"

namespace verbena::softdev::wire {
namespace {

using role = port_share::role;

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
    std::thread impatient([&] {
      use_one_processor();
      while (!mine.path.open() && !shares) {
      }
    });
    std::thread patient([&] {
      use_one_processor();
      time_ns now = 1;
      while (mine.path.open_sockets().value() != role::client) {
        owner.serve(now += 1'000'000'000);
        if (mine.path.open_sockets().value() == role::client) break;
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
