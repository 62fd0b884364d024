// SPDX-License-Identifier: MIT
// Groups that change their members: shrink(), readmit() and rejoin(). The ranks are threads here;
// random_kills_test.cpp uses processes.
#include "src/net/renewal.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <latch>
#include <optional>
#include <ranges>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tests/unit/net/ranks.hpp"
#include "tests/unit/net/scripted_store.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/bringup/frame.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/memory/buffer_pool.hpp"
#include "verbena/verbs/inject_event.hpp"

namespace verbena::test {
namespace {

using net::detail::ranks_to_leave_out;
using net::detail::reach_report;
using testing_support::expect_error;

TEST(renewal, ranks_with_broken_pairs_are_left_out) {
  EXPECT_EQ(ranks_to_leave_out({}), rank_list{});
  const auto of = [](std::vector<reach_report> reports) { return ranks_to_leave_out(reports); };
  EXPECT_EQ(of({{0, {}}, {1, {}}}), rank_list{});
  // A report of one side is sufficient; the higher rank is removed. Reports about ranks that did
  // not take part are ignored.
  EXPECT_EQ(of({{0, {}}, {1, {0, 7}}}), rank_list{1});
  EXPECT_EQ(of({{0, {1, 2}}, {1, {}}, {2, {}}}), rank_list{0});
  EXPECT_EQ(of({{0, {0}}, {1, {}}}), rank_list{});
  // Two equal halves, then two unequal parts.
  EXPECT_EQ(of({{0, {2, 3}}, {1, {2, 3}}, {2, {}}, {3, {}}}), (rank_list{2, 3}));
  EXPECT_EQ(of({{0, {2, 3, 4}}, {1, {2, 3, 4}}, {2, {}}, {3, {}}, {4, {}}}), (rank_list{0, 1}));
}

TEST(renewal, sets_of_ranks_are_read_again_in_each_form) {
  for (const std::uint32_t size : {1U, 7U, 8U, 9U, 300U, net::max_ranks})
    for (const std::uint32_t stride : {1U, 2U, 3U, 40U, 5000U}) {
      rank_list ranks;
      for (std::uint32_t each = stride - 1; each < size; each += stride) ranks.push_back(each);
      const auto bytes = net::detail::encode_rank_set(ranks, size, std::size_t{1} << 20U);
      EXPECT_LE(bytes.size(), 1 + (size + 7) / 8);
      EXPECT_EQ(net::detail::decode_rank_set(bytes, size).value(), ranks)
          << size << ", each " << stride;
    }
}

// If two arbitrary halves cannot reach each other, each rank reports the other half, or a part of
// it in groups of more than 2,800 ranks.
TEST(renewal, reports_of_large_groups_fit_in_a_message) {
  const auto answer_bytes = [](std::uint32_t size, std::size_t part) {
    return 64 + size * (sizeof(std::uint32_t) * 3 + part);
  };
  constexpr std::size_t limit = net::store_client::max_message_bytes;
  for (const std::uint32_t size : {1000U, 2800U, net::max_ranks}) {
    rank_list half;
    for (std::uint32_t each = 0; each < size; each += 2) half.push_back(each);
    const auto encode_within = [&](std::size_t bytes) {
      return net::detail::encode_rank_set(half, size, net::detail::most_bytes_of_part(size, bytes));
    };
    constexpr std::size_t least = net::store_options::min_message_bytes;
    EXPECT_LE(answer_bytes(size, encode_within(least).size()), least) << size;
    const auto encoded = encode_within(limit);
    EXPECT_LE(answer_bytes(size, encoded.size()), limit) << size;
    const auto decoded = net::detail::decode_rank_set(encoded, size).value();
    EXPECT_TRUE(size > 2800 || decoded == half);
    EXPECT_TRUE(std::ranges::equal(decoded, half | std::views::take(decoded.size())));
    EXPECT_GT(decoded.size(), 50U);
  }
}

TEST(renewal, bytes_that_are_no_set_of_ranks_are_refused) {
  const auto refuses = [](std::initializer_list<int> bytes, std::uint32_t size) {
    net::detail::blob all;
    for (const int each : bytes) all.push_back(static_cast<std::byte>(each));
    expect_error(net::detail::decode_rank_set(all, size),
                 "bytes do not encode a set of ranks of a group of ");
  };
  refuses({}, 8);
  refuses({3}, 8);
  refuses({2, 0}, 8);           // all ranks, and an extra byte
  refuses({1, 0, 0}, 8);        // too many bits
  refuses({1, 0x80}, 7);        // rank 7
  refuses({0, 0, 0, 0}, 8);     // a part of a number
  refuses({0, 0, 0, 0, 8}, 8);  // rank 8
  refuses({0, 0, 0, 0, 1, 0, 0, 0, 1}, 8);
}

TEST(shrink, without_a_failure_keeps_members_and_operations_in_flight) {
  in_group(3, [](joined_rank& here) {
    auto pool = buffer_pool::create(here.pd, {}).value();
    const std::uint32_t next = (here.group.rank() + 1) % 3;
    const std::uint32_t before = (here.group.rank() + 2) % 3;
    auto receive = here.group[before].post_receive(*pool.take(64));
    here.group.shrink(test_deadline()).value();
    EXPECT_EQ(members_of(here.group), (rank_list{0, 1, 2}));
    EXPECT_TRUE(here.group.departed().empty());
    auto word = here.pd.allocate(64, access::local_write).value();
    EXPECT_TRUE(here.group[next].send(source(word, 0, 8)));
    EXPECT_TRUE(receive.wait());
    expect_works(here);
  });
}

TEST(shrink, rank_that_has_left_is_no_member) {
  const test_store store;
  for_each_rank(4, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 4));
    if (rank == 1) return;  // the destructor leaves the group
    EXPECT_FALSE(here.group.barrier(test_deadline()));
    EXPECT_FALSE(here.group.barrier(test_deadline()));  // the group has failed
    here.group.shrink(test_deadline()).value();
    EXPECT_EQ(members_of(here.group), (rank_list{0, 2, 3}));
    EXPECT_EQ(here.group.size(), 4U);
    expect_works(here);
    // The parts of exchanges are still indexed by rank.
    const auto all = here.group.exchange("x", bytes_of("part"), test_deadline()).value();
    ASSERT_EQ(all.size(), 4U);
    EXPECT_TRUE(all[1].empty());
    EXPECT_EQ(all[3].size(), 4U);
    // Operations with the rank are refused and have not taken effect.
    auto word = here.pd.allocate(64, access::local_write).value();
    const auto refused = here.group[1].send(source(word, 0, 8));
    EXPECT_EQ(refused.refusal(), refusal::not_connected);
    EXPECT_EQ(refused.delivery(), delivery::not_done);
    expect_error(here.group.barrier(std::array{0U, 1U, 2U, 3U}, test_deadline()),
                 "rank 1 is no longer a member of the group");
    expect_works(here);
  });
}

TEST(shrink, failed_barrier_has_the_cause_of_a_channel_that_ended_before) {
  const test_store store;
  for_each_rank(2, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 2));
    if (rank == 0) here.group[1].flush();
    const auto ended = here.group.barrier(test_deadline());
    ASSERT_FALSE(ended);
    if (rank == 0) expect_error(ended, "the program ended the connection");
  });
}

TEST(shrink, follows_a_failed_exchange_and_a_second_failure) {
  const test_store store;
  for_each_rank(4, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 4));
    if (rank == 3) return;
    EXPECT_FALSE(here.group.exchange("x", bytes_of("x"), test_deadline()));
    here.group.shrink(test_deadline()).value();
    EXPECT_EQ(members_of(here.group), (rank_list{0, 1, 2}));
    expect_works(here);
    if (rank == 0) return;
    EXPECT_FALSE(here.group.exchange("x", bytes_of("x"), test_deadline()));
    here.group.shrink(test_deadline()).value();
    EXPECT_EQ(members_of(here.group), (rank_list{1, 2}));
    expect_works(here);
  });
}

TEST(shrink, interrupts_an_exchange_that_waits) {
  in_group(3, [](joined_rank& here) {
    if (here.group.rank() != 2)
      expect_error(here.group.exchange("x", bytes_of("x"), test_deadline()),
                   "rank 2 called shrink() or readmit() before the end of exchange(\"x\")");
    here.group.shrink(test_deadline()).value();
    expect_works(here);
  });
}

TEST(shrink, rank_that_does_not_call_it_is_expelled) {
  const test_store store;
  std::atomic<std::uint32_t> done = 0;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 3));
    if (rank == 1) {
      while (done != 2) std::this_thread::yield();
      expect_error(here.group.exchange("x", bytes_of("x"), test_deadline()),
                   "the other ranks continue without this one");
      // The messages of this rank no longer reach the other ranks.
      EXPECT_FALSE(here.group.barrier(deadline::after(200ms)));
      ++done;
      return;
    }
    here.group.shrink(deadline::after(3s)).value();
    EXPECT_EQ(members_of(here.group), (rank_list{0, 2}));
    ++done;
    while (done != 3) std::this_thread::yield();
    expect_works(here);
  });
}

TEST(shrink, expelled_rank_that_waits_for_a_message_fails_at_once) {
  const test_store store;
  std::atomic<std::uint32_t> done = 0;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 3));
    if (rank != 1) {
      here.group.shrink(deadline::after(3s)).value();
      ++done;
      while (done != 3) std::this_thread::yield();
      return;
    }
    while (done != 2) std::this_thread::yield();
    auto data = here.pd.allocate(8, access::local_write).value();
    const auto began = deadline::clock::now();
    const auto failed = here.group.broadcast(sink(data, 0, 8), 0, test_deadline());
    expect_error(failed, "rank 0 called shrink() before the end of a broadcast");
    EXPECT_LT(deadline::clock::now() - began, 20s);
    ++done;
  });
}

TEST(shrink, of_a_minority_fails_and_names_the_missing_ranks) {
  const test_store store;
  std::atomic<bool> is_done = false;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 3));
    if (rank == 0) {
      expect_error(here.group.shrink(deadline::after(3s)),
                   "ranks 1 and 2 had not called shrink() when the deadline of rank 0 passed");
      is_done = true;
    }
    while (!is_done) std::this_thread::yield();
    expect_works(here);  // nothing has changed
    here.group.exchange("end", bytes_of("x"), test_deadline()).value();
  });
}

TEST(shrink, reconnects_channels_that_failed) {
  in_group(3, [](joined_rank& here) {
    if (here.group.rank() == 0) here.group[1].flush();
    const auto met = here.group.barrier(deadline::after(2s));
    // Rank 2 may have received the messages of all ranks before rank 0 detects that its message is
    // lost.
    if (here.group.rank() != 2) {
      EXPECT_FALSE(met);
    }
    here.group.shrink(test_deadline()).value();
    EXPECT_EQ(members_of(here.group), (rank_list{0, 1, 2}));
    expect_works(here);
  });
}

// A send without a receive delays the reads of rank 0, so the read of the barrier is still in
// flight.
TEST(shrink, waits_for_an_earlier_read_of_a_rank) {
  std::latch failed(1);
  in_group(2, [&failed](joined_rank& here) {
    auto memory = here.pd.allocate(64, access::local_write).value();
    if (here.group.rank() == 1) {
      failed.wait();
      EXPECT_TRUE(here.group[0].receive(sink(memory, 0, 8)));
      here.group.shrink(test_deadline()).value();
    } else {
      const auto sent = here.group[1].scope([&](operation_scope& scope) {
        static_cast<void>(scope.send(source(memory, 0, 8)));
        expect_error(here.group.barrier(deadline::after(50ms)), "rank 1 had not called barrier()");
        failed.count_down();
        here.group.shrink(test_deadline()).value();
      });
      EXPECT_TRUE(sent);
    }
    EXPECT_EQ(members_of(here.group), (rank_list{0, 1}));
    expect_works(here);
  });
}

TEST(shrink, reconnects_the_loopback_channel) {
  in_group(2, [](joined_rank& here) {
    const std::uint32_t own = here.group.rank();
    if (own == 1) here.group[own].flush();
    here.group.shrink(test_deadline()).value();
    EXPECT_EQ(members_of(here.group), (rank_list{0, 1}));
    auto memory = here.pd.allocate(64, access::local_write | access::remote_write).value();
    EXPECT_TRUE(here.group[own].write(source(memory, 0, 8), memory.remote().slice(8, 8)));
    expect_works(here);
  });
}

// Rank 1 calls shrink() long before rank 0. If the network were split, the half of rank 0 would
// remain.
TEST(shrink, half_with_the_highest_rank_does_not_expel_the_other) {
  const test_store store;
  std::atomic<bool> is_late = false;
  for_each_rank(2, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 2));
    if (rank == 1) {
      expect_error(here.group.shrink(deadline::after(3s)), "rank 0 had not called shrink()");
      is_late = true;
    }
    while (!is_late) std::this_thread::yield();
    expect_works(here);
    here.group.exchange("both are here", bytes_of("x"), test_deadline()).value();
    if (rank == 0) {
      here.group.shrink(deadline::after(3s)).value();
      EXPECT_EQ(members_of(here.group), rank_list{0});
      is_late = false;
    }
    while (is_late) std::this_thread::yield();
    if (rank == 1)
      expect_error(here.group.exchange("x", bytes_of("x"), test_deadline()),
                   "the other ranks continue without this one");
  });
}

// The reads of the first check succeed; the reads of the last check fail.
TEST(shrink, half_that_does_not_reach_the_other_is_left_out) {
  const test_store store;
  for_each_rank(4, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 4));
    for (const std::uint32_t other : {2U, 3U})
      if (rank < 2)
        inject_failure(here.device, completion_status::retries_exceeded,
                       {.queue_pair = here.group[other].qp()->number(),
                        .operations = send_operation::read,
                        .at = 2})
            .value();
    const auto shrunk = here.group.shrink(test_deadline());
    if (rank >= 2)
      return expect_error(shrunk, "not all of ranks 2 and 3 reach all of ranks 0 and 1");
    shrunk.value();
    EXPECT_EQ(members_of(here.group), (rank_list{0, 1}));
    expect_works(here);
    here.group.exchange("x", bytes_of("x"), test_deadline()).value();
    if (rank == 0) inject_event(here.device, "clear-faults").value();
  });
}

/// While the object exists, no queue pair can be connected.
class port_down {
 public:
  explicit port_down(const context& of) : of_(of) { inject_event(of_, "port 1 down").value(); }
  port_down(const port_down&) = delete;
  port_down& operator=(const port_down&) = delete;
  ~port_down() { EXPECT_TRUE(inject_event(of_, "port 1 up")); }

 private:
  const context& of_;
};

TEST(shrink, failure_of_the_loopback_channel_has_its_cause) {
  in_group(1, [](joined_rank& here) {
    here.group[0].flush();
    {
      const port_down without_link(here.device);
      const auto failed = here.group.shrink(test_deadline());
      expect_error(failed, "the loopback channel could not be prepared again");
      expect_error(failed, "port");
    }
    here.group.shrink(test_deadline()).value();
  });
}

TEST(shrink, rank_that_is_left_out_has_the_causes_of_its_broken_channels) {
  const test_store store;
  for_each_rank(2, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 2));
    std::optional<port_down> without_link;
    if (rank == 0) {
      here.group[1].flush();
      without_link.emplace(here.device);
    }
    here.group.exchange("the port is down", bytes_of("x"), test_deadline()).value();
    const auto shrunk = here.group.shrink(test_deadline());
    if (rank == 0) return shrunk.value();
    expect_error(shrunk, "not all of rank 1 reach all of rank 0");
    expect_error(shrunk, "the channel of this rank to rank 0: ");
  });
}

/// A server that acts as the store of one rank, and answers its agreements with `answer`, or does
/// not answer.
class false_store {
 public:
  explicit false_store(std::optional<net::detail::blob> answer)
      : thread_([this, answer = std::move(answer)] { serve(answer); }) {}
  false_store(const false_store&) = delete;
  false_store& operator=(const false_store&) = delete;
  ~false_store() { thread_.join(); }
  [[nodiscard]] net::membership member() const {
    return {.size = 1, .store = listener_.local_address(), .host = net::store_host::separate};
  }

 private:
  void serve(const std::optional<net::detail::blob>& answer) {
    auto client = listener_.accept(test_deadline()).value();
    while (true) {
      const auto message = client.receive(test_deadline());
      if (!message) return;
      const auto request = net::detail::decode_request(*message).value();
      if (const auto* const asks = std::get_if<net::detail::store_exchange>(&request)) {
        const std::span<const std::byte> part = asks->parts.front();
        send_numbered(client, asks->number, net::detail::encode_done(std::span(&part, 1)));
      } else if (std::holds_alternative<net::detail::store_hello>(request)) {
        client
            .send(net::detail::encode_admission(net::store_client::max_message_bytes),
                  test_deadline())
            .value();
      } else if (const auto* const check = std::get_if<net::detail::store_check>(&request)) {
        client
            .send(encode(net::detail::store_reply{.number = check->number, .value = {}}),
                  test_deadline())
            .value();
      } else if (answer) {
        send_numbered(client, number_of(request), *answer);
      }
    }
  }

  bringup::listener listener_ = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::thread thread_;
};

TEST(shrink, answers_of_a_false_store_are_errors) {
  const net::detail::blob state(4);
  const net::detail::blob odd(3);  // all bytes are 0
  const auto agreed = [](rank_list ranks, std::vector<std::span<const std::byte>> parts) {
    return net::detail::encode_agreed(1, ranks, parts);
  };
  const std::vector<std::pair<net::detail::blob, const char*>> cases{
      {agreed({}, {}), "the store sent an agreement"},
      {agreed({1}, {state}), "the store sent an agreement of rank 1"},
      {agreed({0, 0}, {state, state}), "the store sent an agreement"},
      {agreed({0, 9}, {state, state}), "the store sent an agreement of ranks 0 and 9"},
      {agreed({0}, {state, state}), "with 2 parts"},
      {agreed({0}, {odd}), "a state has no epoch"},
      {agreed({0}, {state}), "0 bytes do not encode a set of ranks of a group of 1"},
      {net::detail::encode_agreed(0, std::array{0U}, std::array{std::span(odd)}),
       "the number 0 to rank 0"},
      {net::detail::encode_done({}), "does not match the request"},
      {odd, "has the type 0"},
  };
  for (const auto& [answer, words] : cases) {
    const false_store store(answer);
    joined_rank here(store.member());
    expect_error(here.group.shrink(deadline::after(10s)), words);
  }
  const false_store silent(std::nullopt);
  joined_rank here(silent.member());
  EXPECT_TRUE(here.group.shrink(deadline::after(100ms)).error().is(std::errc::timed_out));
}

/// A store of one rank that answers the first agreement only after the test has called answer().
class late_store {
 public:
  using failures = std::vector<std::optional<net::detail::store_failure>>;
  /// `answers` are the answers to agreements, the last of them to all later ones; nullopt: the
  /// agreement succeeds. `reason` is the last message, which follows the first answer at once.
  explicit late_store(failures answers = {std::nullopt},
                      std::optional<net::detail::store_failure> reason = std::nullopt)
      : answers_(std::move(answers)), reason_(reason) {}
  [[nodiscard]] net::membership member() const {
    return {.size = 1, .store = listener_.local_address(), .host = net::store_host::separate};
  }
  void answer() { may_answer_ = true; }
  /// Closes the connection after the first answer.
  void end() { ends_ = true; }
  ~late_store() { thread_.join(); }

 private:
  void serve() {
    using namespace net::detail;
    auto client = listener_.accept(test_deadline()).value();
    while (true) {
      const auto message = client.receive(test_deadline());
      if (!message) return;
      const auto request = decode_request(*message).value();
      if (std::holds_alternative<store_hello>(request)) {
        client.send(encode_admission(net::store_client::max_message_bytes), test_deadline())
            .value();
      } else if (const auto* const asks = std::get_if<store_exchange>(&request)) {
        const std::span<const std::byte> part = asks->parts.front();
        send_numbered(client, asks->number, encode_done(std::span(&part, 1)));
      } else if (const auto* const agreement = std::get_if<store_agreement>(&request)) {
        while (!may_answer_) std::this_thread::yield();
        const std::span<const std::byte> part = agreement->parts.front();
        const auto failure = answers_.size() > answered_ ? answers_[answered_++] : answers_.back();
        const auto answer = encode_numbered(
            agreement->number, failure ? encode(store_failed{.why = *failure, .name = "shrink"})
                                       : encode_agreed(1, std::array{0U}, std::span(&part, 1)));
        auto frames = bringup::encode_frame(bringup::frame_type::blob, answer);
        if (reason_) {
          const auto last = bringup::encode_frame(
              bringup::frame_type::blob, encode(store_failed{.why = *reason_, .ranks = {0}}));
          frames.insert(frames.end(), last.begin(), last.end());
        }
        EXPECT_EQ(::send(client.fd(), frames.data(), frames.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(frames.size()));
        if (ends_) return;
      } else {
        const auto* const value = std::get_if<store_publish>(&request);
        const auto number =
            value != nullptr ? value->number : std::get<store_check>(request).number;
        client.send(encode(store_reply{.number = number, .value = {}}), test_deadline()).value();
      }
    }
  }

  failures answers_;
  std::size_t answered_ = 0;
  std::optional<net::detail::store_failure> reason_;
  std::atomic<bool> may_answer_ = false;
  std::atomic<bool> ends_ = false;
  bringup::listener listener_ = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::thread thread_{[this] { serve(); }};
};

// The members are unchanged.
TEST(shrink, late_failure_of_an_agreement_permits_operations_again) {
  late_store store({net::detail::store_failure::missing});
  joined_rank here(store.member());
  expect_error(here.group.shrink(deadline::after(3s)), "did not answer before the deadline");
  expect_error(here.group.barrier(test_deadline()), "did not arrive");
  expect_error(here.group.shrink(deadline::after(100ms)), "did not answer before the deadline");
  store.answer();
  EXPECT_TRUE(here.group.exchange("x", bytes_of("x"), test_deadline()));
  expect_works(here);
}

TEST(shrink, late_outdated_agreement_permits_no_operations) {
  late_store store({net::detail::store_failure::outdated});
  joined_rank here(store.member());
  expect_error(here.group.shrink(deadline::after(3s)), "did not answer before the deadline");
  store.answer();
  EXPECT_TRUE(here.group.publish("x", bytes_of("x"), test_deadline()));
  expect_error(here.group.barrier(test_deadline()), "did not arrive");
}

// The other members have the answer and continue in the next epoch.
TEST(shrink, late_agreement_ends_operations_of_the_rank_until_it_calls_shrink_again) {
  late_store store;
  joined_rank here(store.member());
  const auto late = here.group.shrink(deadline::after(3s));
  expect_error(late, "did not answer before the deadline");
  for (int times = 0; times < 2; ++times) {
    const auto failed = here.group.barrier(test_deadline());
    expect_error(failed, "the answer of the store to shrink() did not arrive");
    expect_error(failed, "call shrink() again");
    EXPECT_EQ(failed.error().code(), ECONNABORTED);
    store.answer();
  }
  expect_error(here.group.exchange("x", bytes_of("x"), test_deadline()),
               "the deadline of shrink() passed on this rank, but the other ranks continue with "
               "shrink(); call group::shrink() on all ranks");
  here.group.shrink(test_deadline()).value();
  expect_works(here);
  EXPECT_TRUE(here.group.exchange("x", bytes_of("x"), test_deadline()));
}

// The other members continue, and this rank does not know their state.
TEST(shrink, that_fails_after_a_late_agreement_permits_no_operations) {
  late_store store({std::nullopt, net::detail::store_failure::missing, std::nullopt});
  joined_rank here(store.member());
  expect_error(here.group.shrink(deadline::after(3s)), "did not answer before the deadline");
  store.answer();
  expect_error(here.group.shrink(test_deadline()), "had not called shrink()");
  expect_error(here.group.barrier(test_deadline()), "call shrink() again");
  here.group.shrink(test_deadline()).value();
  expect_works(here);
}

TEST(shrink, expelled_rank_with_a_late_answer_performs_no_operations) {
  late_store store({net::detail::store_failure::missing}, net::detail::store_failure::expelled);
  joined_rank here(store.member());
  expect_error(here.group.shrink(deadline::after(3s)), "did not answer before the deadline");
  store.answer();
  expect_error(here.group.publish("x", bytes_of("x"), test_deadline()), "continue without this");
  for (int times = 0; times < 2; ++times) {
    const auto failed = here.group.barrier(test_deadline());
    expect_error(failed, "the other ranks continue without this one");
    EXPECT_EQ(failed.error().code(), ECONNABORTED);
  }
}

// As without shrink(): barriers and collective operations do not need the store.
TEST(shrink, late_failure_before_the_end_of_the_store_permits_operations_again) {
  std::optional<late_store> store(std::in_place,
                                  late_store::failures{net::detail::store_failure::missing});
  joined_rank here(store->member());
  expect_error(here.group.shrink(deadline::after(3s)), "did not answer before the deadline");
  store->end();
  store->answer();
  store.reset();
  EXPECT_FALSE(here.group.publish("x", bytes_of("x"), test_deadline()));
  expect_works(here);
}

TEST(shrink, hostile_agreement_of_a_rank_expels_nobody) {
  const test_store store;
  auto good = net::store_client::connect(store.member(0, 3), test_deadline()).value();
  auto bad = bringup::stream::connect(store.address(), test_deadline()).value();
  const auto call = [&](const net::detail::blob& message) {
    bad.send(message, test_deadline()).value();
    const auto answer = bad.receive(test_deadline()).value();
    return net::detail::decode_message(answer).value().what;
  };
  const auto admitted =
      call(encode(net::detail::store_hello{.rank = 1, .size = 3, .name = "test"}));
  EXPECT_TRUE(std::holds_alternative<net::detail::blobs>(admitted));
  const std::array<std::span<const std::byte>, 2> parts{};
  const auto why = [&](const rank_list& awaited, std::size_t count) {
    const net::detail::store_agreement agreement{
        .number = 1, .timeout_ms = 1, .awaited = awaited, .name = "shrink"};
    return std::get<net::detail::store_failed>(
        call(encode_agreement(agreement, std::span(parts).first(count))));
  };
  EXPECT_EQ(why({}, 2).why, net::detail::store_failure::wrong_parts);
  // Rank 2 is not connected and therefore cannot be expelled.
  const auto late = why({2}, 1);
  EXPECT_EQ(late.why, net::detail::store_failure::missing);
  EXPECT_EQ(late.ranks, (rank_list{0, 2}));
  EXPECT_TRUE(good.departed().empty());
}

TEST(shrink, without_the_store_fails) {
  std::optional<test_store> store(std::in_place);
  joined_rank here(store->member(0, 1));
  store.reset();
  EXPECT_FALSE(here.group.shrink(deadline::after(5s)));
}

TEST(readmit, new_process_has_the_rank_of_the_old_one) {
  const test_store store;
  for_each_rank(4, [&](std::uint32_t rank) {
    std::optional<joined_rank> here(std::in_place, store.member(rank, 4));
    for (int round = 0; round < 2; ++round) {
      if (rank == 2) {
        here.reset();
        here.emplace(store.member(rank, 4), again{});
      } else {
        EXPECT_FALSE(here->group.barrier(test_deadline()));
        if (round == 0) here->group.shrink(test_deadline()).value();
        if (round == 0) expect_works(*here);
        const rank_list back{2};
        here->group.readmit(back, test_deadline()).value();
      }
      EXPECT_EQ(members_of(here->group), (rank_list{0, 1, 2, 3}));
      EXPECT_TRUE(here->group.departed().empty());
      EXPECT_TRUE(here->group.returning().empty());
      expect_works(*here);
      here->group.exchange("x", bytes_of("x"), test_deadline()).value();
    }
  });
}

TEST(readmit, waiting_rank_is_reported_and_does_not_disturb_shrink) {
  const test_store store;
  for_each_rank(3, [&](std::uint32_t rank) {
    std::optional<joined_rank> here(std::in_place, store.member(rank, 3));
    if (rank == 1) {
      here.reset();
      here.emplace(store.member(rank, 3), again{});
    } else {
      const auto until = test_deadline();
      while (here->group.returning().empty() && !until.expired()) std::this_thread::yield();
      EXPECT_EQ(here->group.returning()[0], 1U);
      here->group.shrink(test_deadline()).value();
      EXPECT_EQ(members_of(here->group), (rank_list{0, 2}));
      EXPECT_EQ(here->group.returning().size(), 1U);
      // The list changes during the call.
      here->group.readmit(here->group.returning(), test_deadline()).value();
    }
    EXPECT_EQ(members_of(here->group), (rank_list{0, 1, 2}));
    expect_works(*here);
    here->group.exchange("x", bytes_of("x"), test_deadline()).value();
  });
}

TEST(readmit, deadline_names_the_rank_that_does_not_return) {
  const test_store store;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 3));
    if (rank == 2) return;
    here.group.shrink(test_deadline()).value();
    const rank_list back{2};
    expect_error(here.group.readmit(back, deadline::after(600ms)),
                 "rank 2 had not called readmit()");
    EXPECT_EQ(members_of(here.group), (rank_list{0, 1}));
    expect_works(here);
    const rank_list none{3};
    expect_error(here.group.readmit(none, test_deadline()), "rank 3 is not less than the size");
    here.group.exchange("x", bytes_of("x"), test_deadline()).value();
  });
}

TEST(readmit, rank_that_ends_after_the_first_step_is_left_out) {
  const test_store store;
  for_each_rank(3, [&](std::uint32_t rank) {
    std::optional<joined_rank> here(std::in_place, store.member(rank, 3));
    if (rank != 2) {
      const rank_list back{2};
      expect_error(here->group.readmit(back, test_deadline()), "rank 2 left again");
      EXPECT_EQ(members_of(here->group), (rank_list{0, 1}));
      expect_works(*here);
      here->group.exchange("x", bytes_of("x"), test_deadline()).value();
      return;
    }
    here.reset();
    const net::detail::store_hello hello{
        .entry = net::detail::store_entry::rejoins, .rank = 2, .size = 3, .name = "test"};
    const net::detail::blob state(sizeof(std::uint32_t) + 1);  // epoch 0, an empty list
    const std::span<const std::byte> part = state;
    const auto until = test_deadline();
    while (true) {  // until the store has detected the end of the process
      auto raw = bringup::stream::connect(store.address(), until).value();
      raw.send(encode(hello), until).value();
      const auto admitted = net::detail::decode_answer(raw.receive(until).value()).value();
      if (!std::holds_alternative<net::detail::blobs>(admitted)) continue;
      const net::detail::store_agreement agreement{.number = 1,
                                                   .timeout_ms = 60'000,
                                                   .kind = net::detail::agreement_kind::waits,
                                                   .name = "readmit"};
      raw.send(encode_agreement(agreement, std::span(&part, 1)), until).value();
      while (true) {
        const auto answer = net::detail::decode_message(raw.receive(until).value()).value();
        if (std::holds_alternative<net::detail::store_agreed>(answer.what)) return;
      }
    }
  });
}

TEST(rejoin, without_members_or_a_store_fails) {
  const test_store store;
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  EXPECT_FALSE(net::group::rejoin(pd, store.member(1, 2), deadline::after(200ms)));
  auto who = store.member(0, 2);
  who.host = net::store_host::rank_0;
  expect_error(net::group::rejoin(pd, who, test_deadline()), "the store of the group ended");
  who.host = net::store_host::pmix;
  expect_error(net::group::rejoin(pd, who, test_deadline()), "PMIx does not give the address");
}

TEST(rejoin, is_refused_while_the_old_process_is_connected) {
  const test_store store;
  const joined_rank here(store.member(0, 1));
  const auto pd = here.device.allocate_pd().value();
  // rejoin() waits for the end of the old process until its deadline. On a loaded machine, a short
  // deadline passes before the store has answered.
  auto refused = net::group::rejoin(pd, store.member(0, 1), deadline::after(200ms));
  for (auto longer = 400ms; longer < 60s; longer *= 2) {
    if (refused || refused.error().kind() != error_kind::timed_out) break;
    refused = net::group::rejoin(pd, store.member(0, 1), deadline::after(longer));
  }
  expect_error(refused, "another process has already joined as rank 0");
  EXPECT_EQ(here.group.size(), 1U);
}

}  // namespace
}  // namespace verbena::test
