// SPDX-License-Identifier: MIT
// Ranks that call an operation with different arguments. The error names the arguments of both. The
// ranks are threads of the test.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/net/ranks.hpp"
#include "verbena/net/reduction.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;
using calls = std::array<std::function<result<void>(joined_rank&, memory_region&)>, 2>;

/// Calls `of[rank]` on each of two ranks, and returns the errors `invalid_argument`. The other rank
/// may be informed before it receives a message.
std::vector<std::string> errors_of(const calls& of) {
  std::array<std::string, 2> texts;
  in_group(2, [&](joined_rank& here) {
    auto memory = here.pd.allocate(4096, access::local_write).value();
    const std::uint32_t rank = here.group.rank();
    const auto called = of.at(rank)(here, memory);
    // A rank that only sends detects the failure in the next operation.
    const auto failed = called ? here.group.barrier(test_deadline()) : called;
    ASSERT_FALSE(failed);
    if (failed.error().kind() == error_kind::invalid_argument)
      texts.at(rank) = failed.error().message();
  });
  std::vector<std::string> found;
  for (const auto& each : texts)
    if (!each.empty()) found.push_back(each);
  return found;
}

void expect_both(const calls& of, const std::string& first, const std::string& second) {
  const auto errors = errors_of(of);
  EXPECT_FALSE(errors.empty());
  for (const auto& each : errors) {
    EXPECT_NE(each.find(first), std::string::npos) << each << "\n" << first;
    EXPECT_NE(each.find(second), std::string::npos) << each << "\n" << second;
  }
}

template <class T, class Operation>
auto all_reduce_by(Operation with) {
  return [with](joined_rank& here, memory_region& memory) {
    return here.group.all_reduce<T>(sink(memory, 0, 64), with, test_deadline());
  };
}

TEST(mixed_up_operations, operators_are_named) {
  expect_both(
      {all_reduce_by<std::int64_t>(std::plus<>()), all_reduce_by<std::int64_t>(net::maximum())},
      "rank 0 called all_reduce() of 2 ranks with 64 bytes, elements of 8 bytes (signed "
      "integers) and std::plus",
      "rank 1 called all_reduce() of 2 ranks with 64 bytes, elements of 8 bytes (signed "
      "integers) and net::maximum");
}

TEST(mixed_up_operations, element_types_are_named) {
  expect_both({all_reduce_by<double>(std::plus<>()), all_reduce_by<std::uint64_t>(std::plus<>())},
              "elements of 8 bytes (floating point) and std::plus",
              "elements of 8 bytes (unsigned integers) and std::plus");
}

TEST(mixed_up_operations, lengths_of_broadcast_are_named) {
  const auto broadcast = [](std::size_t bytes) {
    return [=](joined_rank& here, memory_region& memory) {
      return here.group.broadcast(sink(memory, 0, bytes), 0, test_deadline());
    };
  };
  expect_both({broadcast(64), broadcast(128)},
              "rank 0 called broadcast() of 2 ranks with 64 bytes and root 0",
              "rank 1 called broadcast() of 2 ranks with 128 bytes and root 0");
}

// Each rank divides its memory by the number of ranks, so parts of different lengths are an error.
TEST(mixed_up_operations, lengths_of_all_gather_are_named) {
  const auto gather = [](std::size_t bytes) {
    return [=](joined_rank& here, memory_region& memory) {
      return here.group.all_gather(sink(memory, 0, bytes), test_deadline());
    };
  };
  expect_both({gather(96), gather(64)}, "rank 0 called all_gather() of 2 ranks with 96 bytes",
              "rank 1 called all_gather() of 2 ranks with 64 bytes");
}

// Operators of the program have no names that are equal on all hosts, so they are not compared.
TEST(mixed_up_operations, operator_of_the_program_is_equal_to_each_operator) {
  in_group(2, [](joined_rank& here) {
    auto memory = here.pd.allocate(64, access::local_write).value();
    auto* const value = reinterpret_cast<std::uint64_t*>(memory.bytes().data());
    const auto add = [](std::uint64_t a, std::uint64_t b) { return a + b; };
    *value = here.group.rank() + 1;
    const auto reduced =
        here.group.rank() == 0
            ? here.group.all_reduce<std::uint64_t>(sink(memory, 0, 8), add, test_deadline())
            : here.group.all_reduce<std::uint64_t>(sink(memory, 0, 8), std::plus<>(),
                                                   test_deadline());
    ASSERT_TRUE(reduced);
    EXPECT_EQ(*value, 3U);
  });
}

// Rank 1 has called more operations with rank 2 than a rank can look up.
TEST(mixed_up_operations, operation_that_was_long_ago_is_an_error_without_its_arguments) {
  in_group(3, [](joined_rank& here) {
    const std::uint32_t rank = here.group.rank();
    auto memory = here.pd.allocate(64, access::local_write).value();
    if (rank == 1) {
      EXPECT_TRUE(here.group.broadcast(sink(memory, 0, 16), 1, test_deadline(), rank_list{0, 1}));
    }
    for (int round = 0; rank != 0 && round < 40; ++round)
      ASSERT_TRUE(here.group.barrier(rank_list{1, 2}, test_deadline()));
    ASSERT_TRUE(here.group.exchange("called", std::span<const std::byte>(), test_deadline()));
    if (rank != 0) return;
    const auto failed =
        here.group.broadcast(sink(memory, 0, 32), 1, test_deadline(), rank_list{0, 1});
    expect_error(failed, "rank 1 is in another operation; all ranks of an operation must call");
  });
}

}  // namespace
}  // namespace verbena::test
