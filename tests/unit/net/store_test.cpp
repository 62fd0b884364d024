// SPDX-License-Identifier: MIT
#include "verbena/net/store.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "src/net/joining_exchanges.hpp"
#include "src/net/store_message.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/bringup/frame.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/store_client.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

/// Two clients on one thread, so the order of their calls is known.
struct two_clients {
  test_store store;
  std::optional<net::store_client> a = connect_client(store.member(0, 2));
  std::optional<net::store_client> b = connect_client(store.member(1, 2));
};

// parity: ibverbs-rs-71
TEST(store_exchange, returns_the_parts_of_all_ranks_in_order) {
  const test_store store;
  for_each_rank(5, [&](std::uint32_t rank) {
    auto client = connect_client(store.member(rank, 5));
    for (int round = 0; round < 3; ++round) {
      const auto all =
          client.exchange("same name", bytes_of("of " + std::to_string(rank)), test_deadline())
              .value();
      ASSERT_EQ(all.size(), 5U);
      for (std::size_t each = 0; each < all.size(); ++each)
        EXPECT_EQ(text_of(all[each]), "of " + std::to_string(each));
    }
  });
  // The store increments the counter after it has answered.
  while ((*store).statistics().exchanges < 3) std::this_thread::yield();
  EXPECT_EQ((*store).statistics().exchanges, 3U);
  EXPECT_EQ((*store).statistics().failures, 0U);
}

TEST(store_exchange, delivers_parts_for_single_ranks) {
  const test_store store;
  for_each_rank(3, [&](std::uint32_t rank) {
    auto client = connect_client(store.member(rank, 3));
    std::array<std::string, 3> texts;
    std::array<std::span<const std::byte>, 3> parts;
    for (std::size_t to = 0; to < 3; ++to) {
      texts[to] = std::to_string(rank) + " to " + std::to_string(to);
      parts[to] = bytes_of(texts[to]);
    }
    const auto all = client.exchange("parts", parts, test_deadline()).value();
    for (std::size_t from = 0; from < 3; ++from)
      EXPECT_EQ(text_of(all[from]), std::to_string(from) + " to " + std::to_string(rank));
  });
}

std::vector<std::uint32_t> wait_for_departed(net::store_client& of, std::size_t count) {
  const auto until = test_deadline();
  while (of.departed().size() < count && !until.expired()) std::this_thread::yield();
  const auto all = of.departed();
  return {all.begin(), all.end()};
}

TEST(store_departed, ranks_are_reported_in_their_order_and_once) {
  const test_store store;
  auto first = connect_client(store.member(0, 4));
  std::vector<std::optional<net::store_client>> others(4);
  for (const std::uint32_t rank : {1U, 2U, 3U})
    others[rank] = connect_client(store.member(rank, 4));
  EXPECT_TRUE(first.departed().empty());
  others[2].reset();
  EXPECT_EQ(wait_for_departed(first, 1), (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(wait_for_departed(*others[3], 1), (std::vector<std::uint32_t>{2}));
  others[1].reset();
  EXPECT_EQ(wait_for_departed(first, 2), (std::vector<std::uint32_t>{2, 1}));
}

TEST(store_departed, report_precedes_the_answer_of_an_exchange) {
  two_clients clients;
  clients.b.reset();
  // The store may have sent the report already.
  expect_error(clients.a->exchange("x", bytes_of("x"), test_deadline()), "rank 1 left the group");
  EXPECT_EQ(wait_for_departed(*clients.a, 1), (std::vector<std::uint32_t>{1}));
}

TEST(store_departed, rank_that_connects_later_is_informed) {
  const test_store store;
  auto first = connect_client(store.member(0, 3));
  std::optional<net::store_client> second = connect_client(store.member(1, 3));
  second.reset();
  static_cast<void>(wait_for_departed(first, 1));
  auto third = connect_client(store.member(2, 3));
  EXPECT_EQ(wait_for_departed(third, 1), (std::vector<std::uint32_t>{1}));
}

TEST(store_departed, end_of_the_store_of_rank_0_is_its_end) {
  std::optional<net::store> store = net::store::open({.host = "127.0.0.1"}).value();
  net::membership who{.rank = 1, .size = 2, .store = store->local_address()};
  auto here = connect_client(who);
  who.rank = 0;
  who.host = net::store_host::separate;
  who.name = "other";
  auto there = connect_client(who);
  store.reset();
  EXPECT_EQ(wait_for_departed(here, 1), (std::vector<std::uint32_t>{0}));
  EXPECT_TRUE(there.departed().empty());
}

class secrets : public ::testing::Test {
 protected:
  secrets() : store({.secret = "a secret"}) {}
  [[nodiscard]] net::membership member(std::uint32_t rank, std::string secret) const {
    auto who = store.member(rank, 2);
    who.secret = std::move(secret);
    return who;
  }
  /// Connects and sends a hello. Returns the connection and the challenge of the store.
  [[nodiscard]] std::pair<bringup::stream, net::detail::store_challenge> challenged() const {
    auto raw = bringup::stream::connect(store.address(), test_deadline()).value();
    raw.send(encode(hello), test_deadline()).value();
    auto answer = net::detail::decode_answer(raw.receive(test_deadline()).value()).value();
    return {std::move(raw), std::get<net::detail::store_challenge>(answer)};
  }
  [[nodiscard]] static net::detail::store_answer answer_to(bringup::stream& to,
                                                           std::span<const std::byte> message) {
    to.send(message, test_deadline()).value();
    return net::detail::decode_answer(to.receive(test_deadline()).value()).value();
  }

  test_store store;
  net::detail::store_hello hello{.rank = 1, .size = 2, .name = "test"};
};

TEST_F(secrets, ranks_with_the_secret_exchange) {
  for_each_rank(2, [&](std::uint32_t rank) {
    auto client = connect_client(member(rank, "a secret"));
    EXPECT_TRUE(client.exchange("x", bytes_of("x"), test_deadline()));
  });
  EXPECT_EQ((*store).statistics().refused, 0U);
}

TEST_F(secrets, rank_with_another_or_no_secret_is_refused) {
  const auto other = net::store_client::connect(member(1, "A secret"), test_deadline());
  expect_error(other, "the secrets of the store and of this process differ");
  EXPECT_EQ(other.error().code(), EACCES);
  const auto none = net::store_client::connect(member(1, ""), test_deadline());
  expect_error(none, "the store requires a secret; set VERBENA_SECRET");
  EXPECT_EQ(none.error().code(), EACCES);
  // The rank is still available, and other clients are unaffected.
  EXPECT_TRUE(net::store_client::connect(member(1, "a secret"), test_deadline()));
}

TEST_F(secrets, rank_refuses_a_store_without_a_secret) {
  const test_store open;
  auto who = open.member(0, 2);
  who.secret = "a secret";
  expect_error(net::store_client::connect(who, test_deadline()),
               "the store has no secret, but this process has one");
}

TEST_F(secrets, wrong_proof_is_refused) {
  auto [raw, challenge] = challenged();
  const auto answer = answer_to(raw, encode(net::detail::store_proof{}));
  EXPECT_EQ(std::get<net::detail::store_failed>(answer).why,
            net::detail::store_failure::other_secret);
  EXPECT_EQ((*store).statistics().refused, 1U);
}

// A proof of the store, or a proof for an earlier challenge, is not accepted.
TEST_F(secrets, repeated_proofs_are_refused) {
  auto [first, old_challenge] = challenged();
  auto [second, challenge] = challenged();
  EXPECT_NE(challenge.random, old_challenge.random);
  const auto repeated = answer_to(second, encode(net::detail::store_proof{challenge.proof}));
  EXPECT_EQ(std::get<net::detail::store_failed>(repeated).why,
            net::detail::store_failure::other_secret);
  auto [third, last_challenge] = challenged();
  const net::detail::store_proof old{
      .proof = net::detail::prove("a secret", "rank", hello, old_challenge.random)};
  const auto answer = answer_to(third, encode(old));
  EXPECT_EQ(std::get<net::detail::store_failed>(answer).why,
            net::detail::store_failure::other_secret);
  // The proof is accepted for its own challenge.
  EXPECT_TRUE(std::holds_alternative<net::detail::blobs>(answer_to(first, encode(old))));
}

TEST_F(secrets, messages_without_proof_end_the_connection) {
  const std::vector<std::span<const std::byte>> parts{bytes_of("x")};
  for (const auto& message :
       {encode(hello),
        net::detail::encode_exchange({.number = 1, .timeout_ms = 1000, .name = "x"}, parts)}) {
    auto [raw, challenge] = challenged();
    raw.send(message, test_deadline()).value();
    EXPECT_FALSE(raw.receive(test_deadline()));
  }
  auto early = bringup::stream::connect(store.address(), test_deadline()).value();
  early.send(encode(net::detail::store_proof{}), test_deadline()).value();
  EXPECT_FALSE(early.receive(test_deadline()));
}

/// Sends the start of a frame of `bytes` to a store, and expects the store to close the connection
/// without waiting for the rest.
void expect_refuses_frame(bringup::stream& to, std::size_t bytes) {
  const auto frame = bringup::encode_frame(bringup::frame_type::blob, net::exchanged_bytes(bytes));
  const auto start = std::span(frame).first(16);
  ASSERT_EQ(::send(to.fd(), start.data(), start.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(start.size()));
  const auto closed = to.receive(test_deadline());
  expect_error(closed, "use one version of the library");
  EXPECT_EQ(closed.error().code(), ECONNABORTED);
}

// The store would allocate the length of the frame, up to store_options::max_message_bytes.
TEST(store_trust, long_frame_before_the_admission_ends_the_connection) {
  const test_store store({.listener = {.greeting_timeout = 600s}, .secret = "a secret"});
  auto silent = bringup::stream::connect(store.address(), test_deadline()).value();
  expect_refuses_frame(silent, net::detail::max_greeting_bytes + 1);
  auto unproved = bringup::stream::connect(store.address(), test_deadline()).value();
  unproved
      .send(encode(net::detail::store_hello{.rank = 1, .size = 2, .name = std::string(255, 'x')}),
            test_deadline())
      .value();
  unproved.receive(test_deadline()).value();  // the challenge
  expect_refuses_frame(unproved, net::detail::max_greeting_bytes + 1);
}

TEST_F(secrets, group_uses_the_secret_of_its_membership) {
  bringup::address place{.host = "127.0.0.1"};
  place.port = net::store::open(place).value().local_address().port;
  for_each_rank(2, [&](std::uint32_t rank) {
    joined_rank here({.rank = rank, .size = 2, .store = place, .secret = "of the group"});
    if (rank == 0) {
      expect_error(net::store_client::connect(
                       {.rank = 1, .size = 2, .store = place, .secret = "other"}, test_deadline()),
                   "the secrets of the store and of this process differ");
    }
    EXPECT_TRUE(here.group.barrier(test_deadline()));
  });
}

TEST(store_exchange, groups_with_other_names_are_separate) {
  const test_store store;
  auto a = connect_client(store.member(0, 1, "a"));
  auto b = connect_client(store.member(0, 1, "b"));
  EXPECT_EQ(text_of(a.exchange("x", bytes_of("a"), test_deadline()).value().front()), "a");
  EXPECT_EQ(text_of(b.exchange("x", bytes_of("b"), test_deadline()).value().front()), "b");
}

TEST(store_exchange, name_can_be_used_by_a_later_group) {
  const test_store store;
  for (int times = 0; times < 3; ++times) {
    std::optional<net::store_client> client;
    // The store detects the end of the previous client with a delay.
    const auto until = test_deadline();
    while (!client) {
      auto made = net::store_client::connect(store.member(0, 1), until);
      if (made) client.emplace(*std::move(made));
      ASSERT_FALSE(until.expired());
    }
    EXPECT_TRUE(client->exchange("x", bytes_of("a"), until));
  }
}

// parity: ibverbs-rs-72
TEST(store_exchange, deadline_names_the_missing_ranks) {
  const test_store store;
  std::vector<net::store_client> clients;
  clients.reserve(4);
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    clients.push_back(connect_client(store.member(rank, 4)));
  const auto began = deadline::clock::now();
  const auto late = clients[1].exchange("table", bytes_of("x"), deadline::after(400ms));
  EXPECT_LT(deadline::clock::now() - began, 20s);
  expect_error(late,
               "ranks 0, 2 and 3 had not called exchange(\"table\") when the deadline of "
               "rank 1 passed");
  EXPECT_EQ(late.error().kind(), error_kind::timed_out);
  // The group has also failed for the other ranks.
  expect_error(clients[0].exchange("table", bytes_of("x"), test_deadline()), "ranks 0, 2 and 3");
  EXPECT_EQ((*store).statistics().failures, 1U);
}

TEST(store_exchange, earliest_deadline_of_a_waiting_rank_counts) {
  const test_store store;
  auto patient = connect_client(store.member(0, 3));
  auto hurried = connect_client(store.member(1, 3));
  std::thread waits([&] {
    expect_error(patient.exchange("x", bytes_of("x"), test_deadline()),
                 "when the deadline of rank 1 passed");
  });
  expect_error(hurried.exchange("x", bytes_of("x"), deadline::after(300ms)), "rank 2");
  waits.join();
}

TEST(store_exchange, deadline_that_has_passed_fails_only_this_rank) {
  two_clients both;
  const auto late = both.a->exchange("x", bytes_of("a"), deadline::after(0ms));
  expect_error(late, "the deadline passed before the request was sent to the store");
  EXPECT_EQ(late.error().kind(), error_kind::timed_out);
  std::thread waits([&] { EXPECT_TRUE(both.a->exchange("x", bytes_of("a"), test_deadline())); });
  EXPECT_TRUE(both.b->exchange("x", bytes_of("b"), test_deadline()));
  waits.join();
}

TEST(store_exchange, client_that_leaves_is_named) {
  two_clients both;
  std::thread waits([&] {
    const auto failed = both.a->exchange("table", bytes_of("x"), test_deadline());
    expect_error(failed, "rank 1 left the group before the end of exchange(\"table\")");
    EXPECT_TRUE(failed.error().is(std::errc::connection_aborted));
  });
  both.b.reset();
  waits.join();
}

TEST(store_exchange, other_name_is_refused_for_all) {
  two_clients both;
  std::thread waits([&] {
    expect_error(both.a->exchange("x", bytes_of("x"), test_deadline()), "another exchange");
  });
  expect_error(both.b->exchange("y", bytes_of("x"), test_deadline()), "another exchange");
  waits.join();
}

TEST(store_exchange, wrong_number_of_parts_is_refused) {
  two_clients both;
  const std::array<std::span<const std::byte>, 3> parts{};
  expect_error(both.a->exchange("x", parts, test_deadline()),
               "rank 0 contributed neither one part nor 2 parts to exchange(\"x\")");
}

TEST(store_exchange, names_and_messages_beyond_the_limits_are_refused) {
  two_clients both;
  expect_error(both.a->exchange(std::string(256, 'x'), bytes_of("x"), test_deadline()),
               "a name of 256 bytes exceeds the limit of 255 bytes");
  const net::exchanged_bytes large(net::store_client::max_message_bytes);
  expect_error(both.a->exchange("x", std::span<const std::byte>(large), test_deadline()),
               "exceeds the limit");
}

TEST(store_exchange, answer_beyond_the_limit_is_refused) {
  two_clients both;
  const net::exchanged_bytes large(net::store_client::max_message_bytes * 3 / 4);
  std::thread waits([&] {
    expect_error(both.a->exchange("x", std::span<const std::byte>(large), test_deadline()),
                 "exceed the limit of the store");
  });
  expect_error(both.b->exchange("x", std::span<const std::byte>(large), test_deadline()),
               "exceed the limit of the store");
  waits.join();
}

// parity: ibverbs-rs-73
TEST(store_connect, second_process_of_a_rank_is_refused) {
  const test_store store;
  const auto first = connect_client(store.member(1, 2));
  const auto second = net::store_client::connect(store.member(1, 2), test_deadline());
  expect_error(second, "another process has already joined as rank 1");
  EXPECT_EQ((*store).statistics().refused, 1U);
}

// parity: ibverbs-rs-73
TEST(store_connect, other_size_is_refused) {
  const test_store store;
  const auto first = connect_client(store.member(0, 2));
  expect_error(net::store_client::connect(store.member(1, 3), test_deadline()),
               "this process states a group of 3 ranks, and others one of 2");
}

/// Two ranks whose group has failed before it formed. Rank 1 stays connected and does nothing, like
/// a process that has stopped.
class failed_group : public ::testing::Test {
 protected:
  /// Forms a group of `size` ranks with the name of the failed one.
  void expect_forms(std::uint32_t size) const {
    for_each_rank(size, [&](std::uint32_t rank) {
      const auto until = test_deadline();  // the store detects the end of a client with a delay
      auto joined = net::store_client::connect(store.member(rank, size), until);
      while (!joined && !until.expired())
        joined = net::store_client::connect(store.member(rank, size), until);
      EXPECT_TRUE(joined.value().exchange("x", bytes_of("x"), test_deadline()));
    });
  }

  test_store store;
  std::optional<net::store_client> first = connect_client(store.member(0, 2));
  net::store_client stopped = connect_client(store.member(1, 2));
};

TEST_F(failed_group, does_not_keep_its_name_after_a_rank_has_left) {
  first.reset();
  while (stopped.departed().empty()) std::this_thread::yield();
  expect_forms(2);
}

TEST_F(failed_group, does_not_keep_its_name_from_a_group_of_another_size) {
  first.reset();
  while (stopped.departed().empty()) std::this_thread::yield();
  expect_forms(3);
}

TEST_F(failed_group, does_not_keep_its_name_after_a_failed_exchange) {
  expect_error(first->exchange("x", bytes_of("x"), deadline::after(20ms)), "deadline");
  // Another call waits for the answer of the store.
  first->publish("value", bytes_of("x"), test_deadline()).value();
  expect_forms(2);
  EXPECT_TRUE(stopped.find(0, "value", test_deadline()));
}

// A rank of join() leaves after the exchange of the endpoints.
TEST_F(failed_group, does_not_keep_its_name_after_the_first_exchange_of_join) {
  const auto exchange_endpoints = [](net::store_client& of) {
    of.exchange(net::detail::endpoints_exchange, bytes_of("x"), test_deadline()).value();
  };
  std::thread other([&] { exchange_endpoints(stopped); });
  exchange_endpoints(*first);
  other.join();
  first.reset();
  while (stopped.departed().empty()) std::this_thread::yield();
  expect_forms(2);
}

TEST_F(failed_group, does_not_keep_its_name_after_a_failed_last_exchange_of_join) {
  for (const auto name : {net::detail::hosts_exchange, net::detail::endpoints_exchange}) {
    std::thread other([&] { stopped.exchange(name, bytes_of("x"), test_deadline()).value(); });
    first->exchange(name, bytes_of("x"), test_deadline()).value();
    other.join();
  }
  expect_error(first->exchange(net::detail::ready_exchange, bytes_of("x"), deadline::after(20ms)),
               "deadline");
  // Another call waits for the answer of the store.
  first->publish("value", bytes_of("x"), test_deadline()).value();
  expect_forms(2);
}

TEST(store_connect, group_beyond_the_limit_is_refused) {
  const test_store store({.max_groups = 1});
  const auto first = connect_client(store.member(0, 1, "a"));
  expect_error(net::store_client::connect(store.member(0, 1, "b"), test_deadline()),
               "no room for another group");
}

TEST(store_connect, waits_until_the_store_listens) {
  bringup::address place{.host = "127.0.0.1"};
  place.port = net::store::open(place).value().local_address().port;
  std::thread waits([&] {
    EXPECT_TRUE(net::store_client::connect({.size = 1, .store = place}, test_deadline()));
  });
  const auto store = net::store::open(place).value();
  waits.join();
}

TEST(store_connect, without_a_store_fails_at_the_deadline) {
  bringup::address place{.host = "127.0.0.1"};
  place.port = net::store::open(place).value().local_address().port;
  EXPECT_FALSE(net::store_client::connect({.size = 1, .store = place}, deadline::after(300ms)));
}

TEST(store_connect, rank_beyond_the_limit_of_clients_is_refused) {
  const test_store store({.max_clients = 2});
  std::vector<bringup::stream> strangers;  // without a hello: do not count as clients
  strangers.reserve(3);
  for (int i = 0; i < 3; ++i)
    strangers.push_back(bringup::stream::connect(store.address(), test_deadline()).value());
  const auto a = connect_client(store.member(0, 2, "a"));
  std::optional<net::store_client> b = connect_client(store.member(0, 2, "b"));
  expect_error(net::store_client::connect(store.member(1, 2, "a"), test_deadline()),
               "no room for another group or rank");
  b.reset();
  const auto until = test_deadline();  // the store detects the end with a delay
  while (!net::store_client::connect(store.member(1, 2, "a"), until)) ASSERT_FALSE(until.expired());
}

TEST(store_connect, refused_rank_leaves_no_group) {
  const test_store store({.max_groups = 1});
  auto raw = bringup::stream::connect(store.address(), test_deadline()).value();
  raw.send(encode(net::detail::store_hello{.rank = 5, .size = 2, .name = "a"}), test_deadline())
      .value();
  EXPECT_TRUE(raw.receive(test_deadline()));
  EXPECT_TRUE(net::store_client::connect(store.member(0, 1, "b"), test_deadline()));
}

/// A rank that sends the messages of agreements directly.
class raw_rank {
 public:
  raw_rank(const test_store& store, std::uint32_t rank, std::uint32_t size)
      : stream_(bringup::stream::connect(store.address(), test_deadline()).value()) {
    send(encode(net::detail::store_hello{.rank = rank, .size = size, .name = "test"}));
    EXPECT_TRUE(std::holds_alternative<net::detail::blobs>(receive()));
  }
  void send(const net::detail::blob& message) { stream_.send(message, test_deadline()).value(); }
  /// Begins a step of a renewal with an empty part.
  void begin(const char* name, std::uint32_t renewal, rank_list awaited = {},
             std::uint32_t timeout_ms = 60'000) {
    const std::span<const std::byte> part;
    send(net::detail::encode_agreement({.number = ++number_,
                                        .timeout_ms = timeout_ms,
                                        .kind = net::detail::agreement_kind::waits,
                                        .renewal = renewal,
                                        .awaited = std::move(awaited),
                                        .name = name},
                                       std::span(&part, 1)));
  }
  /// Returns the next answer. Ignores reports of ranks that have left.
  [[nodiscard]] net::detail::store_answer receive() {
    while (true) {
      auto next = net::detail::decode_message(stream_.receive(test_deadline()).value()).value();
      if (!std::holds_alternative<net::detail::store_left>(next.what)) return next.what;
    }
  }
  [[nodiscard]] net::detail::store_agreed agreed() {
    return std::get<net::detail::store_agreed>(receive());
  }
  [[nodiscard]] net::detail::store_failed failed() {
    return std::get<net::detail::store_failed>(receive());
  }
  [[nodiscard]] bringup::stream& stream() noexcept { return stream_; }

 private:
  bringup::stream stream_;
  std::uint32_t number_ = 0;  // of the last request
};

std::vector<std::unique_ptr<raw_rank>> connect_all(const test_store& store, std::uint32_t size) {
  std::vector<std::unique_ptr<raw_rank>> ranks;
  ranks.reserve(size);
  for (std::uint32_t each = 0; each < size; ++each)
    ranks.push_back(std::make_unique<raw_rank>(store, each, size));
  return ranks;
}

// In an earlier version, for each message the store compared all ranks with all awaited ranks of
// each rank.
TEST(store_agreement, of_many_ranks_that_await_many_ends_in_time) {
  constexpr std::uint32_t size = 250;
  const test_store store;
  const auto ranks = connect_all(store, size);
  for (std::uint32_t each = 0; each < size; ++each)
    ranks[each]->begin("readmit", 0, rank_list(each < 40 ? net::max_ranks : 0, size - 1));
  for (const auto& each : ranks) EXPECT_EQ(each->agreed().ranks.size(), size);
}

TEST(store_agreement, late_step_does_not_disturb_the_next_renewal) {
  const test_store store;
  const auto ranks = connect_all(store, 3);
  for (const auto& each : ranks) each->begin("shrink", 0);
  std::uint32_t number = 0;
  for (const auto& each : ranks) number = each->agreed().renewal;
  EXPECT_NE(number, 0U);
  // Rank 2 is late: the step fails, and ranks 0 and 1 start again.
  ranks[0]->begin("renewal: addresses", number, {}, 1);
  EXPECT_EQ(ranks[0]->failed().why, net::detail::store_failure::missing);
  ranks[0]->begin("shrink", 0);
  ranks[1]->begin("shrink", 0);
  ranks[2]->begin("renewal: addresses", number);
  EXPECT_EQ(ranks[2]->failed().why, net::detail::store_failure::outdated);
  ranks[2]->begin("shrink", 0);
  for (const auto& each : ranks) {
    const auto agreed = each->agreed();
    EXPECT_EQ(agreed.ranks, (rank_list{0, 1, 2}));
    EXPECT_NE(agreed.renewal, number);
  }
}

TEST(store_agreement, renewal_that_begins_ends_steps_that_wait) {
  const test_store store;
  const auto ranks = connect_all(store, 2);
  for (const auto& each : ranks) each->begin("shrink", 0);
  const std::uint32_t number = ranks[0]->agreed().renewal;
  EXPECT_EQ(ranks[1]->agreed().renewal, number);
  ranks[0]->begin("renewal: addresses", number);
  ranks[1]->begin("shrink", 0);
  EXPECT_EQ(ranks[0]->failed().why, net::detail::store_failure::outdated);
  ranks[0]->begin("shrink", 0);
  for (const auto& each : ranks) EXPECT_EQ(each->agreed().ranks, (rank_list{0, 1}));
}

// The store receives the rest of a partial message before it sends the answer.
TEST(store_agreement, rank_that_is_expelled_while_it_sends_receives_the_reason) {
  const test_store store;
  const auto ranks = connect_all(store, 3);
  auto& sender = ranks[1]->stream();
  const std::span<const std::byte> none;
  const auto frame =
      bringup::encode_frame(bringup::frame_type::blob,
                            net::detail::encode_exchange(
                                {.number = 1, .timeout_ms = 1, .name = "x"}, std::span(&none, 1)));
  const std::span<const std::byte> whole = frame;
  const auto send_part = [&](std::span<const std::byte> part) {
    return ::send(sender.fd(), part.data(), part.size(), MSG_NOSIGNAL);
  };
  EXPECT_EQ(send_part(whole.first(3)), 3);
  for (const std::uint32_t each : {0U, 2U})
    ranks[each]->send(
        net::detail::encode_agreement({.number = 1, .timeout_ms = 300, .name = "shrink"},
                                      std::array{std::span<const std::byte>()}));
  for (const std::uint32_t each : {0U, 2U})
    EXPECT_EQ(ranks[each]->agreed().ranks, (rank_list{0, 2}));
  EXPECT_EQ(send_part(whole.subspan(3)), static_cast<ssize_t>(whole.size() - 3));
  EXPECT_EQ(ranks[1]->failed().why, net::detail::store_failure::expelled);
  EXPECT_FALSE(sender.receive(test_deadline()));  // closed
}

TEST(store_agreement, rank_that_is_expelled_and_never_ends_its_message_receives_the_reason) {
  const test_store store;
  const auto ranks = connect_all(store, 3);
  auto& sender = ranks[1]->stream();
  const auto frame = bringup::encode_frame(bringup::frame_type::blob, bytes_of("a message"));
  EXPECT_EQ(::send(sender.fd(), frame.data(), 3, MSG_NOSIGNAL), 3);
  for (const std::uint32_t each : {0U, 2U})
    ranks[each]->send(
        net::detail::encode_agreement({.number = 1, .timeout_ms = 300, .name = "shrink"},
                                      std::array{std::span<const std::byte>()}));
  EXPECT_EQ(ranks[1]->failed().why, net::detail::store_failure::expelled);
  EXPECT_FALSE(sender.receive(test_deadline()));  // closed
}

TEST(store_trust, client_without_a_membership_receives_the_reason_of_its_end) {
  const test_store store({.listener = {.greeting_timeout = 200ms}, .secret = "a secret"});
  const auto expect_late = [](bringup::stream& client) {
    const auto closed = client.receive(test_deadline());
    expect_error(closed, "it did not send its membership within 0.2 s");
    EXPECT_EQ(closed.error().code(), ECONNABORTED);
  };
  auto silent = bringup::stream::connect(store.address(), test_deadline()).value();
  expect_late(silent);
  auto half = bringup::stream::connect(store.address(), test_deadline()).value();
  const auto frame = bringup::encode_frame(bringup::frame_type::blob, bytes_of("a message"));
  EXPECT_EQ(::send(half.fd(), frame.data(), 3, MSG_NOSIGNAL), 3);
  expect_late(half);
  EXPECT_EQ((*store).statistics().refused, 2U);
}

// parity: ibverbs-rs-71
TEST(store_trust, garbage_and_silence_do_not_disturb_other_clients) {
  const test_store store;
  std::vector<bringup::stream> strangers;
  const auto open = [&] {
    return bringup::stream::connect(store.address(), test_deadline()).value();
  };
  strangers.push_back(open());  // sends nothing
  for (const auto* const text : {"", "\x01", "\x09rubbish", "GET / HTTP/1.0\r\n\r\n"}) {
    auto stranger = open();
    ASSERT_TRUE(stranger.send(bytes_of(text), test_deadline()));
    EXPECT_FALSE(stranger.receive(test_deadline())) << text;  // closed
  }
  // Sends an exchange without a hello.
  auto hasty = open();
  const std::span<const std::byte> none;
  ASSERT_TRUE(hasty.send(net::detail::encode_exchange({.number = 1, .timeout_ms = 1, .name = "x"},
                                                      std::span(&none, 1)),
                         test_deadline()));
  EXPECT_FALSE(hasty.receive(test_deadline()));

  for_each_rank(2, [&](std::uint32_t rank) {
    auto client = connect_client(store.member(rank, 2));
    EXPECT_TRUE(client.exchange("x", bytes_of("x"), test_deadline()));
  });
  EXPECT_EQ((*store).statistics().refused, 5U);
}

TEST(store_trust, hello_of_another_version_is_refused) {
  const test_store store;
  auto peer = bringup::stream::connect(store.address(), test_deadline()).value();
  ASSERT_TRUE(peer.send(net::detail::encode(net::detail::store_hello{
                            .version = 99, .rank = 0, .size = 1, .name = "x"}),
                        test_deadline()));
  const auto answer = net::detail::decode_answer(peer.receive(test_deadline()).value()).value();
  EXPECT_EQ(std::get<net::detail::store_failed>(answer).why,
            net::detail::store_failure::other_version);
}

TEST(store_trust, message_during_an_exchange_ends_the_connection) {
  const test_store store;
  auto good = connect_client(store.member(0, 3));
  auto bad = bringup::stream::connect(store.address(), test_deadline()).value();
  ASSERT_TRUE(
      bad.send(net::detail::encode(net::detail::store_hello{.rank = 1, .size = 3, .name = "test"}),
               test_deadline()));
  ASSERT_TRUE(bad.receive(test_deadline()));
  const std::span<const std::byte> none;
  const auto message = net::detail::encode_exchange(
      {.number = 1, .timeout_ms = 60'000, .name = "x"}, std::span(&none, 1));
  ASSERT_TRUE(bad.send(message, test_deadline()));
  ASSERT_TRUE(bad.send(message, test_deadline()));
  expect_error(good.exchange("x", bytes_of("x"), test_deadline()), "rank 1 left the group");
  expect_error(bad.receive(test_deadline()), "it sent data during an exchange");
}

TEST(store_open, port_in_use_is_an_error) {
  const test_store store;
  const auto second = net::store::open(store.address());
  ASSERT_FALSE(second);
  EXPECT_TRUE(second.error().is(std::errc::address_in_use));
}

TEST(store_open, ends_while_clients_wait) {
  std::optional<test_store> store(std::in_place);
  auto client = connect_client(store->member(0, 2));
  std::thread waits([&] { EXPECT_FALSE(client.exchange("x", bytes_of("x"), test_deadline())); });
  store.reset();
  waits.join();
}

TEST(store_trust, random_secrets_have_64_digits_and_differ) {
  const std::string one = net::random_secret();
  EXPECT_EQ(one.size(), 64U);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one, net::random_secret());
}

}  // namespace
}  // namespace verbena::test
