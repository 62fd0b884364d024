// SPDX-License-Identifier: MIT
// Barriers of groups. The ranks are threads of the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/net/ranks.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/channel/operation_scope.hpp"
#include "verbena/memory/buffer_pool.hpp"

namespace verbena::test {
namespace {

using net::barrier_algorithm;
using testing_support::expect_error;

struct barrier_case {
  barrier_algorithm algorithm;
  std::uint32_t size;
};

class barriers : public ::testing::TestWithParam<barrier_case> {};

// Each rank increments the counter before the barrier. After the barrier, all ranks have
// incremented it.
// parity: ibverbs-rs-75
TEST_P(barriers, no_rank_leaves_before_all_have_entered) {
  constexpr int rounds = 50;
  const auto [algorithm, size] = GetParam();
  std::atomic<std::uint32_t> entered = 0;
  in_group(size, [&, algorithm = algorithm, size = size](joined_rank& here) {
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      ++entered;
      ASSERT_TRUE(here.group.barrier(test_deadline(), algorithm));
      ASSERT_GE(entered.load(), round * size);
      ASSERT_TRUE(here.group.barrier(test_deadline(), algorithm));
      ASSERT_EQ(entered.load(), round * size);
      ASSERT_TRUE(here.group.barrier(test_deadline(), algorithm));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(all, barriers,
                         ::testing::Values(barrier_case{barrier_algorithm::dissemination, 1},
                                           barrier_case{barrier_algorithm::dissemination, 2},
                                           barrier_case{barrier_algorithm::dissemination, 3},
                                           barrier_case{barrier_algorithm::dissemination, 5},
                                           barrier_case{barrier_algorithm::dissemination, 8},
                                           barrier_case{barrier_algorithm::binary_tree, 1},
                                           barrier_case{barrier_algorithm::binary_tree, 2},
                                           barrier_case{barrier_algorithm::binary_tree, 4},
                                           barrier_case{barrier_algorithm::binary_tree, 7},
                                           barrier_case{barrier_algorithm::central, 1},
                                           barrier_case{barrier_algorithm::central, 2},
                                           barrier_case{barrier_algorithm::central, 6}),
                         [](const auto& of) {
                           std::string name = to_string(of.param.algorithm);
                           std::ranges::replace(name, ' ', '_');
                           return name + "_of_" + std::to_string(of.param.size);
                         });

// parity: ibverbs-rs-76
TEST(barrier, subsets_and_algorithms_follow_each_other) {
  in_group(6, [&](joined_rank& here) {
    const std::vector<std::uint32_t> even{0, 2, 4};
    const std::vector<std::uint32_t> odd{1, 3, 5};
    const std::vector<std::uint32_t> some{0, 1, 4, 5};
    const std::uint32_t rank = here.group.rank();
    for (int round = 0; round < 30; ++round) {
      ASSERT_TRUE(here.group.barrier(rank % 2 == 0 ? even : odd, test_deadline()));
      if (rank % 4 < 2) {
        ASSERT_TRUE(here.group.barrier(some, test_deadline(), barrier_algorithm::binary_tree));
      }
      ASSERT_TRUE(here.group.barrier(test_deadline(), barrier_algorithm::central));
    }
  });
}

// parity: rrddmma-115
TEST(barrier, writes_before_it_are_visible_after_it) {
  in_group(4, [&](joined_rank& here) {
    auto memory =
        here.pd.allocate(4096, access::local_write | access::remote_read | access::remote_write)
            .value();
    const auto all = here.group.exchange("memory", memory.remote(), test_deadline()).value();
    const std::uint32_t rank = here.group.rank();
    for (std::uint32_t round = 1; round <= 20; ++round) {
      memory.bytes()[2048] = std::byte(round * (rank + 1));
      for (const auto& each : all)
        ASSERT_TRUE(
            here.group[each.rank].write(source(memory, 2048, 1), each.region.slice(rank, 1)));
      ASSERT_TRUE(here.group.barrier(test_deadline()));
      for (std::uint32_t from = 0; from < 4; ++from)
        ASSERT_EQ(memory.bytes()[from], std::byte(round * (from + 1)));
      ASSERT_TRUE(here.group.barrier(test_deadline()));
    }
  });
}

// parity: ibverbs-rs-68, ibverbs-rs-80
TEST(barrier, completes_in_a_scope_with_operations_in_flight) {
  in_group(3, [&](joined_rank& here) {
    auto memory = here.pd.allocate(4096, access::local_write).value();
    const std::uint32_t next = (here.group.rank() + 1) % 3;
    const std::uint32_t before = (here.group.rank() + 2) % 3;
    auto outcome = here.group[before].scope([&](operation_scope& scope) -> result<void> {
      auto received = scope.receive(sink(memory, 0, 64));
      VERBENA_TRY_VOID(here.group.barrier(test_deadline()));
      EXPECT_EQ(received.poll(), nullptr);
      VERBENA_TRY_VOID(here.group.barrier(test_deadline()));
      const auto sent = here.group[next].send(source(memory, 64, 5));
      EXPECT_TRUE(sent);
      EXPECT_EQ(received.wait().value(), 5U);
      return {};
    });
    EXPECT_TRUE(outcome);
  });
}

TEST(barrier, waits_for_room_in_a_full_queue) {
  in_group(
      2,
      [&](joined_rank& here) {
        auto memory =
            here.pd.allocate(4096, access::local_write | access::remote_read | access::remote_write)
                .value();
        const auto all = here.group.exchange("memory", memory.remote(), test_deadline()).value();
        auto& peer = here.group[1 - here.group.rank()];
        for (int round = 0; round < 50; ++round) {
          const auto written = peer.scope([&](operation_scope& scope) -> result<void> {
            static_cast<void>(
                scope.write(source(memory, 0, 8), all[1 - here.group.rank()].region.slice(8, 8)));
            return here.group.barrier(test_deadline());
          });
          ASSERT_TRUE(written);
        }
      },
      {.channels = {.queues = {.max_send_wr = 1, .max_recv_wr = 1}}});
}

class failing_barriers : public ::testing::TestWithParam<barrier_algorithm> {};

// parity: ibverbs-rs-77
TEST_P(failing_barriers, deadline_names_the_missing_ranks) {
  in_group(5, [&](joined_rank& here) {
    if (here.group.rank() == 2 || here.group.rank() == 3) return;
    const auto began = deadline::clock::now();
    const auto late = here.group.barrier(deadline::after(1s), GetParam());
    EXPECT_LT(deadline::clock::now() - began, 20s);
    ASSERT_FALSE(late);
    if (late.error().kind() == error_kind::timed_out)
      expect_error(late, "ranks 2 and 3 had not called barrier()");
    else  // another rank detected it first
      expect_error(late, "failed in a barrier because of rank 2");
    // The group has failed.
    EXPECT_EQ(here.group.barrier(test_deadline()).error().message(), late.error().message());
  });
}

// parity: ibverbs-rs-78
TEST_P(failing_barriers, failure_of_a_rank_ends_the_barrier_of_the_others) {
  in_group(4, [&](joined_rank& here) {
    if (here.group.rank() == 1) return;
    const bool hurried = here.group.rank() == 3;
    const auto began = deadline::clock::now();
    const auto failed =
        here.group.barrier(hurried ? deadline::after(300ms) : deadline::after(55s), GetParam());
    EXPECT_LT(deadline::clock::now() - began, 30s);
    expect_error(failed, hurried ? "rank 1 had not called barrier()"
                                 : "failed in a barrier because of rank 1");
  });
}

INSTANTIATE_TEST_SUITE_P(all, failing_barriers,
                         ::testing::Values(barrier_algorithm::dissemination,
                                           barrier_algorithm::binary_tree,
                                           barrier_algorithm::central),
                         [](const auto& of) {
                           std::string name = to_string(of.param);
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

// parity: ibverbs-rs-76
TEST(barrier, other_algorithm_of_a_rank_is_an_error) {
  in_group(2, [&](joined_rank& here) {
    const auto failed = here.group.barrier(test_deadline(), here.group.rank() == 0
                                                                ? barrier_algorithm::central
                                                                : barrier_algorithm::dissemination);
    ASSERT_FALSE(failed);
    const std::string text = failed.error().message();
    if (text.find("failed in a barrier because of") != std::string::npos) return;
    const std::string central = "barrier() of 2 ranks with the algorithm central";
    const std::string dissemination = "barrier() of 2 ranks with the algorithm dissemination";
    expect_error(failed, here.group.rank() == 0
                             ? "rank 1 called " + dissemination + ", but rank 0 called " + central
                             : "rank 0 called " + central + ", but rank 1 called " + dissemination);
  });
}

TEST(barrier, empty_list_of_ranks_means_all_members) {
  const test_store store;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 3));
    const rank_list none;
    ASSERT_TRUE(here.group.barrier(none, test_deadline()));
    ASSERT_TRUE(here.group.exchange("all have left", bytes_of("x"), test_deadline()));
    if (rank == 1) return;
    here.group.shrink(test_deadline()).value();
    ASSERT_EQ(members_of(here.group), (rank_list{0, 2}));
    EXPECT_TRUE(here.group.barrier(none, test_deadline()));
  });
}

// parity: ibverbs-rs-79
TEST(barrier, invalid_ranks_are_refused_and_the_group_stays_usable) {
  in_group(3, [&](joined_rank& here) {
    const auto refused = [&](std::vector<std::uint32_t> ranks, std::string_view why) {
      const auto failed = here.group.barrier(ranks, test_deadline());
      expect_error(failed, why);
      EXPECT_EQ(failed.error().kind(), error_kind::invalid_argument);
    };
    refused({0, 1, 2, 3}, "rank 3 is not less than the size of the group, 3");
    refused({0, 2, 1}, "the ranks are not in ascending order: 1 follows 2");
    refused({0, 1, 1, 2}, "rank 1 occurs twice in the list");
    refused({(here.group.rank() + 1) % 3}, "the list of ranks must contain the calling rank");
    const std::vector<std::uint32_t> alone{here.group.rank()};
    EXPECT_TRUE(here.group.barrier(alone, deadline::after(0s)));
    EXPECT_TRUE(here.group.barrier(test_deadline()));
  });
}

// Sends without receives fill the send queue of rank 0 to rank 1, so the failure cannot be
// reported.
TEST(failed_barrier, channel_without_room_for_the_failure_ends) {
  const test_store store;
  std::atomic<bool> is_done = false;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 3), {.channels = {.queues = {.max_send_wr = 2}}});
    if (rank != 0) {
      while (!is_done) std::this_thread::yield();
      return;
    }
    auto pool = buffer_pool::create(here.pd, {}).value();
    auto first = here.group[1].post_send(*pool.take(64));
    auto second = here.group[1].post_send(*pool.take(64));
    expect_error(here.group.barrier(deadline::after(300ms)), "ranks 1 and 2 had not called");
    EXPECT_NE(here.group[1].failure(), nullptr);
    EXPECT_EQ(here.group[2].failure(), nullptr);
    EXPECT_FALSE(first.wait());
    EXPECT_FALSE(second.wait());
    is_done = true;
  });
}

}  // namespace
}  // namespace verbena::test
