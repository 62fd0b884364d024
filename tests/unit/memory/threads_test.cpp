// SPDX-License-Identifier: MIT
// Pools, arenas and exported memory that eight threads use at once. Each test run executes this
// program with ThreadSanitizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "src/memory/free_list.hpp"
#include "verbena/memory/buffer_pool.hpp"
#include "verbena/memory/exported_memory.hpp"
#include "verbena/memory/registered_arena.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena {
namespace {

constexpr std::uint32_t thread_count = 8;

/// Runs `work(i)` on eight threads at once.
template <class Work>
void on_threads(Work work) {
  std::vector<std::thread> threads;
  threads.reserve(thread_count);
  for (std::uint32_t i = 0; i < thread_count; ++i) threads.emplace_back([&work, i] { work(i); });
  for (auto& thread : threads) thread.join();
}

// Few numbers and many threads, so that the head changes during operations.
TEST(free_list_threads, each_number_has_one_owner) {
  constexpr std::uint32_t count = 5;
  detail::free_list list(count);
  std::array<std::uint32_t, count> owner{};  // only the owner writes its element
  std::atomic<std::uint32_t> wrong{0};
  on_threads([&](std::uint32_t i) {
    std::mt19937 random(i);
    std::vector<std::uint32_t> mine;
    for (int step = 0; step < 4000; ++step) {
      if (random() % 2 == 0) {
        if (const auto got = list.pop()) {
          owner[*got] = i;
          mine.push_back(*got);
        }
      } else if (!mine.empty()) {
        std::swap(mine[random() % mine.size()], mine.back());
        if (owner[mine.back()] != i) ++wrong;
        list.push(mine.back());
        mine.pop_back();
      }
    }
    for (const auto number : mine) list.push(number);
  });
  EXPECT_EQ(wrong.load(), 0U);
  std::vector<std::uint32_t> all;
  while (const auto got = list.pop()) all.push_back(*got);
  std::ranges::sort(all);
  EXPECT_EQ(all, (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
}

TEST(buffer_pool_threads, each_buffer_has_one_owner) {
  auto pool = std::make_optional(
      buffer_pool::create(open_device("soft0").value().allocate_pd().value(),
                          {.classes = {{.bytes = 64, .count = 6}, {.bytes = 200, .count = 6}}})
          .value());
  std::atomic<std::uint32_t> wrong{0};
  on_threads([&](std::uint32_t i) {
    const buffer_pool own = i % 2 == 0 ? *pool : buffer_pool(*pool);
    std::mt19937 random(i);
    std::vector<buffer> mine;
    const auto full = static_cast<int>(i) + 1;
    const auto untouched = [&](const buffer& of) {
      return std::ranges::all_of(of.bytes(), [&](std::byte b) { return b == std::byte(full); });
    };
    for (int step = 0; step < 2000; ++step) {
      if (random() % 2 == 0) {
        auto got = own.take(random() % 200);
        if (!got) continue;
        std::memset(got->bytes().data(), full, got->capacity());
        mine.push_back(*std::move(got));
      } else if (!mine.empty()) {
        std::swap(mine[random() % mine.size()], mine.back());
        if (!untouched(mine.back())) ++wrong;
        mine.pop_back();
      }
    }
  });
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_EQ(pool->taken(), 0U);
  std::vector<buffer> all;
  while (auto got = pool->take(0)) all.push_back(*std::move(got));
  EXPECT_EQ(all.size(), pool->count());
}

// The last owner frees the pool, on any thread.
TEST(buffer_pool_threads, last_buffer_of_any_thread_destroys_the_pool) {
  const auto pd = open_device("soft0").value().allocate_pd().value();
  for (int round = 0; round < 20; ++round) {
    auto pool = std::make_optional(
        buffer_pool::create(pd, {.classes = {{.bytes = 64, .count = thread_count}}}).value());
    std::vector<buffer> all;
    while (auto got = pool->take(0)) all.push_back(*std::move(got));
    std::thread dropper([&] { pool.reset(); });
    on_threads([&](std::uint32_t i) {
      std::memset(all[i].bytes().data(), 1, all[i].capacity());
      all[i].reset();
    });
    dropper.join();
  }
}

// All threads request the same parts, and the limit evicts them: each request has its range.
TEST(registered_arena_threads, share_a_cache) {
  const registered_arena cache(open_device("soft0").value().allocate_pd().value(),
                               {.max_entries = 4});
  const auto shared = cache.allocate(16 * 64).value();
  std::atomic<std::uint32_t> wrong{0};
  on_threads([&](std::uint32_t i) {
    std::mt19937 random(i);
    auto own = cache.allocate(256).value();
    for (int step = 0; step < 150; ++step) {
      const std::size_t offset = random() % 16 * 64;
      const auto got = cache.registered(shared, offset, 64, access::local_write).value();
      const auto begin = reinterpret_cast<std::uintptr_t>(shared.bytes().data());
      if (got.slice().address() != begin + offset) ++wrong;
      static_cast<void>(cache.registered(own, 64, 64, access::local_write).value());
      if (step % 16 == 0) own = cache.allocate(256).value();
      if (step % 50 == 0) cache.clear();
    }
  });
  EXPECT_EQ(wrong.load(), 0U);
  const auto now = cache.statistics();
  EXPECT_EQ(now.hits + now.misses, 2U * 150 * thread_count);
  EXPECT_LE(now.entries, 4U);
}

// One thread publishes records, the others read complete records.
TEST(exported_memory_threads, word_synchronizes_the_other_bytes) {
  struct record {
    std::uint64_t published;
    std::array<std::uint64_t, 7> text;
  };
  constexpr std::uint64_t rounds = 300;
  auto window = exported_memory<record>::create(open_device("soft0").value().allocate_pd().value(),
                                                rounds + 1)
                    .value();
  std::atomic<std::uint32_t> wrong{0};
  on_threads([&](std::uint32_t i) {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      if (i == 0) {
        std::array<std::uint64_t, 7> text{};
        text.fill(round);
        window.copy_in(&record::text, text, element_index(round));
        window.store(&record::published, round, element_index(round));
      }
      while (window.load(&record::published, element_index(round)) != round)
        std::this_thread::yield();
      for (const auto word : window.copy_out(&record::text, element_index(round)))
        if (word != round) ++wrong;
    }
  });
  EXPECT_EQ(wrong.load(), 0U);
}

}  // namespace
}  // namespace verbena
