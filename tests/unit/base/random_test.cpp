// SPDX-License-Identifier: MIT
#include "verbena/base/random.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

namespace verbena {
namespace {

using numbers = std::array<std::uint64_t, 200>;

numbers draw() {
  numbers drawn{};
  for (std::uint64_t& each : drawn) each = random_u64();
  return drawn;
}

// Returns what `work` returns in a child that `make_child` has made.
numbers numbers_of_child(const std::function<pid_t()>& make_child,
                         const std::function<numbers()>& work) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t child = make_child();
  if (child == 0) {
    const numbers drawn = work();
    _exit(write(ends[1], drawn.data(), sizeof drawn) == sizeof drawn ? 0 : 1);
  }
  numbers result{};
  EXPECT_EQ(read(ends[0], result.data(), sizeof result), static_cast<ssize_t>(sizeof result));
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(ends[0]);
  close(ends[1]);
  return result;
}

// The numbers as halves, because bytes may be used again in another position.
std::set<std::uint32_t> halves_of(const std::vector<numbers>& all) {
  std::set<std::uint32_t> halves;
  for (const numbers& each : all)
    for (const std::uint64_t number : each)
      halves.insert(
          {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32U)});
  return halves;
}

// 2400 random halves contain an equal pair with a probability of 1 in 1500, two pairs of 1 in 4
// million. Bytes that are used twice cause many.
void expect_distinct(const std::vector<numbers>& all) {
  EXPECT_GE(halves_of(all).size() + 1, all.size() * std::tuple_size_v<numbers> * 2);
}

TEST(random_numbers, child_of_fork_draws_other_numbers_than_its_parent) {
  for (int offset = 0; offset < 4; ++offset) {
    static_cast<void>(random_u32());  // the stock is in use, each time by another number of bytes
    const numbers before = draw();
    const numbers in_child = numbers_of_child(fork, draw);
    const numbers in_raw_child = numbers_of_child(
        [] { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }, draw);
    const numbers in_grandchild = numbers_of_child(fork, [] {
      static_cast<void>(random_u32());
      return numbers_of_child(fork, draw);
    });
    expect_distinct({before, in_child, in_raw_child, in_grandchild, draw()});
  }
}

TEST(random_numbers, child_made_while_other_threads_draw_has_its_own_numbers) {
  std::array<numbers, 2> drawn{};
  std::array<std::thread, 2> threads;
  std::atomic<bool> stop{false};
  for (std::size_t i = 0; i < threads.size(); ++i)
    threads[i] = std::thread([&, i] {
      do {
        drawn[i] = draw();
      } while (!stop);
    });
  for (int i = 0; i < 50; ++i) {
    const numbers in_child = numbers_of_child(fork, draw);
    expect_distinct({in_child, draw()});
  }
  stop = true;
  for (auto& each : threads) each.join();
  expect_distinct({drawn[0], drawn[1], draw()});
}

TEST(random_numbers, threads_never_draw_the_same_number) {
  std::vector<numbers> drawn(6);
  {
    std::vector<std::jthread> threads;
    threads.reserve(drawn.size());
    for (numbers& each : drawn) threads.emplace_back([&each] { each = draw(); });
  }
  expect_distinct(drawn);
}

TEST(random_numbers, numbers_do_not_repeat) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_u64());
  EXPECT_EQ(seen.size(), 1000U) << "the probability of a repetition among 1000 is 3 in 10^14";
}

TEST(random_numbers, every_bit_takes_both_values) {
  std::uint32_t ones = 0;
  std::uint32_t zeros = 0;
  for (int i = 0; i < 200; ++i) {
    const std::uint32_t number = random_u32();
    ones |= number;
    zeros |= ~number;
  }
  EXPECT_EQ(ones, ~0U);
  EXPECT_EQ(zeros, ~0U);
}

TEST(random_numbers, fill_reaches_every_byte_of_long_spans) {
  // Longer than the most bytes that one call of getrandom(2) returns.
  std::vector<std::byte> bytes(100'000);
  std::vector<bool> changed(bytes.size());
  for (int round = 0; round < 8; ++round) {
    fill_random(bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] != std::byte{0}) changed[i] = true;
  }
  EXPECT_TRUE(std::all_of(changed.begin(), changed.end(), [](bool is) { return is; }));
  fill_random({});
}

}  // namespace
}  // namespace verbena
