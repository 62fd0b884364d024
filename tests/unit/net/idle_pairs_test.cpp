// SPDX-License-Identifier: MIT
// Idle connections of a group are closed, and come back at the next operation.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <optional>

#include "tests/unit/net/ranks.hpp"
#include "tests/unit/net/shared_word.hpp"

namespace verbena::test {
namespace {

/// Expects a read of the word of a rank to succeed.
void expect_read(joined_rank& here, const shared_word& word, std::uint32_t rank) {
  const auto done = word.read(here, rank);
  ASSERT_TRUE(done) << here.group[rank].describe(done).message();
  ASSERT_EQ(word.result(), 1000 + rank);
}

/// Calls close_idle() twice: the first call finds the connections that are used.
std::uint32_t close_unused(joined_rank& here) {
  const std::uint32_t first = here.group.close_idle(test_deadline());
  return first + here.group.close_idle(test_deadline());
}

TEST(idle_pairs, are_closed_by_the_second_call_and_connected_by_the_next_operation) {
  std::barrier together(2);
  in_group(
      2,
      [&](joined_rank& here) {
        const shared_word word(here);
        const bool is_client = here.group.rank() == 0;
        for (std::uint64_t round = 1; round <= 3; ++round) {
          together.arrive_and_wait();
          if (is_client) {
            expect_read(here, word, 1);
            EXPECT_EQ(here.group.connections().unused, 0U);
            EXPECT_EQ(here.group.close_idle(test_deadline()), 0U);
            EXPECT_EQ(here.group.connections().unused, 1U);
            expect_read(here, word, 1);  // used since the call
            EXPECT_EQ(here.group.connections().requests_sent, round);
            EXPECT_EQ(here.group.close_idle(test_deadline()), 0U);
            EXPECT_EQ(here.group.close_idle(test_deadline()), 1U);
            EXPECT_EQ(here.group[1].qp(), nullptr);
          }
          together.arrive_and_wait();
          EXPECT_EQ(here.group.connections().connected, 0U);
          EXPECT_EQ(here.group.connections().closed, round);
        }
      },
      on_first_use());
}

TEST(idle_pairs, of_a_client_with_a_small_budget_are_replaced) {
  constexpr std::uint32_t servers = 12;
  constexpr std::uint32_t limit = 4;
  std::barrier together(servers + 1);
  const net::queue_pair_budget budget(limit);
  const test_store store;
  for_each_rank(servers + 1, [&](std::uint32_t rank) {
    net::first_use_options limits;
    if (rank == 0) limits.budget = budget;
    joined_rank here(store.member(rank, servers + 1), on_first_use(limits));
    const shared_word word(here);
    together.arrive_and_wait();
    for (int round = 0; rank == 0 && round < 5; ++round)
      for (std::uint32_t each = 1; each <= servers; ++each) {
        expect_read(here, word, each);
        expect_read(here, word, 1);
        EXPECT_LE(budget.in_use(), limit);
        EXPECT_LE(here.group.connections().connected, limit);
      }
    together.arrive_and_wait();
    const auto now = here.group.connections();
    if (rank == 0) {
      EXPECT_GE(now.closed, 5 * (servers - 1) - limit);
    } else if (rank == 1) {
      EXPECT_LE(now.closed, 2U) << "a connection that is used often was closed often";
    } else {
      EXPECT_EQ(now.requests_accepted, 5U);
    }
    together.arrive_and_wait();
  });
  EXPECT_EQ(budget.in_use(), 0U);
}

TEST(idle_pairs, that_both_sides_used_are_closed_by_two_calls_on_both_sides) {
  std::barrier together(4);
  in_group(
      4,
      [&](joined_rank& here) {
        const shared_word word(here);
        for (std::uint64_t round = 1; round <= 3; ++round) {
          for (std::uint32_t each = 0; each < 4; ++each) expect_read(here, word, each);
          EXPECT_TRUE(here.group.barrier(test_deadline()));
          together.arrive_and_wait();
          EXPECT_EQ(here.group.close_idle(test_deadline()), 0U);
          together.arrive_and_wait();
          static_cast<void>(here.group.close_idle(test_deadline()));
          together.arrive_and_wait();
          EXPECT_EQ(here.group.connections().connected, 0U);
          EXPECT_EQ(here.group.connections().closed, 4 * round);
          together.arrive_and_wait();
          expect_works(here);
        }
      },
      on_first_use());
}

// Rank 0 gives its side back, and rank 1 closes the connection later.
TEST(idle_pairs, that_the_peer_uses_are_closed_when_the_peer_asks) {
  std::barrier together(2);
  in_group(
      2,
      [&](joined_rank& here) {
        const shared_word word(here);
        const std::uint32_t other = 1 - here.group.rank();
        expect_read(here, word, other);
        together.arrive_and_wait();
        if (other == 1) {
          EXPECT_EQ(close_unused(here), 0U);
          EXPECT_EQ(here.group.connections().unused, 1U);
        }
        together.arrive_and_wait();
        if (other == 0) {
          expect_read(here, word, 0);  // this side works
          EXPECT_EQ(close_unused(here), 1U);
        }
        together.arrive_and_wait();
        EXPECT_EQ(here.group.connections().connected, 0U);
        together.arrive_and_wait();
      },
      on_first_use());
}

TEST(idle_pairs, of_a_peer_that_reads_continuously_are_not_closed) {
  std::barrier together(2);
  std::atomic<bool> has_ended = false;
  in_group(
      2,
      [&](joined_rank& here) {
        const shared_word word(here);
        if (here.group.rank() == 0) {
          expect_read(here, word, 1);
          together.arrive_and_wait();
          for (int i = 0; i < 300; ++i) {
            expect_read(here, word, 1);
            EXPECT_EQ(close_unused(here), 0U);
          }
          has_ended = true;
        } else {
          expect_read(here, word, 0);
          together.arrive_and_wait();
          while (!has_ended) expect_read(here, word, 0);
        }
        EXPECT_EQ(here.group.connections().closed, 0U);
        EXPECT_EQ(here.group.connections().connected, 1U);
        together.arrive_and_wait();
      },
      on_first_use());
}

// The peer begins to read while this side closes, so it connects in all states of the close.
TEST(idle_pairs, of_a_peer_that_begins_to_read_are_connected_again) {
  std::barrier together(2);
  std::atomic<bool> has_ended = false;
  in_group(
      2,
      [&](joined_rank& here) {
        const shared_word word(here);
        together.arrive_and_wait();
        if (here.group.rank() == 0) {
          std::uint32_t closed = 0;
          const auto until = test_deadline();
          while (closed < 100 && !until.expired()) {
            expect_read(here, word, 1);
            closed += close_unused(here);
          }
          EXPECT_EQ(closed, 100U);
          has_ended = true;
        } else {
          while (!has_ended) {
            expect_read(here, word, 0);
            static_cast<void>(close_unused(here));
          }
        }
        together.arrive_and_wait();
      },
      on_first_use());
}

TEST(idle_pairs, that_both_sides_close_at_once_never_hang_or_fail) {
  std::barrier together(2);
  in_group(
      2,
      [&](joined_rank& here) {
        const shared_word word(here);
        const std::uint32_t other = 1 - here.group.rank();
        for (std::uint64_t round = 1; round <= 1000; ++round) {
          expect_read(here, word, other);
          together.arrive_and_wait();
          EXPECT_EQ(here.group.close_idle(test_deadline()), 0U);
          together.arrive_and_wait();
          static_cast<void>(here.group.close_idle(test_deadline()));
          if (round % 2 == 0) {
            together.arrive_and_wait();
            ASSERT_EQ(here.group.connections().connected, 0U);
            together.arrive_and_wait();
          }
        }
      },
      on_first_use());
}

TEST(idle_pairs, with_a_posted_receive_stay_connected) {
  std::barrier together(2);
  in_group(
      2,
      [&](joined_rank& here) {
        const shared_word word(here);
        const std::uint32_t other = 1 - here.group.rank();
        if (here.group.rank() == 0) {
          const auto outcome = here.group[1].scope([&](operation_scope& scope) -> result<void> {
            auto received = scope.receive(sink(word.memory, 16, 8));
            EXPECT_EQ(close_unused(here), 0U);
            EXPECT_EQ(here.group.connections().unused, 0U);
            together.arrive_and_wait();
            EXPECT_EQ(received.wait().value(), 8U);
            return {};
          });
          EXPECT_TRUE(outcome);
          EXPECT_EQ((&word.value())[2], 1001U);
        } else {
          together.arrive_and_wait();
          EXPECT_TRUE(here.group[0].send(source(word.memory, 0, 8)));
        }
        together.arrive_and_wait();
        // Messages arrive also after the connection was closed.
        for (int round = 0; round < 2; ++round) {
          static_cast<void>(here.group.close_idle(test_deadline()));
          together.arrive_and_wait();
          static_cast<void>(here.group.close_idle(test_deadline()));
          together.arrive_and_wait();
          EXPECT_EQ(here.group.connections().connected, 0U);
          together.arrive_and_wait();
          const auto outcome = here.group[other].scope([&](operation_scope& scope) -> result<void> {
            auto received = scope.receive(sink(word.memory, 24, 8));
            if (const auto sent = here.group[other].send(source(word.memory, 0, 8)); !sent)
              return sent.error();
            EXPECT_EQ(received.wait().value(), 8U);
            return {};
          });
          EXPECT_TRUE(outcome);
          EXPECT_EQ((&word.value())[3], 1000 + other);
          together.arrive_and_wait();
        }
      },
      on_first_use());
}

TEST(idle_pairs, whose_queue_pair_the_program_has_stay_connected) {
  std::barrier together(2);
  in_group(
      2,
      [&](joined_rank& here) {
        const shared_word word(here);
        if (here.group.rank() == 0) {
          expect_read(here, word, 1);
          EXPECT_NE(here.group[1].qp(), nullptr);
          EXPECT_EQ(close_unused(here), 0U);
          EXPECT_EQ(here.group.connections().unused, 0U);
        }
        together.arrive_and_wait();
      },
      on_first_use());
}

TEST(idle_pairs, do_not_hinder_shrink) {
  std::barrier together(4);
  std::barrier rest(3);
  const test_store store;
  for_each_rank(4, [&](std::uint32_t rank) {
    std::optional<joined_rank> here(std::in_place, store.member(rank, 4), on_first_use());
    const shared_word word(*here);
    for (std::uint32_t each = 0; each < 4; ++each) expect_read(*here, word, each);
    together.arrive_and_wait();
    EXPECT_EQ(here->group.close_idle(test_deadline()), 0U);
    together.arrive_and_wait();
    // Ranks 0 and 1 keep connections that no channel uses.
    if (rank >= 2) static_cast<void>(here->group.close_idle(test_deadline()));
    together.arrive_and_wait();
    if (rank == 3) return here.reset();
    ASSERT_TRUE(here->group.shrink(test_deadline()));
    EXPECT_EQ(members_of(here->group), (rank_list{0, 1, 2}));
    expect_works(*here);
    static_cast<void>(close_unused(*here));
    expect_works(*here);
    rest.arrive_and_wait();
  });
}

// The rank that waits has the only connection that was used.
TEST(idle_pairs, inform_a_rank_that_waits_in_a_barrier_of_shrink) {
  std::barrier together(2);
  in_group(
      2,
      [&](joined_rank& here) {
        const shared_word word(here);
        if (here.group.rank() == 0) {
          expect_read(here, word, 1);
          EXPECT_EQ(here.group.close_idle(test_deadline()), 0U);
          EXPECT_EQ(here.group.connections().unused, 1U);
        }
        together.arrive_and_wait();
        if (here.group.rank() == 1)
          testing_support::expect_error(here.group.barrier(test_deadline()), "called shrink()");
        ASSERT_TRUE(here.group.shrink(test_deadline()));
        expect_works(here);
      },
      on_first_use());
}

TEST(idle_pairs, of_a_group_that_connects_at_join_stay_connected) {
  in_group(2, [&](joined_rank& here) {
    EXPECT_EQ(close_unused(here), 0U);
    EXPECT_NE(here.group[0].qp(), nullptr);
  });
}

}  // namespace
}  // namespace verbena::test
