// SPDX-License-Identifier: MIT
// A hash table that is distributed over a group of ranks. Lookups are one-sided reads, and inserts
// are atomics and writes: the rank that holds an entry does not take part.
//   hash_table [RANKS]                 starts 8 processes on this host, or RANKS
//   verbena launch -n 4 -- hash_table  starts 4
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "examples/ranks.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
namespace net = verbena::net;

constexpr std::size_t slots_per_bucket = 4;
constexpr std::uint32_t buckets_per_rank = 512;
constexpr std::uint64_t keys_per_rank = 500;
constexpr std::size_t lookups_per_rank = 1600;
constexpr std::size_t reads_in_flight = 16;

/// One cache line. A key of 0 means that the slot is free. The sum shows whether a reader has seen
/// the whole value.
struct slot {
  std::uint64_t key;
  std::array<char, 48> value;
  std::uint64_t sum;
};
using bucket = std::array<slot, slots_per_bucket>;
static_assert(sizeof(bucket) == 256);

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 31U;
  x *= 0x7fb5d329728ea185U;
  x ^= x >> 27U;
  x *= 0x81dadef4bc2dd44dU;
  return x ^ (x >> 33U);
}

std::uint64_t sum_of(const slot& of) {
  std::uint64_t sum = mix(of.key);
  for (const char each : of.value) sum = mix(sum + static_cast<unsigned char>(each));
  return sum;
}

std::array<char, 48> value_of(std::uint64_t key) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "the value of key %llu",
                static_cast<unsigned long long>(key));
  return text;
}

class hash_table {
 public:
  explicit hash_table(examples::joined& on)
      : group_(on.group),
        table_(on.pd.allocate(buckets_per_rank * sizeof(bucket), everything).value()),
        memory_(on.pd.allocate((reads_in_flight + 1) * sizeof(bucket), everything).value()),
        all_(group_.exchange("table", table_.remote(), examples::time_limit()).value()) {}

  /// Returns false if the table is full.
  bool insert(std::uint64_t key, const std::array<char, 48>& value) {
    for (std::uint32_t probe = 0; probe < buckets_per_rank; ++probe) {
      const auto at = place_of(key, probe);
      for (std::size_t i = 0; i < slots_per_bucket; ++i) {
        const auto entry = at.slice(i * sizeof(slot), sizeof(slot)).region;
        if (!claim(group_[at.rank], entry, key)) continue;
        slot made{.key = key, .value = value, .sum = 0};
        made.sum = sum_of(made);
        std::memcpy(scratch(), &made, sizeof made);
        // The key is there already.
        group_[at.rank]
            .write(verbena::source(memory_, scratch_at + sizeof key, sizeof(slot) - sizeof key),
                   entry.slice(sizeof key, sizeof(slot) - sizeof key))
            .value();
        return true;
      }
    }
    return false;
  }

  // [find]
  /// Looks up several keys with one read each, all in flight at the same time. Keys whose bucket
  /// was full take further reads.
  std::vector<std::optional<slot>> find(std::span<const std::uint64_t> keys) {
    std::vector<net::peer_read> reads;
    reads.reserve(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i)
      reads.push_back({.from = place_of(keys[i], 0),
                       .into = verbena::sink(memory_, i * sizeof(bucket), sizeof(bucket))});
    group_.channels().gather(reads).value();
    reads_ += reads.size();
    std::vector<std::optional<slot>> found;
    found.reserve(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i)
      found.push_back(search(keys[i], i * sizeof(bucket)));
    return found;
  }
  // [/find]
  [[nodiscard]] std::size_t reads() const { return reads_; }

 private:
  static constexpr auto everything = verbena::access::local_write | verbena::access::remote_read |
                                     verbena::access::remote_write | verbena::access::remote_atomic;
  static constexpr std::size_t scratch_at = reads_in_flight * sizeof(bucket);

  [[nodiscard]] std::byte* scratch() { return memory_.bytes().data() + scratch_at; }
  [[nodiscard]] net::peer_region place_of(std::uint64_t key, std::uint32_t probe) const {
    const std::uint64_t hash = mix(key);
    const auto rank = static_cast<std::uint32_t>(hash % group_.size());
    const auto first = static_cast<std::uint32_t>(hash / group_.size() % buckets_per_rank);
    return all_[rank].slice((first + probe) % buckets_per_rank * sizeof(bucket), sizeof(bucket));
  }
  /// Stores the key in a slot that is free, or has it already.
  bool claim(verbena::channel& to, const verbena::remote_region& entry, std::uint64_t key) {
    to.compare_and_swap(verbena::sink(memory_, scratch_at, sizeof key), entry.slice(0, sizeof key),
                        {.expected = 0, .desired = key})
        .value();
    std::uint64_t before = 0;
    std::memcpy(&before, scratch(), sizeof before);
    return before == 0 || before == key;
  }
  std::optional<slot> search(std::uint64_t key, std::size_t offset) {
    for (std::uint32_t probe = 0; probe < buckets_per_rank;) {
      bucket read;
      std::memcpy(&read, memory_.bytes().data() + offset, sizeof read);
      const auto found = std::ranges::find(read, key, &slot::key);
      if (found != read.end() && found->sum == sum_of(*found)) return *found;
      // A value that is being written is read again.
      if (found == read.end()) {
        if (std::ranges::count(read, 0U, &slot::key) != 0) return std::nullopt;
        ++probe;
      }
      const auto from = place_of(key, probe);
      group_[from.rank].read(verbena::sink(memory_, offset, sizeof(bucket)), from.region).value();
      ++reads_;
    }
    return std::nullopt;
  }

  net::group& group_;
  verbena::memory_region table_;
  verbena::memory_region memory_;  // buckets that were read, and a slot
  std::vector<net::peer_region> all_;
  std::size_t reads_ = 0;
};

struct outcome {
  double found = 0;
  double reads = 0;
  double per_second = 0;
};

/// Looks up keys of all ranks.
outcome look_up(hash_table& table, std::uint32_t rank, std::uint32_t ranks, std::size_t at_once) {
  outcome made;
  std::vector<std::uint64_t> keys(at_once);
  const std::size_t reads_before = table.reads();
  const auto began = clock_type::now();
  for (std::size_t i = 0; i < lookups_per_rank; i += at_once) {
    for (std::size_t k = 0; k < at_once; ++k)
      keys[k] = 1 + mix(rank * lookups_per_rank + i + k) % (ranks * keys_per_rank);
    const auto found = table.find(keys);
    for (std::size_t k = 0; k < at_once; ++k)
      made.found += found[k] && found[k]->value == value_of(keys[k]) ? 1 : 0;
  }
  const std::chrono::duration<double> took = clock_type::now() - began;
  made.reads = static_cast<double>(table.reads() - reads_before);
  made.per_second = static_cast<double>(lookups_per_rank) / took.count();
  return made;
}

int run_rank() {
  auto self =
      examples::joined::from_environment({.channels = {.access = verbena::access::remote_atomic}});
  auto& group = self.group;
  hash_table table(self);
  const auto began = clock_type::now();
  // The keys of a rank are neighbours; the hash distributes them over all ranks.
  bool is_complete = true;
  for (std::uint64_t i = 0; i < keys_per_rank; ++i) {
    const std::uint64_t key = 1 + group.rank() * keys_per_rank + i;
    is_complete = table.insert(key, value_of(key)) && is_complete;
  }
  group.barrier(examples::time_limit()).value();
  const std::chrono::duration<double> took = clock_type::now() - began;
  const double all_keys = static_cast<double>(group.size() * keys_per_rank);
  if (group.rank() == 0)
    std::printf("%.0f keys on %u ranks: %.0f inserts per second\n", all_keys, group.size(),
                all_keys / took.count());

  const auto total = self.pd.allocate(sizeof(outcome), verbena::access::local_write).value();
  for (const std::size_t at_once : {std::size_t{1}, reads_in_flight}) {
    auto sum = look_up(table, group.rank(), group.size(), at_once);
    std::memcpy(total.bytes().data(), &sum, sizeof sum);
    group.all_reduce<double>(verbena::sink(total), std::plus<>(), examples::time_limit()).value();
    std::memcpy(&sum, total.bytes().data(), sizeof sum);
    const auto lookups = static_cast<double>(group.size() * lookups_per_rank);
    if (group.rank() == 0)
      std::printf("%2zu lookups in flight: %8.0f per second, %.3f reads each, %.0f of %.0f found\n",
                  at_once, sum.per_second, sum.reads / lookups, sum.found, lookups);
    is_complete = is_complete && sum.found == lookups;
  }
  group.barrier(examples::time_limit()).value();  // others read the table of this rank
  return is_complete ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_ranks(argc, argv, run_rank); }
