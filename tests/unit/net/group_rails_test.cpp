// SPDX-License-Identifier: MIT
// The ranks of a group, connected over two ports of soft0. The ranks are threads of this process.
#include "verbena/net/group_rails.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/net/rails.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/net/group.hpp"
#include "verbena/net/rail_memory.hpp"

namespace verbena::test {
namespace {

constexpr std::size_t group_block = 512UL * 1024;  // striped

std::span<std::uint64_t> words_in(const net::rail_memory& memory, std::size_t block) {
  auto* const first = reinterpret_cast<std::uint64_t*>(memory.bytes().data());
  constexpr std::size_t words = group_block / sizeof *first;
  return {first + block * words, words};
}

/// Writes words that depend on `seed`.
void fill_block(const net::rail_memory& memory, std::size_t block, std::uint64_t seed) {
  const auto words = words_in(memory, block);
  for (std::size_t each = 0; each < words.size(); ++each) words[each] = seed + each;
}
[[nodiscard]] bool has_block(const net::rail_memory& memory, std::size_t block,
                             std::uint64_t seed) {
  const auto words = words_in(memory, block);
  for (std::size_t each = 0; each < words.size(); ++each)
    if (words[each] != seed + each) return false;
  return true;
}
std::uint64_t seed_of(std::uint32_t from, std::uint32_t to, std::uint64_t round = 0) {
  return (round << 52U) + (std::uint64_t{from} << 44U) + (std::uint64_t{to} << 36U);
}

net::group_rails_options quick_group() { return {.rails = quick()}; }

/// A rank whose rails are connected, with a block for each rank in its memory, and one to send.
struct rank_with_rails {
  explicit rank_with_rails(joined_rank& here)
      : size(here.group.size()),
        rails(net::group_rails::connect(here.group, two.ports, test_deadline(), quick_group())
                  .value()),
        all(here.group.exchange("memory", memory.remote(), test_deadline()).value()) {
    EXPECT_EQ(size, here.group.size());
  }

  /// Writes a block into the memory of each rank, with a seed of this rank.
  [[nodiscard]] int write_to_all(std::uint32_t rank, std::uint64_t round) {
    int failed = 0;
    for (std::uint32_t peer = 0; peer < size; ++peer) {
      fill_block(own, 0, seed_of(rank, peer, round));
      const auto to = all[peer].slice(rank * group_block, group_block);
      const auto written = rails[peer].write(net::rail_source(own), to, test_deadline());
      if (!written) {
        ++failed;
        ADD_FAILURE() << written.error().message();
      }
    }
    return failed;
  }

  std::uint32_t size;
  two_rails two{contexts::one_for_each_port};
  net::rail_memory memory =
      net::rail_memory::allocate(two.ports, 8 * group_block, rail_access).value();
  net::rail_memory own = net::rail_memory::allocate(two.ports, group_block, rail_access).value();
  net::group_rails rails;
  std::vector<net::rail_region> all;
};

TEST(group_rails, all_ranks_write_and_read_the_memory_of_all_ranks) {
  for (const std::uint32_t size : {1U, 2U, 4U}) {
    in_group(size, [size](joined_rank& here) {
      const std::uint32_t rank = here.group.rank();
      rank_with_rails with(here);
      EXPECT_EQ(with.write_to_all(rank, 1), 0);
      here.group.barrier(test_deadline()).value();
      for (std::uint32_t peer = 0; peer < size; ++peer) {
        EXPECT_TRUE(has_block(with.memory, peer, seed_of(peer, rank, 1))) << peer;
        const auto from = with.all[peer].slice(rank * group_block, group_block);
        const auto read = with.rails[peer].read(net::rail_sink(with.own), from, test_deadline());
        ASSERT_TRUE(read) << read.error().message();
        EXPECT_TRUE(has_block(with.own, 0, seed_of(rank, peer, 1))) << peer;
        for (std::uint32_t rail = 0; rail < 2; ++rail)
          EXPECT_NE(with.rails[peer].status(rail).counters.bytes_written, 0U);
      }
      EXPECT_FALSE(with.rails.contains(size));
      here.group.barrier(test_deadline()).value();
    });
  }
}

}  // namespace
}  // namespace verbena::test
