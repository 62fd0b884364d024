// SPDX-License-Identifier: MIT
#include "softdev/core/biased_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace verbena::softdev {
namespace {

// More than a thread needs to become the owner, also after several revocations.
constexpr int many_times = 5'000;

void take_often(biased_lock& lock, int times = many_times) {
  for (int i = 0; i < times; ++i) {
    const std::lock_guard held(lock);
  }
}

bool try_in_another_thread(biased_lock& lock) {
  bool taken = false;
  std::thread([&] {
    taken = lock.try_lock();
    if (taken) lock.unlock();
  }).join();
  return taken;
}

TEST(biased_lock, section_of_the_owner_excludes_other_threads) {
  biased_lock lock;
  take_often(lock);
  for (int i = 0; i < 3; ++i) {
    lock.lock();
    EXPECT_FALSE(lock.try_lock()) << "it is not recursive";
    EXPECT_FALSE(try_in_another_thread(lock));
    lock.unlock();
    EXPECT_TRUE(try_in_another_thread(lock));
    take_often(lock);
  }
}

TEST(biased_lock, section_in_which_a_thread_becomes_the_owner_excludes_that_thread) {
  biased_lock lock;
  for (int i = 0; i < many_times; ++i) {
    lock.lock();
    ASSERT_FALSE(lock.try_lock()) << "section " << i;
    lock.unlock();
  }
  EXPECT_TRUE(try_in_another_thread(lock));
  lock.lock();
  EXPECT_FALSE(try_in_another_thread(lock));
  EXPECT_FALSE(lock.try_lock()) << "the ownership was revoked during the section";
  lock.unlock();
}

TEST(biased_lock, section_of_another_thread_excludes_the_owner) {
  biased_lock lock;
  take_often(lock);
  std::thread([&] { lock.lock(); }).join();
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(biased_lock, lock_of_an_ended_owner_can_be_taken) {
  biased_lock lock;
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { take_often(lock); }).join();
    take_often(lock);
  }
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(biased_lock, other_threads_become_owners_in_turn) {
  constexpr int turns = 7;  // of more threads than can be owners: the last ones only take it
  biased_lock lock;
  std::atomic<int> turn = 0;
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;  // that live at the same time, so that they differ
  threads.reserve(turns);
  for (int own = 0; own < turns; ++own) {
    threads.emplace_back([&, own] {
      while (turn != own) std::this_thread::yield();
      take_often(lock, 20'000);
      turn = turns;
      while (!done) std::this_thread::yield();
    });
  }
  int owners = 0;
  for (int next = 1; next <= turns; ++next) {
    while (turn != turns) std::this_thread::yield();
    if (lock.owned_by_other()) ++owners;
    EXPECT_TRUE(lock.try_lock());
    EXPECT_FALSE(try_in_another_thread(lock));
    lock.unlock();
    if (next < turns) turn = next;
  }
  done = true;
  for (std::thread& each : threads) each.join();
  // None without membarrier(2), and with ThreadSanitizer.
  EXPECT_TRUE(owners == 4 || owners == 0) << owners;
}

// One thread becomes the owner of each lock, and another one revokes the ownership meanwhile.
TEST(biased_lock, sections_never_overlap) {
  constexpr int locks = 200;
  constexpr std::uint64_t sections_of_other = 3;
  struct contended {
    biased_lock lock;
    std::uint64_t sections = 0;
    std::atomic<bool> other_begins = false;
    std::atomic<bool> other_done = false;
  };
  std::vector<contended> all(locks);
  std::thread other([&] {
    for (contended& each : all) {
      while (!each.other_begins) std::this_thread::yield();
      for (std::uint64_t i = 0; i < sections_of_other; ++i) {
        const std::lock_guard held(each.lock);
        each.sections = each.sections + 1;
      }
      each.other_done = true;
    }
  });
  int overlaps = 0;
  for (contended& each : all) {
    std::uint64_t own = 0;
    const auto enter = [&] {
      const std::lock_guard held(each.lock);
      each.sections = each.sections + 1;
      ++own;
    };
    for (int i = 0; i < 100; ++i) enter();
    each.other_begins = true;
    while (!each.other_done) enter();
    if (each.sections != own + sections_of_other) ++overlaps;
  }
  other.join();
  EXPECT_EQ(overlaps, 0);
}

}  // namespace
}  // namespace verbena::softdev
