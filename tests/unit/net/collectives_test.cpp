// SPDX-License-Identifier: MIT
// Collective operations of groups. The ranks are threads of the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/unit/net/ranks.hpp"
#include "tests/unit/verbs/broken_polls.hpp"
#include "verbena/base/sanitizers.hpp"
#include "verbena/net/reduction.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

/// Registered elements of a rank.
template <class T>
class elements {
 public:
  elements(joined_rank& here, std::size_t count)
      : memory_(here.pd.allocate(count * sizeof(T), access::local_write).value()),
        view_(reinterpret_cast<T*>(memory_.bytes().data()), count) {}

  [[nodiscard]] T& operator[](std::size_t at) { return view_[at]; }
  [[nodiscard]] std::size_t size() const { return view_.size(); }
  [[nodiscard]] std::vector<T> values() const { return {view_.begin(), view_.end()}; }
  void fill(auto&& value_of) {
    for (std::size_t at = 0; at < view_.size(); ++at) view_[at] = static_cast<T>(value_of(at));
  }
  [[nodiscard]] sink into() const { return sink(memory_); }
  [[nodiscard]] source from() const { return source(memory_); }

 private:
  memory_region memory_;
  std::span<T> view_;
};

struct collective_case {
  std::uint32_t size;
  std::size_t count;  // number of elements
};

std::string name_of(const testing::TestParamInfo<collective_case>& of) {
  return std::to_string(of.param.size) + "_ranks_" + std::to_string(of.param.count) + "_elements";
}

// Lengths of one element, of less and more than a slot, and for both algorithms. Some are not
// divisible by the number of ranks.
std::vector<collective_case> all_cases() {
  std::vector<collective_case> all;
#ifdef VERBENA_THREAD_SANITIZER
  // These sizes cover all algorithms and trees; all sizes would take a minute.
  const std::vector<std::uint32_t> sizes{2, 5, 8};
#else
  const std::vector<std::uint32_t> sizes{1, 2, 3, 4, 5, 7, 8};
#endif
  for (const std::uint32_t size : sizes)
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{3}, std::size_t{3001}, std::size_t{20011}})
      all.push_back({size, count});
  return all;
}

class collectives : public ::testing::TestWithParam<collective_case> {};
INSTANTIATE_TEST_SUITE_P(all, collectives, ::testing::ValuesIn(all_cases()), name_of);

std::uint32_t element_of(std::uint32_t rank, std::size_t at, std::uint32_t round = 0) {
  return static_cast<std::uint32_t>(at) * 31 + (rank + 1) * 1'000'003 + round * 77;
}

TEST_P(collectives, broadcast_copies_the_memory_of_each_root) {
  const auto [size, count] = GetParam();
  in_group(size, [&, size = size, count = count](joined_rank& here) {
    elements<std::uint32_t> data(here, count);
    for (std::uint32_t root = 0; root < size; ++root) {
      data.fill([&](std::size_t at) { return element_of(here.group.rank(), at); });
      ASSERT_TRUE(here.group.broadcast(data.into(), root, test_deadline()));
      for (std::size_t at = 0; at < count; ++at) ASSERT_EQ(data[at], element_of(root, at));
    }
  });
}

TEST_P(collectives, all_gather_gives_each_rank_the_parts_of_all) {
  const auto [size, count] = GetParam();
  in_group(size, [&, size = size, count = count](joined_rank& here) {
    elements<std::uint32_t> data(here, size * count);
    for (std::uint32_t round = 0; round < 3; ++round) {
      data.fill([&](std::size_t at) {
        return at / count == here.group.rank() ? element_of(here.group.rank(), at, round) : 0;
      });
      ASSERT_TRUE(here.group.all_gather(data.into(), test_deadline()));
      for (std::size_t at = 0; at < size * count; ++at)
        ASSERT_EQ(data[at], element_of(static_cast<std::uint32_t>(at / count), at, round));
    }
  });
}

TEST_P(collectives, all_to_all_exchanges_parts) {
  const auto [size, count] = GetParam();
  in_group(size, [&, size = size, count = count](joined_rank& here) {
    elements<std::uint32_t> out(here, size * count);
    elements<std::uint32_t> in(here, size * count);
    const std::uint32_t me = here.group.rank();
    for (std::uint32_t round = 0; round < 3; ++round) {
      out.fill([&](std::size_t at) { return element_of(me, at, round); });
      ASSERT_TRUE(here.group.all_to_all(out.from(), in.into(), test_deadline()));
      for (std::size_t at = 0; at < size * count; ++at) {
        const auto from = static_cast<std::uint32_t>(at / count);
        ASSERT_EQ(in[at], element_of(from, me * count + at % count, round));
      }
    }
  });
}

TEST_P(collectives, reduce_combines_at_each_root) {
  const auto [size, count] = GetParam();
  in_group(size, [&, size = size, count = count](joined_rank& here) {
    elements<std::uint32_t> data(here, count);
    for (std::uint32_t root = 0; root < size; ++root) {
      data.fill([&](std::size_t at) { return element_of(here.group.rank(), at); });
      ASSERT_TRUE(
          here.group.reduce<std::uint32_t>(data.into(), std::plus<>(), root, test_deadline()));
      if (here.group.rank() != root) continue;
      for (std::size_t at = 0; at < count; ++at) {
        std::uint32_t sum = 0;
        for (std::uint32_t rank = 0; rank < size; ++rank) sum += element_of(rank, at);
        ASSERT_EQ(data[at], sum);
      }
    }
  });
}

TEST_P(collectives, all_reduce_combines_on_all_ranks) {
  const auto [size, count] = GetParam();
  in_group(size, [&, size = size, count = count](joined_rank& here) {
    elements<std::uint32_t> data(here, count);
    for (std::uint32_t round = 0; round < 5; ++round) {
      data.fill([&](std::size_t at) { return element_of(here.group.rank(), at, round); });
      ASSERT_TRUE(
          here.group.all_reduce<std::uint32_t>(data.into(), std::plus<>(), test_deadline()));
      for (std::size_t at = 0; at < count; ++at) {
        std::uint32_t sum = 0;
        for (std::uint32_t rank = 0; rank < size; ++rank) sum += element_of(rank, at, round);
        ASSERT_EQ(data[at], sum);
      }
    }
  });
}

// Rounding depends on the order of the operands, which must be equal on all ranks.
TEST_P(collectives, all_reduce_of_floats_is_equal_on_all_ranks) {
  const auto [size, count] = GetParam();
  std::vector<std::vector<float>> results(size);
  in_group(size, [&, count = count](joined_rank& here) {
    elements<float> data(here, count);
    data.fill([&](std::size_t at) {
      return 1.0F / static_cast<float>(element_of(here.group.rank(), at) % 997 + 1);
    });
    ASSERT_TRUE(here.group.all_reduce<float>(data.into(), std::plus<>(), test_deadline()));
    results[here.group.rank()] = data.values();
  });
  for (const auto& each : results) EXPECT_EQ(each, results.front());
}

// The size of a slot is not a multiple of the element size. 682 elements of 24 bytes are two
// messages.
template <std::size_t Words>
void reduce_and_all_reduce(std::uint32_t size, std::size_t count) {
  using element = std::array<std::uint32_t, Words>;
  const auto add = [](const element& a, const element& b) {
    element sum{};
    for (std::size_t at = 0; at < Words; ++at) sum[at] = a[at] + b[at];
    return sum;
  };
  in_group(size, [&](joined_rank& here) {
    elements<element> data(here, count);
    for (const bool at_root : {true, false}) {
      for (std::size_t at = 0; at < count; ++at)
        for (std::size_t i = 0; i < Words; ++i)
          data[at][i] = element_of(here.group.rank(), at * Words + i);
      ASSERT_TRUE(at_root ? here.group.reduce<element>(data.into(), add, 0, test_deadline())
                          : here.group.all_reduce<element>(data.into(), add, test_deadline()));
      if (at_root && here.group.rank() != 0) continue;
      for (std::size_t at = 0; at < count; ++at)
        for (std::size_t i = 0; i < Words; ++i) {
          std::uint32_t sum = 0;
          for (std::uint32_t rank = 0; rank < size; ++rank) sum += element_of(rank, at * Words + i);
          ASSERT_EQ(data[at][i], sum) << "element " << at << ", word " << i;
        }
    }
  });
}

TEST(all_reduce, and_reduce_divide_no_element_between_messages) {
  for (const std::uint32_t size : {2U, 3U}) {
    for (const std::size_t count : {std::size_t{682}, std::size_t{5000}}) {
      reduce_and_all_reduce<6>(size, count);
      reduce_and_all_reduce<3>(size, count);
    }
  }
}

TEST(all_reduce, uses_any_operation_and_element) {
  struct best {
    double value;
    std::uint32_t rank;
  };
  for (const std::size_t count : {std::size_t{2}, std::size_t{3001}})
    in_group(3, [&](joined_rank& here) {
      elements<best> data(here, count);
      data.fill([&](std::size_t at) {
        return best{.value = static_cast<double>((here.group.rank() + at) % 3),
                    .rank = here.group.rank()};
      });
      ASSERT_TRUE(here.group.all_reduce<best>(
          data.into(), [](const best& a, const best& b) { return a.value < b.value ? b : a; },
          test_deadline()));
      for (std::size_t at = 0; at < count; ++at) ASSERT_EQ((data[at].rank + at) % 3, 2U);
      elements<std::int16_t> small(here, 5);
      small.fill([&](std::size_t at) {
        return static_cast<int>(at) - 3 * static_cast<int>(here.group.rank());
      });
      ASSERT_TRUE(
          here.group.all_reduce<std::int16_t>(small.into(), net::minimum(), test_deadline()));
      EXPECT_EQ(small.values(), (std::vector<std::int16_t>{-6, -5, -4, -3, -2}));
      small.fill([&](std::size_t at) {
        return static_cast<int>(at) + static_cast<int>(here.group.rank());
      });
      ASSERT_TRUE(
          here.group.all_reduce<std::int16_t>(small.into(), net::maximum(), test_deadline()));
      EXPECT_EQ(small.values(), (std::vector<std::int16_t>{2, 3, 4, 5, 6}));
    });
}

// The bytes of a message are aligned to 64 bytes.
struct alignas(64) aligned_element {
  std::uint64_t value;
};
struct alignas(128) overaligned_element {
  std::uint64_t value;
};
struct sum_of_elements {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return {a.value + b.value};
  }
};
static_assert(net::reduces<sum_of_elements, aligned_element>);
static_assert(!net::reduces<sum_of_elements, overaligned_element>);

TEST(collective, subsets_operations_and_barriers_follow_each_other) {
  in_group(6, [&](joined_rank& here) {
    const std::vector<std::uint32_t> even{0, 2, 4};
    const std::vector<std::uint32_t> odd{1, 3, 5};
    const std::uint32_t rank = here.group.rank();
    const auto& mine = rank % 2 == 0 ? even : odd;
    elements<std::uint64_t> data(here, 3000);
    for (std::uint32_t round = 0; round < 20; ++round) {
      const std::size_t count = round % 3 == 0 ? 3000 : 1;
      data.fill([&](std::size_t) { return rank; });
      const auto all = data.into();
      sink some = data.into();
      if (count == 1) static_cast<void>(some.split(sizeof(std::uint64_t)));
      ASSERT_TRUE(here.group.all_reduce<std::uint64_t>(some, std::plus<>(), test_deadline(), mine));
      ASSERT_EQ(data[count - 1], rank % 2 == 0 ? 6U : 9U);
      ASSERT_TRUE(here.group.broadcast(some, mine[round % 3], test_deadline(), mine));
      ASSERT_TRUE(here.group.barrier(mine, test_deadline()));
      ASSERT_TRUE(here.group.all_reduce<std::uint64_t>(some, std::plus<>(), test_deadline()));
      ASSERT_EQ(data[0], 45U);
      ASSERT_EQ(all.length(), 3000 * sizeof(std::uint64_t));
    }
  });
}

// The root calls more broadcasts than there are slots before rank 2 receives the first one.
TEST(collective, broadcasts_of_a_fast_root_wait_for_room) {
  std::atomic<std::uint32_t> sent = 0;
  in_group(3, [&](joined_rank& here) {
    elements<std::uint32_t> data(here, 1);
    const std::uint32_t rank = here.group.rank();
    for (std::uint32_t round = 0; round < 200; ++round) {
      if (rank == 0) data[0] = round;
      while (rank == 2 && sent < std::min(round + 3, 200U)) std::this_thread::yield();
      ASSERT_TRUE(here.group.broadcast(data.into(), 0, test_deadline()));
      if (rank == 0) ++sent;
      ASSERT_EQ(data[0], round);
    }
  });
}

TEST(collective, waits_for_room_in_a_full_queue) {
  in_group(2,
           [&](joined_rank& here) {
             elements<std::uint32_t> data(here, 5000);
             for (int round = 0; round < 5; ++round) {
               data.fill([](std::size_t at) { return at; });
               ASSERT_TRUE(here.group.all_reduce<std::uint32_t>(data.into(), std::plus<>(),
                                                                test_deadline()));
               ASSERT_EQ(data[4999], 2 * 4999U);
             }
           },
           {.channels = {.queues = {.max_send_wr = 1, .max_recv_wr = 1}}});
}

TEST(collective, completes_in_a_scope_with_operations_in_flight) {
  in_group(2, [&](joined_rank& here) {
    auto memory = here.pd.allocate(4096, access::local_write).value();
    elements<std::uint32_t> data(here, 4);
    const std::uint32_t other = 1 - here.group.rank();
    const auto outcome = here.group[other].scope([&](operation_scope& scope) -> result<void> {
      auto received = scope.receive(sink(memory, 0, 64));
      data.fill([](std::size_t) { return 1; });
      VERBENA_TRY_VOID(
          here.group.all_reduce<std::uint32_t>(data.into(), std::plus<>(), test_deadline()));
      EXPECT_EQ(data[3], 2U);
      EXPECT_TRUE(here.group[other].send(source(memory, 64, 5)));
      EXPECT_EQ(received.wait().value(), 5U);
      return {};
    });
    EXPECT_TRUE(outcome);
  });
}

TEST(collective, ends_if_its_completion_queue_cannot_be_polled) {
  const test_store store;
  for_each_rank(2, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 2));
    // More messages than rank 0 can send without polling a completion.
    elements<std::uint32_t> data(here, 50'000);
    if (rank == 0) {
      const broken_polls broken(here.device);
      const auto failed =
          here.group.all_reduce<std::uint32_t>(data.into(), std::plus<>(), deadline::never());
      expect_error(failed, "polling the completion queue of the group failed");
      EXPECT_EQ(failed.error().code(), EIO);
      EXPECT_FALSE(here.group.barrier(deadline::never()));
    } else {
      EXPECT_FALSE(
          here.group.all_reduce<std::uint32_t>(data.into(), std::plus<>(), test_deadline()));
    }
  });
}

TEST(collective, invalid_arguments_are_refused_and_the_group_stays_usable) {
  in_group(3, [&](joined_rank& here) {
    auto& group = here.group;
    elements<std::uint32_t> data(here, 7);
    elements<std::uint32_t> six(here, 6);
    const auto until = test_deadline();
    const auto invalid = [](const result<void>& failed, std::string_view why) {
      expect_error(failed, why);
      EXPECT_EQ(failed.error().kind(), error_kind::invalid_argument);
    };
    invalid(group.broadcast(data.into(), 3, until),
            "the root, rank 3, is not in the list of ranks");
    invalid(group.reduce<std::uint32_t>(data.into(), std::plus<>(), 3, until),
            "the root, rank 3, is not in the list of ranks");
    invalid(group.all_gather(data.into(), until),
            "28 bytes are not a multiple of the number of ranks of the operation, 3");
    invalid(group.all_to_all(data.from(), six.into(), until),
            "28 bytes are not a multiple of the number of ranks of the operation, 3");
    invalid(group.all_to_all(six.from(), data.into(), until),
            "the source has 24 bytes and the sink 28");
    invalid(group.all_reduce<std::uint64_t>(data.into(), std::plus<>(), until),
            "28 bytes are not a multiple of the size of an element, 8");
    sink unaligned = data.into().split(4);
    static_cast<void>(unaligned.split(16));
    invalid(group.all_reduce<std::uint64_t>(unaligned, std::plus<>(), until),
            "the address of the memory is not a multiple of the alignment of an element, 8 bytes");
    const std::vector<std::uint32_t> others{(group.rank() + 1) % 3};
    invalid(group.all_gather(data.into(), until, others),
            "the list of ranks must contain the calling rank");
    ASSERT_TRUE(group.broadcast(data.into(), 2, until));
  });
}

TEST(collective, other_length_or_operation_of_a_rank_is_an_error) {
  for (const bool is_length : {true, false})
    in_group(2, [&](joined_rank& here) {
      const elements<std::uint32_t> data(here, 8);
      sink part = data.into();
      const bool differs = here.group.rank() == 1;
      if (is_length && differs) static_cast<void>(part.split(16));
      const auto failed = !is_length && differs ? here.group.all_gather(part, test_deadline())
                                                : here.group.all_reduce<std::uint32_t>(
                                                      part, std::plus<>(), test_deadline());
      ASSERT_FALSE(failed);
      const std::string text = failed.error().message();
      if (text.find("failed in an all_") != std::string::npos) return;
      const std::string first =
          "all_reduce() of 2 ranks with 32 bytes, elements of 4 bytes (unsigned integers) and "
          "std::plus";
      const std::string second = is_length
                                     ? "all_reduce() of 2 ranks with 16 bytes, elements of 4 bytes "
                                       "(unsigned integers) and std::plus"
                                     : "all_gather() of 2 ranks with 32 bytes";
      expect_error(failed, differs ? "rank 0 called " + first + ", but rank 1 called " + second
                                   : "rank 1 called " + second + ", but rank 0 called " + first);
    });
}

/// Calls the operation with this number.
result<void> call(int which, joined_rank& here, const elements<std::uint32_t>& data,
                  const elements<std::uint32_t>& more, deadline until) {
  switch (which) {
    case 0:
      return here.group.broadcast(data.into(), 1, until);
    case 1:
      return here.group.all_gather(data.into(), until);
    case 2:
      return here.group.reduce<std::uint32_t>(data.into(), std::plus<>(), 2, until);
    case 3:
      return here.group.all_reduce<std::uint32_t>(data.into(), std::plus<>(), until);
    default:
      return here.group.all_to_all(data.from(), more.into(), until);
  }
}

class failing_collectives : public ::testing::TestWithParam<std::tuple<int, std::size_t>> {};
INSTANTIATE_TEST_SUITE_P(all, failing_collectives,
                         ::testing::Combine(::testing::Range(0, 5),
                                            ::testing::Values(std::size_t{5}, std::size_t{20000})));

// The root of the broadcast, rank 1, and a child of the tree of reduce() are missing.
TEST_P(failing_collectives, deadline_names_the_missing_ranks) {
  const auto [which, count] = GetParam();
  in_group(5, [&, which = which, count = count](joined_rank& here) {
    const std::uint32_t rank = here.group.rank();
    if (rank == 1 || rank == 3) return;
    const elements<std::uint32_t> data(here, count);
    const elements<std::uint32_t> more(here, count);
    const auto began = deadline::clock::now();
    auto failed = call(which, here, data, more, deadline::after(1s));
    EXPECT_LT(deadline::clock::now() - began, 20s);
    // A leaf of the tree of reduce() only sends. Other ranks then do not call the barrier.
    if (failed) failed = here.group.barrier(deadline::after(1s));
    ASSERT_FALSE(failed);
    const std::string text = failed.error().message();
    EXPECT_TRUE(text.find("ranks 1 and 3 had not called") != std::string::npos ||
                text.find("ranks 1, 2 and 3 had not called barrier()") != std::string::npos ||
                text.find("because of rank 1") != std::string::npos)
        << text;
    // After the failure, all barriers and collective operations return the same error.
    EXPECT_EQ(here.group.barrier(test_deadline()).error().message(), text);
    EXPECT_EQ(call(which, here, data, more, test_deadline()).error().message(), text);
  });
}

// Rank 3 waits for rank 2. Ranks 0 and 1 have already completed the broadcast.
TEST(collective, ranks_that_have_left_an_operation_are_not_missing) {
  in_group(4, [&](joined_rank& here) {
    const std::uint32_t rank = here.group.rank();
    if (rank == 2) return;
    const elements<std::uint32_t> data(here, 1);
    const auto received =
        here.group.broadcast(data.into(), 0, rank == 3 ? deadline::after(1s) : test_deadline());
    if (rank == 3) {
      expect_error(received, "rank 2 had not called broadcast() when the deadline passed");
      return;
    }
    ASSERT_TRUE(received);
    const std::vector<std::uint32_t> both{0, 1};
    for (int round = 0; round < 10; ++round)
      ASSERT_TRUE(here.group.broadcast(data.into(), 1, test_deadline(), both));
  });
}

// The root acknowledges the messages of ranks that no longer have queue pairs.
TEST(reduce, succeeds_after_the_other_ranks_have_left) {
  const test_store store;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 3));
    elements<std::uint64_t> data(here, 2048);
    data.fill([&](std::size_t at) { return at + rank; });
    while (rank == 0 && here.group.departed().size() != 2) std::this_thread::yield();
    const auto reduced =
        here.group.reduce<std::uint64_t>(data.into(), std::plus<>(), 0, test_deadline());
    ASSERT_TRUE(reduced) << reduced.error().message();
    if (rank != 0) return;
    for (std::size_t at = 0; at < data.size(); ++at) ASSERT_EQ(data[at], 3 * at + 3);
    const rank_list alone{0};
    EXPECT_TRUE(here.group.barrier(alone, test_deadline()));  // the group has not failed
  });
}

TEST(broadcast, succeeds_after_the_root_has_left) {
  const test_store store;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 3));
    elements<std::uint64_t> data(here, 2048);
    data.fill([&](std::size_t at) { return rank == 0 ? at : 0; });
    while (rank != 0 && here.group.departed().empty()) std::this_thread::yield();
    const auto received = here.group.broadcast(data.into(), 0, test_deadline());
    ASSERT_TRUE(received) << received.error().message();
    for (std::size_t at = 0; at < data.size(); ++at) ASSERT_EQ(data[at], at);
    const rank_list alone{rank};
    EXPECT_TRUE(here.group.barrier(alone, test_deadline()));  // the group has not failed
  });
}

}  // namespace
}  // namespace verbena::test
