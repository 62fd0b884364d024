// SPDX-License-Identifier: MIT
// Sorts numbers that are distributed over a group of ranks: each rank sends each other rank the
// numbers of its range in one all-to-all exchange.
//   sort [RANKS]                 starts 8 processes on this host, or RANKS
//   verbena launch -n 4 -- sort  starts 4
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "examples/ranks.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
namespace net = verbena::net;

constexpr std::size_t numbers_per_rank = 50'000;

double milliseconds(clock_type::time_point since) {
  return std::chrono::duration<double, std::milli>(clock_type::now() - since).count();
}

/// Registered memory of numbers.
class numbers {
 public:
  numbers(const verbena::protection_domain& pd, std::size_t count)
      : region_(pd.allocate(count * sizeof(std::uint64_t), verbena::access::local_write).value()) {}
  [[nodiscard]] std::span<std::uint64_t> values() {
    return {reinterpret_cast<std::uint64_t*>(region_.bytes().data()),
            region_.bytes().size() / sizeof(std::uint64_t)};
  }
  [[nodiscard]] verbena::source source() const { return verbena::source(region_); }
  [[nodiscard]] verbena::sink sink() { return verbena::sink(region_); }

 private:
  verbena::memory_region region_;
};

/// The sum of all numbers is unaffected by sorting, so it shows that none was lost.
std::uint64_t sum_of_all(examples::joined& self, std::uint64_t own) {
  numbers sum(self.pd, 1);
  sum.values()[0] = own;
  self.group.all_reduce<std::uint64_t>(sum.sink(), std::plus<>(), examples::time_limit()).value();
  return sum.values()[0];
}

/// Returns where the part of each rank begins in sorted numbers, and the end of the last one.
std::vector<std::size_t> bounds_of(std::span<const std::uint64_t> sorted, std::uint64_t width,
                                   std::uint32_t ranks) {
  std::vector<std::size_t> bounds;
  bounds.reserve(ranks + 1);
  for (std::uint32_t to = 0; to < ranks; ++to)
    bounds.push_back(
        static_cast<std::size_t>(std::ranges::lower_bound(sorted, to * width) - sorted.begin()));
  bounds.push_back(sorted.size());
  return bounds;
}

int run_rank() {
  auto self = examples::joined::from_environment();
  auto& group = self.group;
  const std::uint32_t ranks = group.size();
  std::mt19937_64 random(group.rank());
  std::vector<std::uint64_t> own(numbers_per_rank);
  for (auto& each : own) each = random();
  std::uint64_t before = 0;
  for (const auto each : own) before += each;
  before = sum_of_all(self, before);
  group.barrier(examples::time_limit()).value();

  const auto began = clock_type::now();
  std::ranges::sort(own);
  const double sorted = milliseconds(began);
  // Rank r receives the numbers of the r-th part of the range: about an equal share of each rank.
  const std::uint64_t width = ~std::uint64_t{0} / ranks;
  const auto bounds = bounds_of(own, width, ranks);

  // [exchange]
  // The parts of an exchange have one length: that of the longest, with its count at the begin.
  numbers longest(self.pd, 1);
  for (std::uint32_t to = 0; to < ranks; ++to)
    longest.values()[0] =
        std::max<std::uint64_t>(longest.values()[0], 1 + bounds[to + 1] - bounds[to]);
  group.all_reduce<std::uint64_t>(longest.sink(), net::maximum(), examples::time_limit()).value();
  const std::size_t part = longest.values()[0];
  numbers out(self.pd, part * ranks);
  numbers in(self.pd, part * ranks);
  for (std::uint32_t to = 0; to < ranks; ++to) {
    const auto sent = std::span(own).subspan(bounds[to], bounds[to + 1] - bounds[to]);
    out.values()[to * part] = sent.size();
    std::ranges::copy(sent, out.values().subspan(to * part + 1).begin());
  }
  const auto exchanging = clock_type::now();
  group.all_to_all(out.source(), in.sink(), examples::time_limit()).value();
  const double exchanged = milliseconds(exchanging);
  // [/exchange]

  std::vector<std::uint64_t> mine;
  for (std::uint32_t from = 0; from < ranks; ++from) {
    const auto received = in.values().subspan(from * part + 1, in.values()[from * part]);
    std::vector<std::uint64_t> merged;
    merged.reserve(mine.size() + received.size());
    std::ranges::merge(mine, received, std::back_inserter(merged));
    mine = std::move(merged);
  }
  const double took = milliseconds(began);

  std::uint64_t after = 0;
  for (const auto each : mine) after += each;
  const bool is_complete = sum_of_all(self, after) == before;
  const std::uint64_t first = group.rank() * width;
  const bool is_last = group.rank() + 1 == ranks;
  const bool is_sorted =
      std::ranges::is_sorted(mine) && std::ranges::all_of(mine, [&](std::uint64_t each) {
        return each >= first && (is_last || each < first + width);
      });
  if (group.rank() == 0)
    std::printf(
        "%zu numbers on %u ranks in %.1f ms: %.1f ms to sort the own part, %.1f ms for the "
        "exchange (%.2f GB/s per rank), the rest to prepare and merge\n",
        numbers_per_rank * ranks, ranks, took, sorted, exchanged,
        static_cast<double>(part * ranks * sizeof(std::uint64_t)) / 1e6 / exchanged);
  group.barrier(examples::time_limit()).value();
  return is_sorted && is_complete ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_ranks(argc, argv, run_rank); }
