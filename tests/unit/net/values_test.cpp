// SPDX-License-Identifier: MIT
// Values that ranks publish at the store and that other ranks find by rank and name.
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "src/net/published_values.hpp"
#include "src/net/store_message.hpp"
#include "tests/unit/net/ranks.hpp"
#include "tests/unit/net/scripted_store.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/bringup/frame.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::test {
namespace {

using net::detail::published_values;
using net::detail::store_find;
using net::detail::store_reply;
using net::detail::value_outcome;
using testing_support::expect_error;

/// The published_values of three ranks, without a store and connections.
class values_of_ranks : public ::testing::Test {
 protected:
  using due_replies = published_values::due_replies;

  [[nodiscard]] static net::detail::store_publish value(std::string name, std::size_t bytes) {
    return {.number = 5, .name = std::move(name), .value = net::detail::blob(bytes)};
  }
  [[nodiscard]] static value_outcome outcome_of(const due_replies& due) {
    EXPECT_EQ(due.size(), 1U);
    return due.empty() ? value_outcome::missing : due.front().reply.outcome;
  }
  /// Rank 0 waits for "x" of rank 1, and rank 2 for "y" of rank 0.
  void let_two_wait(std::uint32_t timeout_ms = 60'000) {
    EXPECT_TRUE(
        values.find(0, {.number = 7, .timeout_ms = timeout_ms, .rank = 1, .name = "x"}).empty());
    EXPECT_TRUE(
        values.find(2, {.number = 8, .timeout_ms = 60'000, .rank = 0, .name = "y"}).empty());
  }

  net::store_options limits{
      .max_values_per_rank = 3, .max_value_bytes_per_rank = 1000, .max_value_bytes = 1500};
  std::size_t bytes = 0;
  published_values values{3, limits, bytes};
};

TEST_F(values_of_ranks, publishing_ends_the_wait_for_this_value_only) {
  let_two_wait();
  EXPECT_EQ(values.publish(1, value("y", 1)).size(), 1U);
  EXPECT_EQ(values.publish(2, value("x", 1)).size(), 1U);
  const auto due = values.publish(1, value("x", 4));
  ASSERT_EQ(due.size(), 2U);
  EXPECT_EQ(due[0].to, 0U);
  EXPECT_EQ(due[0].reply.number, 7U);
  EXPECT_EQ(due[0].reply.value.size(), 4U);
  EXPECT_EQ(due[1].to, 1U);
  EXPECT_EQ(due[1].reply.number, 5U);
  EXPECT_TRUE(due[1].reply.value.empty());
  EXPECT_EQ(values.publish(1, value("x", 4)).size(), 1U);
  EXPECT_FALSE(values.first_end().is_never());  // rank 2
}

TEST_F(values_of_ranks, rank_that_leaves_ends_the_wait_for_its_values) {
  let_two_wait();
  const auto due = values.remove(1);
  EXPECT_EQ(outcome_of(due), value_outcome::gone);
  EXPECT_EQ(due.front().to, 0U);
  // The waiting rank itself has left.
  EXPECT_TRUE(values.remove(2).empty());
  EXPECT_TRUE(values.first_end().is_never());
}

TEST_F(values_of_ranks, agreement_ends_all_waits) {
  let_two_wait();
  const auto due = values.interrupt(1);
  ASSERT_EQ(due.size(), 2U);
  EXPECT_EQ(due[0].reply.outcome, value_outcome::interrupted);
  EXPECT_EQ(due[1].reply.detail, 1U);
  EXPECT_TRUE(values.interrupt(1).empty());
}

TEST_F(values_of_ranks, deadline_ends_a_wait) {
  let_two_wait(0);
  const auto due = values.expire();
  EXPECT_EQ(outcome_of(due), value_outcome::missing);
  EXPECT_EQ(due.front().to, 0U);
  EXPECT_TRUE(values.expire().empty());
  values.stop_waiting(2);
  EXPECT_TRUE(values.first_end().is_never());
}

TEST_F(values_of_ranks, number_of_names_is_limited) {
  for (const char* const each : {"a", "b", "c"})
    EXPECT_EQ(outcome_of(values.publish(0, value(each, 1))), value_outcome::done);
  const auto refused = values.publish(0, value("d", 1));
  EXPECT_EQ(outcome_of(refused), value_outcome::too_many);
  EXPECT_EQ(refused.front().reply.detail, 3U);
  EXPECT_EQ(outcome_of(values.publish(0, value("a", 2))), value_outcome::done);  // replaced
  EXPECT_EQ(outcome_of(values.publish(1, value("d", 1))), value_outcome::done);
  EXPECT_EQ(outcome_of(values.withdraw(0, {.number = 1, .name = "b"})), value_outcome::done);
  EXPECT_EQ(outcome_of(values.withdraw(0, {.number = 1, .name = "b"})), value_outcome::unknown);
  EXPECT_EQ(outcome_of(values.publish(0, value("d", 1))), value_outcome::done);
}

TEST_F(values_of_ranks, bytes_are_limited_for_a_rank_and_for_all) {
  EXPECT_EQ(outcome_of(values.publish(0, value("a", 999))), value_outcome::done);
  EXPECT_EQ(bytes, 1000U);
  const auto of_rank = values.publish(0, value("b", 0));
  EXPECT_EQ(outcome_of(of_rank), value_outcome::too_many_bytes);
  EXPECT_EQ(of_rank.front().reply.detail, 1000U);
  const auto of_all = values.publish(1, value("a", 500));
  EXPECT_EQ(outcome_of(of_all), value_outcome::full);
  EXPECT_EQ(of_all.front().reply.detail, 1500U);
  EXPECT_EQ(outcome_of(values.publish(0, value("a", 998))), value_outcome::done);
  EXPECT_EQ(outcome_of(values.publish(1, value("a", 500))), value_outcome::done);
  EXPECT_EQ(bytes, 1500U);
  EXPECT_EQ(outcome_of(values.withdraw(1, {.number = 1, .name = "a"})), value_outcome::done);
  EXPECT_TRUE(values.remove(0).empty());
  EXPECT_EQ(bytes, 0U);
  EXPECT_EQ(outcome_of(values.publish(0, value("a", 999))), value_outcome::done);
}

/// Three clients of a store: ranks without a group and channels.
class published : public ::testing::Test {
 protected:
  static std::string found(net::store_client& by, std::uint32_t rank, const char* name) {
    return text_of(by.find(rank, name, test_deadline()).value());
  }
  /// Expects that the connections of all ranks are usable.
  void expect_exchange_works() {
    for_each_rank(3, [&](std::uint32_t rank) {
      EXPECT_TRUE(clients[rank]->exchange("x", bytes_of("x"), test_deadline()));
    });
  }

  test_store store;
  std::array<std::optional<net::store_client>, 3> clients{connect_client(store.member(0, 3)),
                                                          connect_client(store.member(1, 3)),
                                                          connect_client(store.member(2, 3))};
};

// parity: ibverbs-rs-98
TEST_F(published, values_are_found_by_rank_and_name) {
  clients[0]->publish("weights", bytes_of("of 0"), test_deadline()).value();
  clients[1]->publish("weights", bytes_of("of 1"), test_deadline()).value();
  clients[1]->publish("empty", {}, test_deadline()).value();
  for (auto& each : clients) {
    EXPECT_EQ(found(*each, 0, "weights"), "of 0");
    EXPECT_EQ(found(*each, 1, "weights"), "of 1");
    EXPECT_EQ(found(*each, 1, "empty"), "");
  }
  EXPECT_EQ((*store).statistics().refused, 0U);
  expect_exchange_works();
}

// In most rounds, rank 0 waits at the store before the value is published.
TEST_F(published, values_are_awaited) {
  for (int round = 0; round < 20; ++round) {
    const std::string name = "round " + std::to_string(round);
    std::thread waits([&] { EXPECT_EQ(found(*clients[0], 2, name.c_str()), name); });
    clients[1]->publish(name, bytes_of("of another rank"), test_deadline()).value();
    clients[2]->publish(name, bytes_of(name), test_deadline()).value();
    waits.join();
  }
}

TEST_F(published, values_are_replaced_and_withdrawn) {
  clients[0]->publish("x", bytes_of("first"), test_deadline()).value();
  clients[0]->publish("x", bytes_of("second"), test_deadline()).value();
  EXPECT_EQ(found(*clients[1], 0, "x"), "second");
  clients[0]->withdraw("x", test_deadline()).value();
  EXPECT_FALSE(clients[1]->find(0, "x", deadline::after(20ms)));
  const auto again = clients[0]->withdraw("x", test_deadline());
  expect_error(again, "this rank has not published \"x\"");
  EXPECT_EQ(again.error().code(), ENOENT);
}

TEST_F(published, deadline_names_rank_and_name_and_the_group_stays_usable) {
  const auto late = clients[0]->find(2, "weights", deadline::after(1s));
  expect_error(late, "rank 2 had not published \"weights\" before the deadline");
  EXPECT_EQ(late.error().kind(), error_kind::timed_out);
  expect_error(clients[0]->find(2, "weights", deadline::after(0ms)),
               "the deadline passed before the request was sent to the store");
  EXPECT_FALSE(clients[0]->find(2, "weights", deadline::after(1ms)));
  expect_exchange_works();
  EXPECT_EQ((*store).statistics().failures, 0U);
}

TEST_F(published, values_survive_a_failed_exchange) {
  clients[0]->publish("x", bytes_of("before"), test_deadline()).value();
  EXPECT_FALSE(clients[1]->exchange("late", bytes_of("x"), deadline::after(10ms)));
  EXPECT_EQ(found(*clients[2], 0, "x"), "before");
  clients[2]->publish("y", bytes_of("after"), test_deadline()).value();
  EXPECT_EQ(found(*clients[0], 2, "y"), "after");
}

TEST_F(published, values_end_with_their_process_and_waiting_for_them_ends) {
  clients[1]->publish("x", bytes_of("x"), test_deadline()).value();
  std::thread waits([&] {
    const auto failed = clients[0]->find(1, "never", test_deadline());
    expect_error(failed, "rank 1 left the group, and \"never\" does not exist without it");
    EXPECT_EQ(failed.error().code(), ECONNABORTED);
  });
  clients[1].reset();
  waits.join();
  expect_error(clients[2]->find(1, "x", test_deadline()), "rank 1 left the group");
}

TEST_F(published, values_of_a_rank_that_has_not_connected_yet_are_awaited) {
  auto early = connect_client(store.member(0, 2, "other"));
  std::thread waits([&] { EXPECT_EQ(found(early, 1, "x"), "late"); });
  auto late = connect_client(store.member(1, 2, "other"));
  late.publish("x", bytes_of("late"), test_deadline()).value();
  waits.join();
}

TEST_F(published, groups_of_one_store_are_separate) {
  auto other = connect_client(store.member(0, 3, "other"));
  clients[0]->publish("x", bytes_of("here"), test_deadline()).value();
  EXPECT_FALSE(other.find(0, "x", deadline::after(20ms)));
  other.publish("x", bytes_of("there"), test_deadline()).value();
  EXPECT_EQ(found(*clients[1], 0, "x"), "here");
  EXPECT_EQ(found(other, 0, "x"), "there");
}

TEST_F(published, names_and_values_beyond_the_limits_are_refused) {
  const auto refuses = [&](std::string_view name) {
    constexpr const char* why = "the name of a value has 1 to 255 printable characters of ASCII";
    expect_error(clients[0]->publish(name, {}, test_deadline()), why);
    expect_error(clients[0]->withdraw(name, test_deadline()), why);
    expect_error(clients[0]->find(1, name, test_deadline()), why);
  };
  for (const char* const name : {"", "two\nlines", "\x7f", "\xc3\xa4"}) refuses(name);
  refuses(std::string(256, 'x'));
  clients[0]->publish(std::string(255, ' '), {}, test_deadline()).value();
  net::exchanged_bytes large(net::store_client::max_value_bytes);
  clients[0]->publish("large", std::span<const std::byte>(large), test_deadline()).value();
  EXPECT_EQ(clients[1]->find(0, "large", test_deadline()).value().size(), large.size());
  large.resize(large.size() + 1);
  expect_error(clients[0]->publish("large", std::span<const std::byte>(large), test_deadline()),
               "a value of 65537 bytes exceeds the limit of 65536 bytes");
  expect_error(clients[0]->find(3, "x", test_deadline()),
               "rank 3 is not less than the size of the group, 3");
}

TEST(published_limits, are_named_and_are_those_of_all_groups) {
  const test_store store(
      {.max_values_per_rank = 2, .max_value_bytes_per_rank = 100, .max_value_bytes = 150});
  std::optional<net::store_client> a = connect_client(store.member(0, 1, "a"));
  auto b = connect_client(store.member(0, 1, "b"));
  a->publish("x", bytes_of(std::string(90, 'x')), test_deadline()).value();
  expect_error(a->publish("y", bytes_of("too much now"), test_deadline()),
               "\"y\" exceeds the limit of 100 bytes in the names and values of a rank");
  a->publish("y", {}, test_deadline()).value();
  expect_error(a->publish("z", {}, test_deadline()),
               "\"z\" exceeds the limit of 2 names of a rank");
  const auto full = b.publish("x", bytes_of(std::string(90, 'x')), test_deadline());
  expect_error(full, "\"x\" exceeds the limit of 150 bytes in the names and values of all ranks");
  EXPECT_EQ(full.error().kind(), error_kind::unavailable);
  a.reset();
  const auto until = test_deadline();  // the store detects the end with a delay
  while (!b.publish("x", bytes_of(std::string(90, 'x')), until)) ASSERT_FALSE(until.expired());
}

/// Sends `hello` and then `message`, and expects the store to close the connection.
void expect_closes(const test_store& store, std::optional<net::detail::store_hello> hello,
                   const net::detail::blob& message) {
  auto raw =
      bringup::stream::connect(store.address(), test_deadline(),
                               {.stream = {.max_blob_bytes = net::store_client::max_message_bytes}})
          .value();
  if (hello) {
    raw.send(encode(*hello), test_deadline()).value();
    raw.receive(test_deadline()).value();
  }
  raw.send(message, test_deadline()).value();
  auto received = raw.receive(test_deadline());
  while (received && std::holds_alternative<net::detail::store_returned>(
                         net::detail::decode_answer(*received).value()))
    received = raw.receive(test_deadline());
  ASSERT_FALSE(received);
  EXPECT_NE(received.error().kind(), error_kind::timed_out);
}

TEST(published_trust, requests_that_are_not_permitted_end_the_connection) {
  const test_store store;
  auto good = connect_client(store.member(0, 2));
  const net::detail::store_hello hello{.rank = 1, .size = 2, .name = "test"};
  const auto publish = net::detail::encode_publish(1, "x", bytes_of("hostile"));
  expect_closes(store, std::nullopt, publish);
  int count = 0;
  for (const auto& message :
       {encode(store_find{.number = 1, .rank = 2, .name = "x"}),
        encode(store_find{.number = 1, .rank = ~0U, .name = "x"}),
        net::detail::encode_publish(1, "", {}), net::detail::encode_publish(1, "a\tb", {}),
        net::detail::encode_publish(1, "x", net::detail::blob(net::detail::max_value_bytes + 1))}) {
    auto of_other_group = hello;
    of_other_group.name += std::to_string(++count);
    expect_closes(store, of_other_group, message);
  }
  // A rank can publish only its own values, and a process that waits in rejoin() cannot publish.
  auto stranger = hello;
  {
    auto left = connect_client(store.member(1, 2));
    std::thread waits([&] { EXPECT_TRUE(left.exchange("x", bytes_of("x"), test_deadline())); });
    EXPECT_TRUE(good.exchange("x", bytes_of("x"), test_deadline()));
    waits.join();
  }
  const auto until = test_deadline();  // the store detects the end with a delay
  while (good.departed().empty()) ASSERT_FALSE(until.expired());
  stranger.entry = net::detail::store_entry::rejoins;
  expect_closes(store, stranger, publish);
  good.publish("x", bytes_of("good"), test_deadline()).value();
  EXPECT_EQ(text_of(good.find(0, "x", test_deadline()).value()), "good");
  EXPECT_FALSE(good.find(1, "x", deadline::after(20ms)));
  EXPECT_EQ((*store).statistics().refused, 7U);
}

// find() must end when the connection of the rank ends, not at its deadline. No other request about
// the rank follows.
TEST(published_wait, ends_when_the_connection_of_the_rank_ends) {
  const test_store store;
  auto raw = bringup::stream::connect(store.address(), test_deadline()).value();
  raw.send(encode(net::detail::store_hello{.rank = 0, .size = 3, .name = "test"}), test_deadline())
      .value();
  raw.receive(test_deadline()).value();
  std::optional<net::store_client> asked = connect_client(store.member(1, 3));
  auto other = connect_client(store.member(2, 3));
  raw.send(encode(store_find{.number = 7, .timeout_ms = 50'000, .rank = 1, .name = "never"}),
           test_deadline())
      .value();
  int unsent = 1;
  while (unsent != 0) ASSERT_EQ(::ioctl(raw.fd(), SIOCOUTQ, &unsent), 0);
  // The store handles all requests that have arrived before it polls again.
  for (int i = 0; i < 2; ++i) other.publish("x", {}, test_deadline()).value();
  const auto began = deadline::clock::now();
  asked.reset();
  auto answer = net::detail::decode_answer(raw.receive(test_deadline()).value()).value();
  if (std::holds_alternative<net::detail::store_left>(answer))
    answer = net::detail::decode_answer(raw.receive(test_deadline()).value()).value();
  const auto& reply = std::get<store_reply>(answer);
  EXPECT_EQ(reply.number, 7U);
  EXPECT_EQ(reply.outcome, value_outcome::gone);
  EXPECT_LT(deadline::clock::now() - began, 20s);
}

TEST(published_trust, client_without_the_secret_publishes_nothing) {
  const test_store store({.secret = "a secret"});
  expect_closes(store, net::detail::store_hello{.rank = 1, .size = 2, .name = "test"},
                net::detail::encode_publish(1, "x", bytes_of("hostile")));
  auto who = store.member(0, 2);
  who.secret = "a secret";
  EXPECT_FALSE(connect_client(who).find(1, "x", deadline::after(20ms)));
}

std::uint32_t number_of_find(bringup::stream& from) {
  const auto request = net::detail::decode_request(from.receive(test_deadline()).value()).value();
  return std::get<store_find>(request).number;
}

net::detail::blob reply_to(std::uint32_t number, std::string_view text) {
  const auto bytes = bytes_of(text);
  return encode(store_reply{.number = number, .value = {bytes.begin(), bytes.end()}});
}

TEST(late_reply, is_ignored_by_later_calls) {
  std::atomic<int> step = 0;
  const auto wait_for = [&](int what) {
    while (step < what) std::this_thread::yield();
  };
  const scripted_store store([&](bringup::stream& with) {
    const auto first = number_of_find(with);
    wait_for(1);
    // The next request is sent after the first part of the late reply.
    const auto frame =
        bringup::encode_frame(bringup::frame_type::blob, reply_to(first, "too late"));
    const std::span<const std::byte> whole = frame;
    ::send(with.fd(), whole.data(), 9, MSG_NOSIGNAL);
    step = 2;
    wait_for(3);
    ::send(with.fd(), whole.data() + 9, whole.size() - 9, MSG_NOSIGNAL);
    // The find in between is sent if no part of the late reply has arrived.
    auto last = std::get<store_find>(request_of(with));
    while (last.name != "last") last = std::get<store_find>(request_of(with));
    const auto second = last.number;
    with.send(reply_to(first, "much too late"), test_deadline()).value();
    with.send(reply_to(second, "in time"), test_deadline()).value();
    const auto exchange = number_of_request(with);
    with.send(reply_to(second, "repeated"), test_deadline()).value();
    send_part(with, exchange, "part");
  });
  auto client = store.client();
  expect_error(client.find(0, "x", deadline::after(20ms)),
               "the store did not answer before the deadline");
  step = 1;
  wait_for(2);
  // A part of a message has arrived or is arriving.
  expect_error(client.find(0, "x", deadline::after(20ms)),
               "the store did not answer before the deadline");
  EXPECT_TRUE(client.departed().empty());
  step = 3;
  EXPECT_EQ(text_of(client.find(0, "last", test_deadline()).value()), "in time");
  EXPECT_EQ(text_of(client.exchange("x", bytes_of(""), test_deadline()).value().front()), "part");
}

TEST(false_reply, is_an_error) {
  const std::vector<std::pair<net::detail::blob, const char*>> cases{
      {net::detail::encode_done({}), "an answer without the number of a request"},
      // The hello has number 1, and the find number 2.
      {net::detail::encode_numbered(2, net::detail::encode_done({})),
       "the answer of the store does not match the request"},
      {encode(net::detail::store_failed{.why = net::detail::store_failure::expelled}),
       "the other ranks continue without this one"},
      {{std::byte{7}}, "the message ends before its last value"}};
  for (const auto& [answer, expected] : cases) {
    const scripted_store store([&answer = answer](bringup::stream& with) {
      number_of_find(with);
      with.send(answer, test_deadline()).value();
    });
    expect_error(store.client().find(0, "x", test_deadline()), expected);
  }
}

TEST(false_reply, end_of_the_store_ends_the_wait) {
  const scripted_store store([](bringup::stream& with) { number_of_find(with); });
  const auto began = deadline::clock::now();
  EXPECT_FALSE(store.client().find(0, "x", test_deadline()));
  EXPECT_LT(deadline::clock::now() - began, 20s);
}

class published_in_groups : public ::testing::TestWithParam<net::connect_mode> {
 protected:
  static net::group_options options() {
    net::group_options made;
    made.connect = GetParam();
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(all, published_in_groups,
                         ::testing::Values(net::connect_mode::at_join,
                                           net::connect_mode::on_first_use));

// Rank 0 has the store.
// parity: ibverbs-rs-98
TEST_P(published_in_groups, regions_are_found_and_read) {
  bringup::address place{.host = "127.0.0.1"};
  place.port = net::store::open(place).value().local_address().port;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here({.rank = rank, .size = 3, .store = place}, options());
    auto memory = here.pd.allocate(4096, access::local_write | access::remote_read).value();
    memory.bytes()[0] = std::byte(rank + 1);
    here.group.publish("memory", memory.remote(), test_deadline()).value();
    auto page = here.pd.allocate(4096, access::local_write).value();
    for (const std::uint32_t each : {2U, 0U, 1U}) {
      const auto theirs = here.group.find_region(each, "memory", test_deadline()).value();
      EXPECT_EQ(theirs.rank, each);
      ASSERT_TRUE(here.group[each].read(sink(page, 0, 1), theirs.region));
      EXPECT_EQ(page.bytes()[0], std::byte(each + 1));
    }
    if (rank == 0) here.group.publish("text", bytes_of("no region"), test_deadline()).value();
    expect_error(here.group.find_region(0, "text", test_deadline()),
                 "the value \"text\" of rank 0 is not a remote region");
    EXPECT_EQ(text_of(here.group.find(0, "text", test_deadline()).value()), "no region");
    EXPECT_TRUE(here.group.barrier(test_deadline()));  // before `memory` is deregistered
  });
}

// Otherwise, the members would expel the waiting rank, because it does not call shrink().
TEST_P(published_in_groups, waiting_ends_when_a_member_calls_shrink) {
  in_group(
      3,
      [](joined_rank& here) {
        if (here.group.rank() != 1) {
          const auto failed = here.group.find(2, "never", test_deadline());
          expect_error(failed,
                       " called shrink() or readmit() before rank 2 had published \"never\"");
          EXPECT_EQ(failed.error().code(), ECONNABORTED);
        }
        here.group.shrink(test_deadline()).value();
        EXPECT_EQ(members_of(here.group), (rank_list{0, 1, 2}));
      },
      options());
}

TEST(published_again, new_process_of_a_rank_publishes_its_own_values) {
  const test_store store;
  std::atomic<bool> has_left = false;
  for_each_rank(3, [&](std::uint32_t rank) {
    if (rank == 2) {
      {
        joined_rank first(store.member(2, 3));
        first.group.publish("memory", bytes_of("old"), test_deadline()).value();
        first.group.exchange("published", bytes_of(""), test_deadline()).value();
      }
      has_left = true;
      joined_rank second(store.member(2, 3), again());
      second.group.publish("memory", bytes_of("new"), test_deadline()).value();
      second.group.exchange("end", bytes_of(""), test_deadline()).value();
      return;
    }
    joined_rank here(store.member(rank, 3));
    EXPECT_EQ(text_of(here.group.find(2, "memory", test_deadline()).value()), "old");
    here.group.publish("mine", bytes_of("kept"), test_deadline()).value();
    here.group.exchange("published", bytes_of(""), test_deadline()).value();
    while (!has_left) std::this_thread::yield();
    here.group.readmit(std::array{2U}, test_deadline()).value();
    EXPECT_EQ(text_of(here.group.find(2, "memory", test_deadline()).value()), "new");
    EXPECT_EQ(text_of(here.group.find(1 - rank, "mine", test_deadline()).value()), "kept");
    here.group.exchange("end", bytes_of(""), test_deadline()).value();
  });
}

}  // namespace
}  // namespace verbena::test
