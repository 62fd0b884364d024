// SPDX-License-Identifier: MIT
// Operations of groups in steps. All ranks of a test are coroutines on one thread, so the test
// hangs if a step blocks until another rank acts.
#include <gtest/gtest.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "src/net/step_pauses.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/async/scope.hpp"
#include "verbena/async/task.hpp"

// Types in coroutine frames are not in an unnamed namespace, because g++ 12 warns about them in
// unity builds (-Wsubobject-linkage).
namespace verbena::test::group_in_steps {

using async::task;
using testing_support::expect_error;

constexpr std::size_t words = 16 * 1024;

/// A rank with memory for 2 * `words` words.
struct rank_with_memory : joined_rank {
  explicit rank_with_memory(const net::membership& who, const net::group_options& options)
      : joined_rank(who, options),
        memory(pd.allocate(2 * words * sizeof(std::uint64_t),
                           access::local_write | access::remote_read | access::remote_write)
                   .value()) {}

  [[nodiscard]] std::span<std::uint64_t> values(std::size_t first, std::size_t count) const {
    return {reinterpret_cast<std::uint64_t*>(memory.bytes().data()) + first, count};
  }
  [[nodiscard]] sink into(std::size_t first, std::size_t count) const {
    return {memory, first * 8, count * 8};
  }
  [[nodiscard]] source from(std::size_t first, std::size_t count) const {
    return {memory, first * 8, count * 8};
  }

  memory_region memory;
};

/// The ranks of a group. Each rank joins on its own thread; afterwards, all ranks are used on the
/// thread of the test.
class ranks_on_one_thread {
 public:
  explicit ranks_on_one_thread(std::uint32_t size, const net::group_options& options = {})
      : ranks_(size) {
    for_each_rank(size, [&](std::uint32_t rank) {
      ranks_[rank] = std::make_unique<rank_with_memory>(store_.member(rank, size), options);
    });
  }
  [[nodiscard]] rank_with_memory& operator[](std::uint32_t rank) const { return *ranks_[rank]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  /// Destroys a rank, which has the same effect as the end of its process.
  void leave(std::uint32_t rank) { ranks_[rank].reset(); }

 private:
  test_store store_;
  std::vector<std::unique_ptr<rank_with_memory>> ranks_;
};

/// Runs a task for each rank on one engine.
template <class... Arguments>
task<void> spawn_all(const ranks_on_one_thread& ranks, std::span<const std::uint32_t> which,
                     task<void> (*body)(async::engine&, rank_with_memory&, Arguments...),
                     async::engine& engine, Arguments... arguments) {
  async::scope running;
  for (const std::uint32_t each : which) running.spawn(body(engine, ranks[each], arguments...));
  co_await running.join();
}

rank_list all_of(const ranks_on_one_thread& of) {
  rank_list out(of.size());
  std::iota(out.begin(), out.end(), 0U);
  return out;
}

class group_steps : public ::testing::Test {
 protected:
  context device = testing_support::open_soft();
  async::engine engine = async::engine::create(device).value();
};

task<void> run_all_operations(async::engine& engine, rank_with_memory& here, std::size_t each) {
  const std::uint32_t size = here.group.size();
  const std::uint32_t rank = here.group.rank();
  const auto until = test_deadline();
  const auto steps = here.group.in_steps();
  const auto first = here.values(0, each * size);
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (auto& value : first) value = rank + round;
    EXPECT_TRUE(co_await engine.complete(
        steps.all_reduce<std::uint64_t>(here.into(0, each * size), std::plus<>(), until)));
    const std::uint64_t sum = std::uint64_t{size} * (size - 1) / 2 + size * round;
    for (const auto value : first) EXPECT_EQ(value, sum);

    for (auto& value : first) value = rank;
    EXPECT_TRUE(co_await engine.complete(steps.broadcast(
        here.into(0, each * size), static_cast<std::uint32_t>(round % size), until)));
    for (const auto value : first) EXPECT_EQ(value, round % size);

    for (auto& value : here.values(each * rank, each)) value = 100 + rank;
    EXPECT_TRUE(co_await engine.complete(steps.all_gather(here.into(0, each * size), until)));
    for (std::size_t i = 0; i < each * size; ++i) EXPECT_EQ(first[i], 100 + i / each);

    for (std::size_t i = 0; i < each * size; ++i) first[i] = 1000 * rank + i / each;
    EXPECT_TRUE(co_await engine.complete(
        steps.all_to_all(here.from(0, each * size), here.into(words, each * size), until)));
    for (std::size_t i = 0; i < each * size; ++i)
      EXPECT_EQ(here.values(words, each * size)[i], 1000 * (i / each) + rank);

    for (auto& value : first) value = rank;
    EXPECT_TRUE(co_await engine.complete(
        steps.reduce<std::uint64_t>(here.into(0, each * size), net::maximum(), size - 1, until)));
    if (rank == size - 1) {
      for (const auto value : first) EXPECT_EQ(value, size - 1);
    }
    for (const auto how : {net::barrier_algorithm::dissemination,
                           net::barrier_algorithm::binary_tree, net::barrier_algorithm::central})
      EXPECT_TRUE(co_await engine.complete(steps.barrier(until, how)));
  }
}

// One word uses trees and doubling; 1024 words per rank use a ring.
TEST_F(group_steps, all_operations_of_ranks_on_one_thread_have_their_results) {
  for (const std::uint32_t size : {1U, 5U, 8U}) {
    const ranks_on_one_thread ranks(size);
    for (const std::size_t each : {std::size_t{1}, std::size_t{1024}})
      engine.run(spawn_all(ranks, all_of(ranks), run_all_operations, engine, each));
  }
}

task<void> count_and_meet(async::engine& engine, rank_with_memory& here, std::uint32_t* entered) {
  const auto steps = here.group.in_steps();
  for (std::uint32_t round = 1; round <= 20; ++round) {
    ++*entered;
    EXPECT_TRUE(co_await engine.complete(steps.barrier(test_deadline())));
    EXPECT_GE(*entered, round * here.group.size());
    EXPECT_TRUE(co_await engine.complete(steps.barrier(test_deadline())));
    EXPECT_EQ(*entered, round * here.group.size());
    EXPECT_TRUE(co_await engine.complete(steps.barrier(test_deadline())));
  }
}

TEST_F(group_steps, two_groups_share_an_engine) {
  const ranks_on_one_thread first(4);
  const ranks_on_one_thread second(3);
  std::uint32_t entered_first = 0;
  std::uint32_t entered_second = 0;
  engine.run([](auto& on, auto& a, auto& b, auto* count_a, auto* count_b) -> task<void> {
    async::scope running;
    running.spawn(spawn_all(a, all_of(a), count_and_meet, on, count_a));
    running.spawn(spawn_all(b, all_of(b), count_and_meet, on, count_b));
    co_await running.join();
  }(engine, first, second, &entered_first, &entered_second));
  EXPECT_EQ(entered_first, 80U);
  EXPECT_EQ(entered_second, 60U);
}

task<void> meet(async::engine& engine, rank_with_memory& here, deadline until,
                std::vector<std::optional<error>>* errors) {
  auto met = co_await engine.complete(here.group.in_steps().barrier(until));
  if (!met) (*errors)[here.group.rank()] = std::move(met).error();
}

TEST_F(group_steps, deadline_names_the_rank_that_did_not_call) {
  const ranks_on_one_thread ranks(4);
  std::vector<std::optional<error>> errors(4);
  engine.run(spawn_all(ranks, rank_list{0, 1, 2}, meet, engine, deadline::after(200ms), &errors));
  for (std::uint32_t each = 0; each < 3; ++each) {
    ASSERT_TRUE(errors[each]);
    EXPECT_NE(errors[each]->message().find("rank 3"), std::string::npos) << errors[each]->message();
    // The group has also failed for blocking operations.
    expect_error(ranks[each].group.barrier(test_deadline()), errors[each]->message());
  }
}

TEST_F(group_steps, end_of_a_rank_ends_the_operation_and_survivors_shrink) {
  ranks_on_one_thread ranks(4);
  std::vector<std::optional<error>> errors(4);
  const rank_list survivors{0, 1, 3};
  engine.run([](auto& on, auto& of, auto& which, auto* failures) -> task<void> {
    async::scope running;
    running.spawn(spawn_all(of, which, meet, on, test_deadline(), failures));
    co_await on.wait_until(deadline::after(20ms));
    of.leave(2);
    co_await running.join();
  }(engine, ranks, survivors, &errors));
  for (const std::uint32_t each : survivors) {
    ASSERT_TRUE(errors[each]);
    EXPECT_NE(errors[each]->message().find("rank 2"), std::string::npos) << errors[each]->message();
  }
  for_each_rank(3, [&](std::uint32_t index) {
    const auto shrunk = ranks[survivors[index]].group.shrink(test_deadline());
    EXPECT_TRUE(shrunk) << shrunk.error().message();
  });
  errors.assign(4, std::nullopt);
  engine.run(spawn_all(ranks, survivors, meet, engine, test_deadline(), &errors));
  for (const auto& each : errors) EXPECT_FALSE(each) << each->message();
}

TEST_F(group_steps, destroyed_steps_let_the_operation_fail_on_all_ranks) {
  const ranks_on_one_thread ranks(3);
  std::optional<steps<void>> abandoned(ranks[0].group.in_steps().barrier(test_deadline()));
  auto waiting = ranks[1].group.in_steps().barrier(test_deadline());
  EXPECT_FALSE(abandoned->progress());
  EXPECT_FALSE(waiting.progress());
  abandoned.reset();
  expect_error(std::move(waiting).wait(), "rank 0 aborted a barrier; see its error for the cause");
  const auto later = ranks[0].group.in_steps().barrier(test_deadline()).wait();
  expect_error(later, "the steps of a barrier were destroyed before it ended");
  EXPECT_EQ(later.error().code(), ECANCELED);
}

TEST_F(group_steps, operations_of_a_rank_take_place_one_after_the_other) {
  const ranks_on_one_thread ranks(2);
  auto first = ranks[0].group.in_steps().barrier(test_deadline());
  auto second = ranks[0].group.in_steps().broadcast(ranks[0].into(0, 1), 1, test_deadline());
  expect_error(ranks[0].group.barrier(test_deadline()), "an operation in steps");
  expect_error(ranks[0].group.shrink(test_deadline()), "in progress or queued; await it first");
  ranks[1].values(0, 1)[0] = 42;
  auto of_1 = ranks[1].group.in_steps().barrier(test_deadline());
  auto next_of_1 = ranks[1].group.in_steps().broadcast(ranks[1].into(0, 1), 1, test_deadline());
  engine.run([](auto& on, auto&... each) -> task<void> {
    async::scope running;
    const auto succeed = [&on](steps<void>& of) -> task<void> {
      const auto ended = co_await on.complete(std::move(of));
      EXPECT_TRUE(ended);
    };
    (running.spawn(succeed(each)), ...);
    co_await running.join();
  }(engine, first, second, of_1, next_of_1));
  EXPECT_EQ(ranks[0].values(0, 1)[0], 42U);
}

// Otherwise, a later operation of this rank would be matched with the skipped operation of the
// other ranks.
TEST_F(group_steps, queued_operation_that_does_not_begin_fails_the_group) {
  for (const bool is_late : {true, false}) {
    const ranks_on_one_thread ranks(3);
    const rank_list of_first{0, 1};
    const rank_list of_second{0, 2};
    const auto until = test_deadline();
    const auto central = net::barrier_algorithm::central;  // rank 0 answers when all have arrived
    auto first = ranks[0].group.in_steps().barrier(until, central, of_first);
    auto second = std::optional(ranks[0].group.in_steps().barrier(
        is_late ? deadline::after(0ns) : until, central, of_second));
    auto third = ranks[0].group.in_steps().barrier(until);
    auto second_of_2 = ranks[2].group.in_steps().barrier(until, central, of_second);
    const char* why = "the steps of a barrier were destroyed before it ended";
    if (is_late) {
      why = "earlier barriers and collective operations";
      expect_error(std::move(*second).wait(), why);
    }
    second.reset();
    expect_error(std::move(second_of_2).wait(), "rank 0 aborted a barrier");
    expect_error(ranks[1].group.barrier(of_first, until, central), "rank 0 aborted a barrier");
    expect_error(std::move(first).wait(), why);
    expect_error(std::move(third).wait(), why);
    expect_error(ranks[0].group.barrier(until), why);
  }
}

TEST_F(group_steps, operation_queued_before_a_change_of_members_does_not_begin_after_it) {
  const ranks_on_one_thread ranks(3);
  auto succeeds = ranks[0].group.in_steps().barrier(test_deadline());
  auto fails = ranks[0].group.in_steps().barrier(deadline::after(20ms));
  auto queued = ranks[0].group.in_steps().barrier(test_deadline());
  auto abandoned = std::optional(ranks[0].group.in_steps().barrier(test_deadline()));
  std::array<std::optional<steps<void>>, 3> others;
  for (const std::uint32_t each : {1U, 2U})
    others.at(each).emplace(ranks[each].group.in_steps().barrier(test_deadline()));
  while (!succeeds.progress())
    for (const std::uint32_t each : {1U, 2U})
      if (others.at(each) && others.at(each)->progress()) others.at(each).reset();
  expect_error(ranks[0].group.shrink(test_deadline()), "in progress or queued; await it first");
  EXPECT_FALSE(std::move(fails).wait());
  for (const std::uint32_t each : {1U, 2U})
    if (others.at(each)) {
      EXPECT_TRUE(std::move(*others.at(each)).wait());
    }
  for_each_rank(3, [&](std::uint32_t rank) {
    const auto shrunk = ranks[rank].group.shrink(test_deadline());
    EXPECT_TRUE(shrunk) << shrunk.error().message();
  });
  abandoned.reset();
  const auto changed = std::move(queued).wait();
  expect_error(changed, "the members of the group changed before a barrier began");
  EXPECT_EQ(changed.error().code(), ECANCELED);
  std::vector<std::optional<error>> errors(3);
  engine.run(spawn_all(ranks, all_of(ranks), meet, engine, test_deadline(), &errors));
  for (const auto& each : errors) EXPECT_FALSE(each) << each->message();
}

// Each step of a rank transfers a part of the data, so without the deadline the operation would
// complete.
TEST_F(group_steps, operation_ends_soon_after_its_deadline_while_messages_arrive) {
  const ranks_on_one_thread ranks(2);
  const auto begin = [&](std::uint32_t rank, deadline until) {
    return ranks[rank].group.in_steps().all_reduce<std::uint64_t>(ranks[rank].into(0, words),
                                                                  std::plus<>(), until);
  };
  auto of_1 = begin(1, test_deadline());
  auto of_0 = begin(0, deadline::after(0ns));
  std::optional<result<void>> ended;
  std::optional<result<void>> other;
  while (!(ended = of_0.progress()))
    if (!other) other = of_1.progress();
  expect_error(*ended, "all_reduce");
  EXPECT_EQ(ended->error().kind(), error_kind::timed_out);
}

#ifndef VERBENA_NO_EXCEPTIONS
struct throwing_sum {
  std::uint64_t operator()(std::uint64_t /*a*/, std::uint64_t /*b*/) const {
    throw std::runtime_error("of the operator");
  }
};

TEST_F(group_steps, exception_of_an_operator_fails_the_group) {
  for (const bool in_steps : {true, false}) {
    const ranks_on_one_thread ranks(2);
    const throwing_sum fail;
    auto of_1 = ranks[1].group.in_steps().all_reduce<std::uint64_t>(ranks[1].into(0, 1),
                                                                    std::plus<>(), test_deadline());
    if (in_steps)
      EXPECT_THROW(static_cast<void>(
                       ranks[0]
                           .group.in_steps()
                           .all_reduce<std::uint64_t>(ranks[0].into(0, 1), fail, test_deadline())
                           .wait()),
                   std::runtime_error);
    else
      EXPECT_THROW(static_cast<void>(ranks[0].group.all_reduce<std::uint64_t>(
                       ranks[0].into(0, 1), fail, test_deadline())),
                   std::runtime_error);
    expect_error(ranks[0].group.barrier(test_deadline()),
                 "an exception ended an all_reduce on this rank");
    expect_error(std::move(of_1).wait(), "rank 0 aborted an all_reduce");
  }
}
#endif

TEST_F(group_steps, blocking_ranks_and_ranks_in_steps_meet) {
  constexpr std::uint32_t size = 4;
  const ranks_on_one_thread ranks(size);
  for_each_rank(size, [&](std::uint32_t rank) {
    auto& group = ranks[rank].group;
    for (std::uint32_t round = 0; round < 30; ++round) {
      const auto how = static_cast<net::barrier_algorithm>(round % 3);
      const bool in_steps = (rank + round) % 2 == 0;
      const auto met = in_steps ? group.in_steps().barrier(test_deadline(), how).wait()
                                : group.barrier(test_deadline(), how);
      EXPECT_TRUE(met);
      const auto data = ranks[rank].into(0, 1);
      ranks[rank].values(0, 1)[0] = rank + round;
      const auto added =
          in_steps ? group.in_steps()
                         .all_reduce<std::uint64_t>(data, std::plus<>(), test_deadline())
                         .wait()
                   : group.all_reduce<std::uint64_t>(data, std::plus<>(), test_deadline());
      EXPECT_TRUE(added);
      EXPECT_EQ(ranks[rank].values(0, 1)[0], 6 + size * round);
    }
  });
}

// Rank 1 enters the barrier only after messages in both directions.
TEST_F(group_steps, messages_pass_while_a_barrier_waits) {
  const ranks_on_one_thread ranks(2);
  engine.run([](auto& on, auto& of) -> task<void> {
    auto barrier = of[0].group.in_steps().barrier(test_deadline());
    for (std::uint64_t round = 1; round < 20; ++round) {
      for (const std::uint32_t sender : {0U, 1U}) {
        const std::uint32_t receiver = 1 - sender;
        std::array<net::peer_receive, 1> wanted{
            {{.rank = sender, .into = of[receiver].into(8, 1)}}};
        auto received = of[receiver].group.channels().in_steps().gather(wanted);
        of[sender].values(0, 1)[0] = round;
        std::array<net::peer_send, 1> sent{{{.rank = receiver, .data = of[sender].from(0, 1)}}};
        const auto is_sent =
            co_await on.complete(of[sender].group.channels().in_steps().scatter(sent));
        EXPECT_TRUE(is_sent);
        const auto is_received = co_await on.complete(std::move(received));
        EXPECT_TRUE(is_received);
        EXPECT_EQ(of[receiver].values(8, 1)[0], round);
        EXPECT_EQ(wanted[0].result.value(), 8U);
      }
      EXPECT_FALSE(barrier.progress());
    }
    auto last = of[1].group.in_steps().barrier(test_deadline());
    const auto met = co_await on.complete(std::move(barrier));
    EXPECT_TRUE(met);
    const auto ended = co_await on.complete(std::move(last));
    EXPECT_TRUE(ended);
  }(engine, ranks));
}

/// Each rank sends a word to every rank including itself, and writes to and reads from all of them.
task<void> exchange_with_all(async::engine& engine, rank_with_memory& here,
                             const std::vector<std::vector<net::peer_region>>* tables) {
  const std::uint32_t size = here.group.size();
  const std::uint32_t rank = here.group.rank();
  const auto channels = here.group.channels().in_steps();
  std::vector<net::peer_receive> receives;
  std::vector<net::peer_send> sends;
  std::vector<net::peer_write> writes;
  for (std::uint32_t each = 0; each < size; ++each) {
    here.values(each, 1)[0] = 100 * rank + each;
    receives.push_back({.rank = each, .into = here.into(100 + each, 1)});
    sends.push_back({.rank = each, .data = here.from(each, 1)});
    writes.push_back(
        {.to = {.rank = each, .region = (*tables)[rank][each].region.slice((200 + rank) * 8, 8)},
         .data = here.from(each, 1)});
  }
  auto gathered = channels.gather(receives);
  const auto scattered = co_await engine.complete(channels.scatter(sends));
  EXPECT_TRUE(scattered);
  const auto received = co_await engine.complete(std::move(gathered));
  EXPECT_TRUE(received);
  const auto written = co_await engine.complete(channels.scatter(writes));
  EXPECT_TRUE(written);
  const auto met = co_await engine.complete(here.group.in_steps().barrier(test_deadline()));
  EXPECT_TRUE(met);
  for (std::uint32_t each = 0; each < size; ++each) {
    EXPECT_EQ(here.values(100 + each, 1)[0], 100 * each + rank);
    EXPECT_EQ(here.values(200 + each, 1)[0], 100 * each + rank);
  }
  // More operations than can be in flight at the same time, and than a send queue can hold.
  std::vector<net::peer_read> reads;
  for (std::uint32_t i = 0; i < 200; ++i)
    reads.push_back({.from = {.rank = i % 2, .region = (*tables)[rank][i % 2].region.slice(0, 8)},
                     .into = here.into(1000 + i, 1)});
  const auto read = co_await engine.complete(channels.gather(reads));
  EXPECT_TRUE(read);
  for (std::uint32_t i = 0; i < 200; ++i) EXPECT_EQ(here.values(1000 + i, 1)[0], 100 * (i % 2));
  std::array<net::peer_receive, 1> last{{{.rank = 0, .into = here.into(300, 1)}}};
  auto hearing = channels.gather(last);
  if (rank == 0) {
    const auto all = here.group.members();
    const auto sent = co_await engine.complete(channels.multicast(all, here.from(1, 1)));
    EXPECT_TRUE(sent);
  }
  const auto heard = co_await engine.complete(std::move(hearing));
  EXPECT_TRUE(heard);
  EXPECT_EQ(here.values(300, 1)[0], 1U);
  const auto ended = co_await engine.complete(here.group.in_steps().barrier(test_deadline()));
  EXPECT_TRUE(ended);
}

TEST_F(group_steps, operations_of_several_ranks_transfer_bytes_with_and_without_events) {
  for (const bool has_events : {true, false}) {
    net::group_options options{.hub = {.events = has_events}};
    options.channels.queues.max_send_wr = 24;
    const ranks_on_one_thread ranks(4, options);
    std::vector<std::vector<net::peer_region>> tables(4);
    for_each_rank(4, [&](std::uint32_t rank) {
      tables[rank] = ranks[rank]
                         .group.exchange("tables", ranks[rank].memory.remote(), test_deadline())
                         .value();
    });
    engine.run(spawn_all(ranks, all_of(ranks), exchange_with_all, engine,
                         static_cast<const std::vector<std::vector<net::peer_region>>*>(&tables)));
  }
}

TEST_F(group_steps, limit_ends_the_operation_and_its_error_names_the_rank) {
  const ranks_on_one_thread ranks(3, {.hub = {.events = true}});
  std::array<net::peer_receive, 1> wanted{{{.rank = 1, .into = ranks[0].into(0, 1)}}};
  const auto channels = ranks[0].group.channels().in_steps();
  const auto ended = engine.run([](auto& on, auto of, auto& parts) -> task<result<void>> {
    auto received = of.gather(parts, abort_after(50ms));
    co_return co_await on.complete(std::move(received));
  }(engine, channels, wanted));
  expect_error(ended, "operations failed with rank 1");
  EXPECT_FALSE(wanted[0].result);
  EXPECT_NE(ranks[0].group[1].failure(), nullptr);
  std::array<net::peer_receive, 1> nobody{{{.rank = 3, .into = ranks[0].into(0, 1)}}};
  expect_error(channels.gather(nobody).wait(), "rank 3 is not less than");
  // After the steps are destroyed, the device no longer accesses the memory.
  std::array<net::peer_receive, 1> abandoned{{{.rank = 2, .into = ranks[0].into(0, 1)}}};
  {
    const auto given_up = channels.gather(abandoned);
  }
  EXPECT_EQ(ranks[0].group[2].in_flight(), 0U);
}

// More operations than the receive queue can hold: the last ones wait for room when the limit
// passes.
TEST_F(group_steps, operations_after_the_limit_are_not_posted) {
  net::group_options options;
  options.channels.queues.max_recv_wr = 8;
  const ranks_on_one_thread ranks(2, options);
  const auto channels = ranks[0].group.channels().in_steps();
  for (const auto limit : {50ms, 0ms}) {
    std::vector<net::peer_receive> wanted;
    for (std::uint32_t i = 0; i < 20; ++i)
      wanted.push_back({.rank = 1, .into = ranks[0].into(i, 1)});
    const auto begin = deadline::clock::now();
    const auto ended = channels.gather(wanted, abort_after(limit)).wait();
    EXPECT_FALSE(ended);
    EXPECT_LT(deadline::clock::now() - begin, 4s) << "a queue pair was destroyed";
    EXPECT_EQ(wanted[0].result.end(),
              limit == 0ms ? operation_end::refused : operation_end::aborted);
    for (std::uint32_t i = 8; i < 20; ++i) {
      EXPECT_EQ(wanted[i].result.refusal(), refusal::limit_passed);
      EXPECT_EQ(wanted[i].result.code(), ETIMEDOUT);
      expect_error(result<void>(wanted[i].result.error()), "the limit of the call passed");
    }
    EXPECT_EQ(ranks[0].group[1].in_flight(), 0U);
  }
}

/// Returns the processor time that this thread has used.
std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

TEST_F(group_steps, thread_sleeps_while_operations_wait) {
  const ranks_on_one_thread ranks(2, {.hub = {.events = true}});
  const auto begin = processor_time();
  engine.run([](auto& on, auto& of) -> task<void> {
    auto barrier = of[0].group.in_steps().barrier(test_deadline());
    std::array<net::peer_receive, 1> wanted{{{.rank = 1, .into = of[0].into(0, 1)}}};
    auto received = of[0].group.channels().in_steps().gather(wanted);
    const auto finish = [](auto& with, auto& all) -> task<void> {
      co_await with.wait_until(deadline::after(500ms));
      std::array<net::peer_send, 1> parts{{{.rank = 0, .data = all[1].from(0, 1)}}};
      const auto sent = co_await with.complete(all[1].group.channels().in_steps().scatter(parts));
      EXPECT_TRUE(sent);
      const auto met = co_await with.complete(all[1].group.in_steps().barrier(test_deadline()));
      EXPECT_TRUE(met);
    };
    async::scope running;
    running.spawn(finish(on, of));
    const auto heard = co_await on.complete(std::move(received));
    EXPECT_TRUE(heard);
    const auto met = co_await on.complete(std::move(barrier));
    EXPECT_TRUE(met);
    co_await running.join();
  }(engine, ranks));
  EXPECT_LT(processor_time() - begin, 250ms);
}

TEST(step_pauses, grow_with_the_time_that_the_operation_has_waited) {
  using net::detail::step_pauses;
  const step_pauses::time_point begin{1h};
  step_pauses pauses(begin);
  const auto never = deadline::never();
  EXPECT_EQ(pauses.next(never, begin + 49us).when(), begin + 49us);
  EXPECT_EQ(pauses.next(never, begin + 50us).when(), begin + 50us + step_pauses::shortest);
  EXPECT_EQ(pauses.next(never, begin + 800us).when(), begin + 900us);
  EXPECT_EQ(pauses.next(never, begin + 1s).when(), begin + 1s + step_pauses::longest);
  // The deadline of the operation shortens a pause.
  const auto limit = deadline::at(begin + 850us);
  EXPECT_EQ(pauses.next(limit, begin + 800us).when(), begin + 850us);
  EXPECT_EQ(pauses.next(limit, begin + 860us).when(), begin + 860us);
  pauses.restart(begin + 2s);
  EXPECT_EQ(pauses.next(never, begin + 2s).when(), begin + 2s);
}

}  // namespace verbena::test::group_in_steps
