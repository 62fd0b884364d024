// SPDX-License-Identifier: MIT
// Random calls of the C interface with an oracle (random_caller.hpp). The calls of one thread
// depend on the seed only:
//   VERBENA_TEST_SEED=SEED softdev_calls_test
//   --gtest_filter=random_calls.of_one_thread_keep_the_promises
#include <fcntl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/calls/random_caller.hpp"

namespace verbena::softdev::testing {
namespace {

std::uint32_t seed_of_run() {
  const char* const chosen = std::getenv("VERBENA_TEST_SEED");
  return chosen != nullptr ? static_cast<std::uint32_t>(std::strtoul(chosen, nullptr, 10))
                           : test::campaign_seed(7);
}

void call_at_random(int threads, std::uint64_t calls) {
  const std::uint32_t seed = seed_of_run();
  SCOPED_TRACE("VERBENA_TEST_SEED=" + std::to_string(seed));
  const auto begin = std::chrono::steady_clock::now();
  shared_ground ground;
  opened_device device(1 << 17);
  ground.context = device.context;
  ground.pd = device.pd;
  ground.cq = device.cq;
  ASSERT_EQ(::fcntl(device.context->async_fd, F_SETFL,
                    ::fcntl(device.context->async_fd, F_GETFL) | O_NONBLOCK),
            0);
  std::vector<std::unique_ptr<random_caller>> callers;
  callers.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i)
    callers.push_back(std::make_unique<random_caller>(
        ground, std::uint64_t{seed} << 32U | static_cast<std::uint32_t>(i)));
  std::vector<std::thread> running;
  running.reserve(callers.size());
  for (const auto& each : callers)
    running.emplace_back([&ground, calls, caller = each.get()] {
      while (ground.calls < calls && !ground.failed) caller->step();
    });
  for (std::thread& each : running) each.join();
  for (const auto& each : callers) each->finish();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto requests = ground.ledger.count();
  std::printf(
      "%llu calls of %d threads in %.1f s, %llu refused; %llu completions, %llu successes\n",
      static_cast<unsigned long long>(ground.calls), threads, took.count(),
      static_cast<unsigned long long>(ground.refused),
      static_cast<unsigned long long>(requests.completed),
      static_cast<unsigned long long>(requests.succeeded));
}

TEST(random_calls, of_one_thread_keep_the_promises) {
  call_at_random(1, static_cast<std::uint64_t>(test::campaign_size(20'000, 500'000)));
}

TEST(random_calls, of_four_threads_keep_the_promises) {
  call_at_random(4, static_cast<std::uint64_t>(test::campaign_size(60'000, 2'500'000)));
}

}  // namespace
}  // namespace verbena::softdev::testing
