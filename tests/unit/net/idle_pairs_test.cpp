// SPDX-License-Identifier: MIT
// Idle connections of a group are closed, and come back at the next operation.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "src/net/channel_access.hpp"
#include "src/net/connection_message.hpp"
#include "src/net/pair_maker.hpp"
#include "src/net/pair_table.hpp"
#include "src/net/peer_connector.hpp"
#include "src/net/queue_pair_share.hpp"
#include "src/net/unconnected_channels.hpp"
#include "tests/unit/net/ranks.hpp"
#include "tests/unit/net/shared_word.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

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
          expect_error(here.group.barrier(test_deadline()), "called shrink()");
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

/// The connector and the channels of rank 0 of 3. The test sends the messages of rank 1.
class close_requests : public ::testing::Test {
 protected:
  using answer = net::detail::close_answer;

  void SetUp() override {
    // The tests answer requests from other threads, which a loaded host can delay.
    connector_ = net::detail::peer_connector::start(
                     {.rank = 0, .size = 3, .host = "127.0.0.1", .time_to_close = 20s},
                     {.domain = pd_, .cq = channels_.hub().cq(), .options = {}, .budget = budget_},
                     {.timeout = 20s})
                     .value();
    connector_->open(4, rank_list{0, 1, 2});
    connector_->set_channels(channels_);
    const auto own = connector_->contact({});
    peer_.emplace(bringup::listener::open({.host = "127.0.0.1"}).value());
    connector_->set_contacts(
        {own, {.board = {}, .token = own.token, .acceptor = peer_->local_address()}, own});
    for (const std::uint32_t each : {0U, 1U, 2U}) core(each).connect_on_first_use(connector_, each);
  }
  void TearDown() override { connector_->end(); }

  [[nodiscard]] verbena::detail::channel_core& core(std::uint32_t rank) {
    return net::detail::channel_access::core_of(channels_[rank]);
  }
  [[nodiscard]] result<void> use(std::uint32_t rank, deadline until = test_deadline()) {
    return core(rank).qp() ? result<void>() : connector_->connect(core(rank), rank, until);
  }
  [[nodiscard]] prepared_queue_pair<rc> make_queue() const {
    return pd_.create_qp<rc>(cq_, cq_, {}).value();
  }
  [[nodiscard]] bringup::stream stream_to_rank_0() const {
    return bringup::stream::connect(connector_->contact({}).acceptor, test_deadline()).value();
  }
  [[nodiscard]] net::detail::close_request request(const endpoint& of, std::uint32_t number) const {
    return {.token = connector_->contact({}).token,
            .rank = 1,
            .epoch = 4,
            .local = of,
            .number = number};
  }
  /// Sends a request to rank 0 and returns the answer.
  [[nodiscard]] answer ask(const net::detail::close_request& what) const {
    auto with = stream_to_rank_0();
    with.send(net::detail::encode(what), test_deadline()).value();
    return net::detail::decode_close_answer(with.receive(test_deadline()).value()).value();
  }
  /// Connects rank 0 at the request of rank 1. Returns the endpoint of rank 1.
  endpoint connect_from_peer() {
    const auto queue = make_queue();
    auto with = stream_to_rank_0();
    const net::detail::connect_request wanted{
        .token = connector_->contact({}).token, .rank = 1, .epoch = 4, .local = queue.endpoint()};
    with.send(net::detail::encode(wanted), test_deadline()).value();
    EXPECT_TRUE(net::detail::decode_connect_answer(with.receive(test_deadline()).value())->local);
    with.send(net::detail::encode_confirmation(), test_deadline()).value();
    EXPECT_TRUE(net::detail::check_confirmation(with.receive(test_deadline()).value()));
    // The acceptor closes the stream after it has ended the request. While a request is in
    // progress, an operation without room repeats its requests to close.
    EXPECT_FALSE(with.receive(test_deadline()));
    return queue.endpoint();
  }
  /// Detaches the queue pair of the channel to rank 1.
  void detach() {
    EXPECT_EQ(connector_->close_idle(test_deadline()), 0U);
    EXPECT_FALSE(core(1).qp());
    EXPECT_EQ(connector_->statistics().unused, 1U);
  }
  /// Rank 1 accepts a connection, receives a request to close and returns its number. Answers if
  /// `with` is set; otherwise closes the connection.
  std::uint32_t serve(std::optional<answer> with) {
    auto from = peer_->accept(test_deadline()).value();
    const auto wanted =
        net::detail::decode_close_request(from.receive(test_deadline()).value()).value();
    EXPECT_EQ(wanted.rank, 0U);
    if (with) from.send(net::detail::encode(*with), test_deadline()).value();
    return wanted.number;
  }

  context device_ = testing_support::open_soft();
  protection_domain pd_ = device_.allocate_pd().value();
  completion_queue cq_ = device_.create_cq(64).value();
  net::multi_channel channels_ = net::detail::create_unconnected(pd_, 3, {}, {}).value();
  net::queue_pair_budget budget_{2};
  std::shared_ptr<net::detail::peer_connector> connector_;
  std::optional<bringup::listener> peer_;
  /// Withdraws a published connection while a request to close it is in progress.
  void expect_no_connection_after_withdrawal(answer of_peer) {
    net::detail::pair_table pairs(0, 2, 1);
    pairs.open(4, rank_list{0, 1});
    auto queue = make_queue();
    const auto self = queue.endpoint();
    auto made = net::detail::unmade_pair::connect({.share = {}, .queue = std::move(queue)}, self);
    auto claim = *std::move(pairs.claim(1, 4).claim);
    ASSERT_TRUE(claim.publish(*std::move(made)));
    {
      auto closing = pairs.begin_closing(1);
      ASSERT_TRUE(closing);
      claim.withdraw();
      closing->end(of_peer);
    }
    EXPECT_EQ(pairs.statistics().connected, 0U);
  }
};

TEST_F(close_requests, that_are_malformed_or_of_other_groups_close_nothing) {
  const auto end = connect_from_peer();
  auto forged = request(end, 1);
  forged.token[0] ^= std::byte{1};
  auto no_rank = request(end, 1);
  no_rank.rank = 3;
  const auto good = net::detail::encode(request(end, 1));
  const std::vector<std::vector<std::byte>> messages{{std::byte{4}},
                                                     {good.begin(), good.end() - 1},
                                                     net::detail::encode(forged),
                                                     net::detail::encode(no_rank)};
  for (const auto& each : messages) {
    auto with = stream_to_rank_0();
    ASSERT_TRUE(with.send(each, test_deadline()));
    const auto received = with.receive(test_deadline());
    EXPECT_TRUE(!received && !received.error().is(std::errc::timed_out));
  }
  EXPECT_EQ(connector_->statistics().malformed, messages.size());
  auto other_epoch = request(end, 1);
  other_epoch.epoch = 3;
  EXPECT_EQ(ask(other_epoch), answer::other_epoch);
  auto other_rank = request(end, 1);
  other_rank.rank = 2;
  EXPECT_EQ(ask(other_rank), answer::unknown);
  EXPECT_EQ(connector_->statistics().connected, 1U);
  EXPECT_EQ(ask(request(end, 1)), answer::closed);
  EXPECT_EQ(connector_->statistics().connected, 0U);
  EXPECT_EQ(budget_.in_use(), 0U);
}

TEST_F(close_requests, that_are_late_close_nothing) {
  const auto first = connect_from_peer();
  EXPECT_EQ(ask(request(first, 1)), answer::closed);
  EXPECT_EQ(ask(request(first, 2)), answer::unknown);
  const auto second = connect_from_peer();
  EXPECT_EQ(ask(request(first, 3)), answer::unknown) << "the connection is a newer one";
  ASSERT_TRUE(use(1));
  EXPECT_EQ(ask(request(second, 2)), answer::in_use);
  detach();
  // Rank 1 has received the answer to request 2, and may use the connection.
  EXPECT_EQ(ask(request(second, 1)), answer::unknown);
  EXPECT_EQ(ask(request(second, 2)), answer::unknown);
  EXPECT_EQ(connector_->statistics().connected, 1U);
  EXPECT_EQ(ask(request(second, 3)), answer::closed);
  EXPECT_EQ(connector_->statistics().closed, 2U);
}

// The peer may or may not have closed its side, so the next operation asks again.
TEST_F(close_requests, without_an_answer_are_repeated_by_the_next_operation) {
  connect_from_peer();
  ASSERT_TRUE(use(1));
  const auto number = core(1).qp()->native()->qp_num;
  detach();
  std::thread first([&] { EXPECT_EQ(serve(std::nullopt), 1U); });
  EXPECT_EQ(connector_->close_idle(test_deadline()), 0U);
  first.join();
  EXPECT_EQ(connector_->statistics().connected, 1U);
  std::thread second([&] {
    EXPECT_EQ(serve(std::nullopt), 2U);
    EXPECT_EQ(serve(answer::other_epoch), 3U);
    EXPECT_EQ(serve(answer::in_use), 4U);
  });
  EXPECT_TRUE(use(1));
  second.join();
  EXPECT_EQ(core(1).qp()->native()->qp_num, number) << "the connection was not closed";
  detach();
  std::thread third([&] {
    EXPECT_EQ(serve(std::nullopt), 5U);
    EXPECT_EQ(serve(answer::closed), 6U);
    peer_.reset();
  });
  EXPECT_EQ(connector_->close_idle(test_deadline()), 0U);
  const auto refused = use(1);
  third.join();
  EXPECT_EQ(refused.error().code(), ECONNREFUSED);
  EXPECT_EQ(connector_->statistics().connected, 0U);
  EXPECT_EQ(connector_->statistics().closed, 1U);
}

TEST_F(close_requests, without_an_answer_leave_the_peer_the_right_to_connect) {
  connect_from_peer();
  ASSERT_TRUE(use(1));
  detach();
  std::thread peer([&] { EXPECT_EQ(serve(std::nullopt), 1U); });
  EXPECT_EQ(connector_->close_idle(test_deadline()), 0U);
  peer.join();
  expect_error(use(1, deadline::after(0ms)), "was not connected in time");
  const auto end = connect_from_peer();
  EXPECT_EQ(budget_.in_use(), 1U);
  ASSERT_TRUE(use(1));
  EXPECT_EQ(ask(request(end, 1)), answer::in_use) << "the channel has the earlier connection";
}

TEST_F(close_requests, that_cross_close_both_sides) {
  const auto end = connect_from_peer();
  ASSERT_TRUE(use(1));
  detach();
  std::thread peer([&] {
    auto from = peer_->accept(test_deadline()).value();
    static_cast<void>(from.receive(test_deadline()).value());
    EXPECT_EQ(connector_->statistics().connected, 1U);
    EXPECT_EQ(ask(request(end, 1)), answer::closed);
    // The answer to the request of rank 0 is lost.
  });
  static_cast<void>(connector_->close_idle(test_deadline()));
  peer.join();
  EXPECT_EQ(connector_->statistics().connected, 0U);
  EXPECT_EQ(connector_->statistics().closed, 1U);
  EXPECT_EQ(budget_.in_use(), 0U);
}

TEST_F(close_requests, of_a_peer_whose_connection_is_not_confirmed_are_refused) {
  net::detail::pair_table pairs(0, 2, 1);
  pairs.open(4, rank_list{0, 1});
  const auto queue = make_queue();
  const auto turn = pairs.wait_for_turn(1, test_deadline());
  ASSERT_TRUE(turn.request);
  EXPECT_EQ(pairs.answer_close(request(queue.endpoint(), 1)), answer::other_epoch);
}

// The confirmation could not be sent, so the peer has no connection.
TEST_F(close_requests, do_not_restore_a_connection_that_is_withdrawn) {
  expect_no_connection_after_withdrawal(answer::in_use);
}

// The thread of the acceptor may release its claim long after the peer has the confirmation.
TEST_F(close_requests, are_sent_although_a_claim_that_has_published_exists) {
  expect_no_connection_after_withdrawal(answer::unknown);
}

TEST_F(close_requests, are_sent_if_the_budget_is_in_use) {
  const auto other = net::detail::queue_pair_share::take(budget_);
  connect_from_peer();
  std::thread peer([&] { EXPECT_EQ(serve(answer::in_use), 1U); });
  const auto refused = use(0);
  peer.join();
  expect_error(refused, "the budget of this process, 2 queue pairs, is in use, and no connection");
  EXPECT_EQ(refused.error().code(), ENOBUFS);
  std::thread again([&] { EXPECT_EQ(serve(answer::closed), 2U); });
  EXPECT_TRUE(use(0));
  again.join();
  EXPECT_EQ(budget_.in_use(), 2U);
  // The channel of rank 0 to itself needs no request, and comes back.
  EXPECT_EQ(connector_->close_idle(test_deadline()), 0U);
  EXPECT_TRUE(use(0));
  EXPECT_EQ(connector_->close_idle(test_deadline()), 0U);
  EXPECT_EQ(connector_->close_idle(test_deadline()), 1U);
  EXPECT_EQ(budget_.in_use(), 1U);
}

TEST(close_request, is_refused_if_it_is_cut_or_too_long) {
  using namespace net::detail;
  const endpoint local{.queue_pair = queue_pair_number(7), .first_psn = packet_sequence_number(9)};
  const close_request wanted{.token = {}, .rank = 3, .epoch = 9, .local = local, .number = 5};
  const auto again = decode_close_request(encode(wanted)).value();
  EXPECT_EQ(again.rank, 3U);
  EXPECT_EQ(again.epoch, 9U);
  EXPECT_EQ(again.local, local);
  EXPECT_EQ(again.number, 5U);
  EXPECT_LE(encode(wanted).size(), max_connection_message_bytes);
  const auto refuses_other_lengths = [](std::vector<std::byte> bytes, auto&& decode) {
    for (std::size_t length = 0; length < bytes.size(); ++length)
      EXPECT_FALSE(decode(std::span<const std::byte>(bytes).first(length))) << length;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(std::span<const std::byte>(bytes)));
  };
  refuses_other_lengths(encode(wanted), decode_close_request);
  refuses_other_lengths(encode(close_answer::closed), decode_close_answer);
  for (const std::byte what : {std::byte{0}, std::byte{5}, std::byte{255}}) {
    const std::array bytes{std::byte{5}, what};
    EXPECT_FALSE(decode_close_answer(bytes));
  }
  auto other_version = encode(wanted);
  other_version[1] ^= std::byte{1};
  expect_error(decode_close_request(other_version), "use one version of the library");
}

}  // namespace
}  // namespace verbena::test
