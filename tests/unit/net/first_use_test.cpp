// SPDX-License-Identifier: MIT
// Channels that are connected by their first operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstdint>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/net/channel_access.hpp"
#include "src/net/collectives.hpp"
#include "src/net/retry_pauses.hpp"
#include "src/net/unconnected_channels.hpp"
#include "tests/unit/net/ranks.hpp"
#include "tests/unit/net/shared_word.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

constexpr std::uint32_t many = 8;

TEST(first_use, join_connects_nothing_and_the_peer_needs_no_call) {
  std::latch read_by_0(1);
  in_group(
      many,
      [&](joined_rank& here) {
        for (std::uint32_t each = 0; each < many; ++each) EXPECT_EQ(here.group[each].qp(), nullptr);
        EXPECT_EQ(here.group.connections().connected, 0U);
        const shared_word word(here);  // rank 0 begins when all ranks have joined
        if (here.group.rank() != 0) {
          read_by_0.wait();  // does not call the group
          EXPECT_EQ(here.group.connections().connected, here.group.rank() == 5 ? 1U : 0U);
          EXPECT_EQ(here.group.connections().unused, here.group.rank() == 5 ? 1U : 0U);
          return;
        }
        ASSERT_TRUE(word.read(here, 5));
        EXPECT_EQ(word.result(), 1005U);
        EXPECT_NE(here.group[5].qp(), nullptr);
        EXPECT_EQ(here.group.connections().connected, 1U);
        read_by_0.count_down();
      },
      on_first_use());
}

// Both ranks of each pair request the connection at the same time, in different orders.
TEST(first_use, simultaneous_requests_end_with_one_connection) {
  std::barrier together(many);
  std::array<std::array<std::uint32_t, many>, many> own{};
  std::array<std::array<std::uint32_t, many>, many> remote{};
  in_group(
      many,
      [&](joined_rank& here) {
        const shared_word word(here);
        const std::uint32_t rank = here.group.rank();
        for (std::uint32_t distance = 0; distance < many; ++distance) {
          const std::uint32_t peer = distance ^ rank;  // both ranks of a pair select each other
          together.arrive_and_wait();
          const auto done = word.read(here, peer);
          ASSERT_TRUE(done) << here.group[peer].describe(done).message();
          EXPECT_EQ(word.result(), 1000 + peer);
        }
        EXPECT_EQ(here.group.connections().connected, many);
        EXPECT_EQ(here.group.connections().unused, 0U);
        for (std::uint32_t peer = 0; peer < many; ++peer) {
          const auto& queue = *here.group[peer].qp();
          own[rank][peer] = queue.native()->qp_num;
          const auto now = queue.query(queue_pair_attribute::destination).value();
          remote[rank][peer] = now.destination().value().value();
        }
        together.arrive_and_wait();  // the other ranks have read the word
      },
      on_first_use());
  for (std::uint32_t a = 0; a < many; ++a)
    for (std::uint32_t b = 0; b < many; ++b) EXPECT_EQ(own[a][b], remote[b][a]);
}

TEST(first_use, messages_and_collective_operations_connect) {
  in_group(
      many,
      [&](joined_rank& here) {
        const shared_word word(here);
        const std::uint32_t rank = here.group.rank();
        for (int round = 0; round < 3; ++round) {
          word.value() = rank + 1;
          ASSERT_TRUE(here.group.all_reduce<std::uint64_t>(sink(word.memory, 0, 8), std::plus<>(),
                                                           test_deadline()));
          EXPECT_EQ(word.value(), 36U);
          ASSERT_TRUE(here.group.barrier(test_deadline()));
        }
        // Recursive doubling and dissemination use few pairs.
        EXPECT_LT(here.group.connections().connected, many);
        const std::uint32_t other = rank ^ 7U;
        const auto outcome = here.group[other].scope([&](operation_scope& scope) -> result<void> {
          auto received = scope.receive(sink(word.memory, 16, 8));
          if (const auto sent = here.group[other].send(source(word.memory, 0, 8)); !sent)
            return sent.error();
          EXPECT_EQ(received.wait().value(), 8U);
          return {};
        });
        EXPECT_TRUE(outcome);
      },
      on_first_use());
}

TEST(first_use, operations_of_several_ranks_connect) {
  std::barrier together(4);
  in_group(
      4,
      [&](joined_rank& here) {
        const shared_word word(here);
        std::vector<net::peer_read> parts;
        parts.reserve(4);
        for (std::uint32_t each = 0; each < 4; ++each)
          parts.push_back({.from = {.rank = each, .region = word.peers[each].region.slice(0, 8)},
                           .into = sink(word.memory, 8 + 8 * each, 8)});
        ASSERT_TRUE(here.group.channels().gather(parts));
        for (std::uint32_t each = 0; each < 4; ++each)
          EXPECT_EQ((&word.value())[1 + each], 1000 + each);
        together.arrive_and_wait();
      },
      on_first_use());
}

// Seven ranks send requests to rank 0 at the same time. Rank 0 serves one request at a time.
TEST(first_use, requests_beyond_the_limit_are_repeated) {
  std::barrier together(many);
  in_group(
      many,
      [&](joined_rank& here) {
        const shared_word word(here);
        together.arrive_and_wait();
        if (here.group.rank() != 0) {
          const auto done = word.read(here, 0);
          EXPECT_TRUE(done) << here.group[0].describe(done).message();
        }
        together.arrive_and_wait();
        if (here.group.rank() != 0) return;
        EXPECT_EQ(here.group.connections().connected, many - 1);
        EXPECT_EQ(here.group.connections().requests_accepted, many - 1);
      },
      on_first_use({.max_accepting = 1, .seed = 7}));
}

TEST(first_use, budget_refuses_and_names_its_side) {
  std::barrier together(4);
  const net::queue_pair_budget budget(2);
  const test_store store;
  for_each_rank(4, [&](std::uint32_t rank) {
    net::first_use_options limits;
    if (rank == 0) limits.budget = budget;
    joined_rank here(store.member(rank, 4), on_first_use(limits));
    const shared_word word(here);
    together.arrive_and_wait();
    if (rank == 0) {
      EXPECT_TRUE(word.read(here, 1));
      EXPECT_TRUE(word.read(here, 2));
      EXPECT_EQ(budget.in_use(), 2U);
    }
    together.arrive_and_wait();
    // Otherwise, rank 0 could close the connections that only this rank has used.
    if (rank == 1 || rank == 2) {
      EXPECT_TRUE(word.read(here, 0));
    }
    together.arrive_and_wait();
    if (rank == 0) {
      const auto refused = word.read(here, 3);
      EXPECT_EQ(refused.refusal(), refusal::connect_failed);
      EXPECT_EQ(refused.code(), ENOBUFS);
      EXPECT_EQ(refused.delivery(), delivery::not_done);
      const auto why = here.group[3].describe(refused).message();
      EXPECT_NE(why.find("rank 3 cannot be connected: the budget of this process, 2 queue pairs"),
                std::string::npos)
          << why;
      EXPECT_TRUE(word.read(here, 1));  // pairs that are connected remain usable
    }
    together.arrive_and_wait();
    if (rank == 3) {
      const auto refused = word.read(here, 0);
      EXPECT_EQ(refused.code(), ENOBUFS);
      const auto why = here.group[0].describe(refused).message();
      EXPECT_NE(
          why.find("rank 0 cannot connect: all 2 queue pairs of its queue_pair_budget are in use"),
          std::string::npos)
          << why;
      EXPECT_TRUE(word.read(here, 2));
    }
    together.arrive_and_wait();
  });
  EXPECT_EQ(budget.in_use(), 0U);
}

TEST(first_use, operation_for_a_rank_that_has_left_fails_at_once) {
  std::barrier left(3);
  const test_store store;
  for_each_rank(3, [&](std::uint32_t rank) {
    std::optional<joined_rank> here(std::in_place, store.member(rank, 3), on_first_use());
    const shared_word word(*here);
    if (rank == 2) {
      here.reset();
      return left.arrive_and_drop();
    }
    left.arrive_and_wait();
    const auto refused = word.read(*here, 2, abort_at(test_deadline()));
    EXPECT_EQ(refused.refusal(), refusal::connect_failed);
    EXPECT_EQ(refused.code(), ECONNREFUSED);
    EXPECT_NE(here->group[2].describe(refused).message().find("rank 2 has ended or left"),
              std::string::npos);
    // Other pairs still connect, and a barrier names the rank.
    EXPECT_TRUE(word.read(*here, 1 - rank));
    const auto failed = here->group.barrier(test_deadline());
    ASSERT_FALSE(failed);
    EXPECT_NE(failed.error().message().find("rank 2"), std::string::npos)
        << failed.error().message();
    left.arrive_and_wait();
  });
}

TEST(first_use, survivors_shrink_and_connect_a_rank_that_rejoins) {
  std::barrier together(4);
  std::barrier step(3);
  const test_store store;
  for_each_rank(4, [&](std::uint32_t rank) {
    std::optional<joined_rank> here(std::in_place, store.member(rank, 4), on_first_use());
    {
      const shared_word word(*here);
      EXPECT_TRUE(word.read(*here, (rank + 1) % 4));
      together.arrive_and_wait();
    }
    if (rank == 3) {
      here.reset();
      const context device = testing_support::open_soft();
      const auto pd = device.allocate_pd().value();
      auto back = net::group::rejoin(pd, store.member(3, 4), test_deadline(), on_first_use());
      ASSERT_TRUE(back) << back.error().message();
      EXPECT_EQ(back->connections().connected, 0U);
      together.arrive_and_wait();
      EXPECT_TRUE(back->barrier(test_deadline()));
      EXPECT_TRUE(back->barrier(test_deadline()));
      return;
    }
    EXPECT_FALSE(here->group.barrier(test_deadline()));
    ASSERT_TRUE(here->group.shrink(test_deadline()));
    EXPECT_EQ(members_of(here->group), (rank_list{0, 1, 2}));
    EXPECT_TRUE(here->group.barrier(test_deadline()));
    step.arrive_and_wait();
    const rank_list back{3};
    const auto readmitted = here->group.readmit(back, test_deadline());
    ASSERT_TRUE(readmitted) << readmitted.error().message();
    together.arrive_and_wait();
    const auto met = here->group.barrier(test_deadline());
    EXPECT_TRUE(met) << met.error().message();
    EXPECT_TRUE(here->group.barrier(test_deadline()));
  });
}

TEST(first_use, budget_that_was_moved_from_remains) {
  net::queue_pair_budget first(3);
  // NOLINTNEXTLINE(performance-move-const-arg): a move copies
  const net::queue_pair_budget second = std::move(first);
  EXPECT_EQ(first.limit(), 3U);  // NOLINT(bugprone-use-after-move): a move copies
  EXPECT_EQ(second.in_use(), 0U);
}

TEST(first_use, invalid_limits_are_refused) {
  const test_store store;
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  expect_error(
      net::group::join(pd, store.member(0, 1), test_deadline(), on_first_use({.max_accepting = 0})),
      "max_accepting is 0");
  for (const char* host : {"0.0.0.0", "::"})
    expect_error(
        net::group::join(pd, store.member(0, 1), test_deadline(), on_first_use({.host = host})),
        "first_use_options::host is " + std::string(host));
}

TEST(first_use, a_pause_doubles_and_is_random) {
  using net::detail::retry_pauses;
  constexpr retry_pauses::range within{.first = 1ms, .longest = 250ms};
  retry_pauses a(within, 1);
  retry_pauses equal(within, 1);
  retry_pauses other(within, 2);
  auto most = within.first;
  int different = 0;
  for (int i = 0; i < 40; ++i) {
    const auto pause = a.next();
    EXPECT_GE(pause, most / 2);
    EXPECT_LE(pause, most);
    EXPECT_EQ(pause, equal.next());
    different += pause != other.next() ? 1 : 0;
    most = std::min(most * 2, within.longest);
  }
  EXPECT_GT(different, 30);
}

TEST(first_use, reconnect_before_the_first_use_is_refused) {
  in_group(
      2,
      [&](joined_rank& here) {
        const shared_word word(here);
        const std::uint32_t other = 1 - here.group.rank();
        const auto refused = here.group[other].prepare_reconnect();
        expect_error(refused, "post an operation, which connects it");
        EXPECT_EQ(refused.error().call(), "channel::prepare_reconnect");
        EXPECT_TRUE(word.read(here, other));
        EXPECT_TRUE(here.group.barrier(test_deadline()));  // the other rank has read the word
      },
      on_first_use());
}

/// Records the durations of attempts to connect. Each attempt fails when its time limit passes.
class failing_connections final : public verbena::detail::first_use {
 public:
  [[nodiscard]] result<void> connect(verbena::detail::channel_core& /*which*/,
                                     std::uint32_t /*peer*/, deadline until) override {
    while (!until.expired()) std::this_thread::yield();
    limits.push_back(until);
    return error::timed_out("connect", {}, {});
  }

  std::vector<deadline> limits;
};

TEST(first_use, operations_without_a_deadline_connect_for_at_most_the_timeout) {
  const test_store store;
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  auto client = net::store_client::connect(store.member(0, 2), test_deadline()).value();
  auto board = net::detail::rank_board::create(pd, 0, 2).value();
  auto channels = net::detail::create_unconnected(pd, 2, {}, {}).value();
  const auto by = std::make_shared<failing_connections>();
  const rank_list all{0, 1};
  for (const std::uint32_t each : all)
    net::detail::channel_access::core_of(channels[each]).connect_on_first_use(by, each);
  ASSERT_TRUE(board.connect(std::vector<remote_region>(2, board.remote()), all));
  board.set_first_use_timeout(350ms);
  auto begun = net::detail::begin_barrier({board, channels, client, all, deadline::never()},
                                          net::barrier_algorithm::dissemination);
  ASSERT_TRUE(begun);
  expect_error(board.run(*begun), "rank 1 is not reachable");
  ASSERT_GE(by->limits.size(), 2U);
  EXPECT_LT(by->limits.back().when() - by->limits.front().when(), 300ms);
}

TEST(first_use, operations_of_several_ranks_connect_until_their_limit) {
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  auto channels = net::detail::create_unconnected(pd, 2, {}, {}).value();
  const auto by = std::make_shared<failing_connections>();
  for (const std::uint32_t each : {0U, 1U})
    net::detail::channel_access::core_of(channels[each]).connect_on_first_use(by, each);
  const auto memory = pd.allocate(64, access::local_write).value();
  const auto limit = abort_after(20ms);
  const rank_list to{1};
  EXPECT_FALSE(channels.in_steps().multicast(to, source(memory), limit).wait());
  EXPECT_FALSE(channels.multicast(to, source(memory), abort_at(limit)));
  ASSERT_FALSE(by->limits.empty());
  for (const auto each : by->limits) EXPECT_EQ(each.when(), limit.when().when());
}

TEST(first_use, operation_after_a_late_connection_is_refused_and_its_channel_remains) {
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  auto channels = net::detail::create_unconnected(pd, 2, {}, {}).value();
  net::detail::channel_access::core_of(channels[0])
      .connect_on_first_use(std::make_shared<failing_connections>(), 0);
  const auto cq = channels.hub().cq();
  auto queue = pd.create_qp<rc>(cq, cq, {}).value();
  const auto self = queue.endpoint();
  net::detail::channel_access::core_of(channels[1])
      .connect_first(std::move(queue).handshake(self).value());
  const auto memory = pd.allocate(64, access::local_write).value();
  std::array parts{net::peer_receive{.rank = 0, .into = sink(memory, 0, 8)},
                   net::peer_receive{.rank = 1, .into = sink(memory, 0, 8)}};
  EXPECT_FALSE(channels.gather(parts, abort_after(20ms)));
  EXPECT_EQ(parts[0].result.refusal(), refusal::connect_failed);
  EXPECT_EQ(parts[1].result.refusal(), refusal::limit_passed);
  EXPECT_EQ(channels[1].failure(), nullptr);
}

/// No attempt succeeds. Another rank reports a failure during the second attempt.
class late_connections final : public verbena::detail::first_use {
 public:
  explicit late_connections(std::uint64_t& failure) : failure_(failure) {}
  [[nodiscard]] result<void> connect(verbena::detail::channel_core& /*which*/,
                                     std::uint32_t /*peer*/, deadline until) override {
    EXPECT_LT(until.when(), deadline::after(20s).when()) << "the operation would look too late";
    if (++attempts_ == 2)
      std::atomic_ref(failure_).store(std::uint64_t{2 + 1} << 32U | 3U);  // by rank 2, for rank 3
    return error::timed_out("connect", {}, {});
  }
  [[nodiscard]] int attempts() const { return attempts_; }

 private:
  std::uint64_t& failure_;
  int attempts_ = 0;
};

TEST(first_use, collective_operation_that_connects_ends_when_another_rank_reports_a_failure) {
  const test_store store;
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  auto client = net::store_client::connect(store.member(0, 4), test_deadline()).value();
  auto board = net::detail::rank_board::create(pd, 0, 4).value();
  auto channels = net::detail::create_unconnected(pd, 4, {}, {}).value();
  const auto late = std::make_shared<late_connections>(
      *reinterpret_cast<std::uint64_t*>(board.remote().address()));
  const rank_list all{0, 1, 2, 3};
  for (const std::uint32_t each : all)
    net::detail::channel_access::core_of(channels[each]).connect_on_first_use(late, each);
  ASSERT_TRUE(board.connect(std::vector<remote_region>(4, board.remote()), all));
  auto begun = net::detail::begin_barrier({board, channels, client, all, test_deadline()},
                                          net::barrier_algorithm::dissemination);
  ASSERT_TRUE(begun);
  expect_error(board.run(*begun), "rank 2 failed in a barrier because of rank 3");
  EXPECT_GE(late->attempts(), 2);
}

}  // namespace
}  // namespace verbena::test
