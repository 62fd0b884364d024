// SPDX-License-Identifier: MIT
#include "softdev/core/access_epoch.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace verbena::softdev {
namespace {

TEST(access_epoch, synchronize_waits_for_a_reader_that_is_inside) {
  access_epoch epoch;
  std::atomic<bool> is_inside = false;
  std::atomic<bool> may_leave = false;
  std::atomic<bool> has_left = false;
  std::thread reader([&] {
    const access_epoch::guard outer(epoch);
    const access_epoch::guard nested(epoch);
    is_inside = true;
    while (!may_leave) std::this_thread::yield();
    has_left = true;
  });
  while (!is_inside) std::this_thread::yield();
  std::thread releaser([&] {
    // lint: allow(sleep): gives a synchronize() that does not wait the time to return
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    may_leave = true;
  });
  epoch.synchronize();
  EXPECT_TRUE(has_left) << "synchronize() returned while a reader was inside";
  reader.join();
  releaser.join();
}

TEST(access_epoch, synchronize_does_not_wait_for_readers_that_enter_later) {
  access_epoch epoch;
  std::atomic<bool> stop = false;
  std::array<std::thread, 2> readers;
  // Two readers, of which one is inside at each moment.
  for (auto& reader : readers)
    reader = std::thread([&] {
      while (!stop) const access_epoch::guard inside(epoch);
    });
  for (int round = 0; round < 1000; ++round) epoch.synchronize();
  stop = true;
  for (auto& reader : readers) reader.join();
}

// Readers follow a pointer; the writer withdraws it, synchronizes and destroys the object. More
// threads than there are exclusive lanes, so that some of them share a counter.
TEST(access_epoch, object_is_destroyed_after_its_last_reader) {
  constexpr std::size_t reader_count = access_epoch::exclusive_lanes + 16;
  constexpr std::chrono::milliseconds duration(300);
  constexpr std::uint64_t alive = 0x1234'5678'9abc'def0;
  access_epoch epoch;
  std::array<std::atomic<std::uint64_t>, 2> objects{alive, alive};
  std::atomic<std::atomic<std::uint64_t>*> published = objects.data();
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> found_destroyed = 0;
  std::vector<std::thread> readers;
  readers.reserve(reader_count);
  for (std::size_t each = 0; each < reader_count; ++each)
    readers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        for (int i = 0; i < 100; ++i) {
          const access_epoch::guard inside(epoch);
          if (published.load()->load(std::memory_order_relaxed) != alive) ++found_destroyed;
        }
        std::this_thread::yield();
      }
    });
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    auto& old = *published.load();
    auto& next = &old == objects.data() ? objects[1] : objects[0];
    next.store(alive, std::memory_order_relaxed);
    published.store(&next);
    epoch.synchronize();
    old.store(0, std::memory_order_relaxed);  // destroyed
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(found_destroyed, 0U);
}

// The writer's thread is the only one with a lane of its own until the reader takes one.
TEST(access_epoch, thread_that_begins_during_synchronize_finds_no_destroyed_object) {
  constexpr std::uint64_t alive = 0x1234'5678'9abc'def0;
  access_epoch epoch;
  std::array<std::atomic<std::uint64_t>, 2> objects{alive, alive};
  std::atomic<std::atomic<std::uint64_t>*> published = objects.data();
  std::atomic<std::uint64_t> found_destroyed = 0;
  for (int round = 0; round < 2000; ++round) {
    std::atomic<bool> go = false;
    std::thread reader([&] {
      while (!go.load(std::memory_order_relaxed)) std::this_thread::yield();
      const access_epoch::guard inside(epoch);
      if (published.load()->load(std::memory_order_relaxed) != alive) ++found_destroyed;
    });
    auto& old = *published.load();
    auto& next = &old == objects.data() ? objects[1] : objects[0];
    next.store(alive, std::memory_order_relaxed);
    go.store(true, std::memory_order_relaxed);
    published.store(&next);
    epoch.synchronize();
    old.store(0, std::memory_order_relaxed);  // destroyed
    reader.join();
  }
  EXPECT_EQ(found_destroyed, 0U);
}

TEST(access_epoch, works_in_threads_that_follow_others_and_in_a_child_of_fork) {
  access_epoch epoch;
  for (std::size_t each = 0; each < 3 * access_epoch::exclusive_lanes; ++each)
    std::thread([&] { const access_epoch::guard inside(epoch); }).join();
  epoch.synchronize();
  const pid_t child = ::fork();
  if (child == 0) {
    {
      const access_epoch::guard inside(epoch);
    }
    epoch.synchronize();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace verbena::softdev
