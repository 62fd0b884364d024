// SPDX-License-Identifier: MIT
#include "softdev/core/block_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace verbena::softdev {
namespace {

constexpr std::size_t slab_bytes = std::size_t{2} << 20U;

/// Blocks of one size, each filled with its number.
class blocks {
 public:
  explicit blocks(std::size_t bytes) : bytes_(bytes) {}
  blocks(const blocks&) = delete;
  blocks& operator=(const blocks&) = delete;
  ~blocks() {
    while (!all_.empty()) release(all_.size() - 1);
  }
  void add(std::size_t count) {
    for (; count > 0; --count) {
      auto* const block = static_cast<std::byte*>(block_pool::allocate(bytes_));
      ASSERT_NE(block, nullptr);
      std::memset(block, static_cast<int>(all_.size() % 251), bytes_);
      all_.push_back({block, static_cast<std::byte>(all_.size() % 251)});
    }
  }
  void release(std::size_t index) {
    block_pool::release(all_[index].begin, bytes_);
    all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  [[nodiscard]] bool are_whole() const {
    return std::ranges::all_of(all_, [this](const filled& each) {
      return std::all_of(each.begin, each.begin + bytes_,
                         [&](std::byte content) { return content == each.content; });
    });
  }
  [[nodiscard]] std::byte* at(std::size_t index) const { return all_[index].begin; }
  [[nodiscard]] std::size_t count() const { return all_.size(); }

 private:
  struct filled {
    std::byte* begin;
    std::byte content;
  };
  std::size_t bytes_;
  std::vector<filled> all_;
};

TEST(block_pool, block_of_any_size_is_aligned_to_a_line) {
  for (const std::size_t bytes : {1UL, 64UL, 65UL, 4096UL, block_pool::most_bytes, slab_bytes}) {
    void* const block = block_pool::allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U) << bytes;
    std::memset(block, 1, bytes);
    block_pool::release(block, bytes);
  }
}

TEST(block_pool, blocks_of_several_slabs_do_not_overlap) {
  constexpr std::size_t bytes = 9000;
  blocks of_one_size(bytes);
  blocks of_another(200);
  of_one_size.add(3 * slab_bytes / bytes);
  of_another.add(slab_bytes / 200);
  EXPECT_TRUE(of_one_size.are_whole());
  EXPECT_TRUE(of_another.are_whole());
}

TEST(block_pool, blocks_after_release_in_any_order_do_not_overlap) {
  constexpr std::size_t bytes = 5000;
  constexpr std::size_t count = 3 * slab_bytes / bytes;
  blocks all(bytes);
  all.add(count);
  for (std::size_t index = 0; index < all.count(); index += 2) all.release(index);
  all.add(count);
  EXPECT_TRUE(all.are_whole());
  while (all.count() > count) all.release(0);
  EXPECT_TRUE(all.are_whole());
}

TEST(block_pool, blocks_of_threads_do_not_overlap) {
  constexpr std::size_t count = 4;
  std::vector<std::jthread> threads;
  threads.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    threads.emplace_back([] {
      blocks mine(3000);
      for (int round = 0; round < 20; ++round) {
        mine.add(100);
        while (mine.count() > 50) mine.release(mine.count() / 2);
        EXPECT_TRUE(mine.are_whole());
      }
    });
}

}  // namespace
}  // namespace verbena::softdev
