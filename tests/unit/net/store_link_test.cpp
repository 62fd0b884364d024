// SPDX-License-Identifier: MIT
// Answers of the store that arrive after the deadline of the call.
#include "src/net/store_link.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "tests/unit/net/ranks.hpp"
#include "tests/unit/net/scripted_store.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/bringup/frame.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::test {
namespace {

using net::detail::store_failed;
using net::detail::store_failure;
using testing_support::expect_error;

/// A store that answers the first exchange only after the test has called answer().
class late_answer : public ::testing::Test {
 protected:
  static void send_reply(bringup::stream& to, std::uint32_t number) {
    to.send(encode(net::detail::store_reply{.number = number, .value = {}}), test_deadline())
        .value();
  }
  /// Answers the first exchange late with a part, and then a request of type `Next`.
  template <class Next>
  void answer_late_part_and(bringup::stream& with) const {
    const auto number = number_of_request(with);
    wait_for_answer();
    send_part(with, number, "late part");
    send_reply(with, std::get<Next>(request_of(with)).number);
  }
  void answer() { may_answer_ = true; }
  void wait_for_answer() const {
    while (!may_answer_) std::this_thread::yield();
  }
  /// Exchanges with a deadline that passes before the answer.
  static void miss_exchange(net::store_client& by) {
    const auto late = by.exchange("first", bytes_of("x"), deadline::after(20ms));
    expect_error(late, "did not answer before the deadline");
    EXPECT_EQ(late.error().kind(), error_kind::timed_out);
  }

 private:
  std::atomic<bool> may_answer_ = false;
};

TEST_F(late_answer, of_an_exchange_does_not_end_the_connection) {
  const scripted_store store([&](bringup::stream& with) {
    const auto first = request_of(with);
    EXPECT_TRUE(std::holds_alternative<net::detail::store_exchange>(first));
    wait_for_answer();
    send_numbered(
        with, number_of(first),
        encode(store_failed{.why = store_failure::missing, .ranks = {0}, .name = "first"}));
    send_reply(with, std::get<net::detail::store_publish>(request_of(with)).number);
    const auto second = request_of(with);
    EXPECT_EQ(std::get<net::detail::store_exchange>(second).name, "second");
    send_part(with, number_of(second), "second part");
  });
  auto client = store.client();
  miss_exchange(client);
  answer();
  client.publish("value", bytes_of("x"), test_deadline()).value();
  const auto all = client.exchange("second", bytes_of("x"), test_deadline()).value();
  EXPECT_EQ(text_of(all.front()), "second part");
  EXPECT_TRUE(client.departed().empty());
}

// The store closes a connection that sends a request before the answer to its exchange.
TEST_F(late_answer, is_awaited_before_the_next_request) {
  const scripted_store store(
      [&](bringup::stream& with) { answer_late_part_and<net::detail::store_find>(with); });
  auto client = store.client();
  miss_exchange(client);
  expect_error(client.exchange("second", bytes_of("x"), deadline::after(20ms)),
               "did not answer before the deadline");
  expect_error(client.find(0, "value", deadline::after(20ms)),
               "did not answer before the deadline");
  answer();
  EXPECT_TRUE(client.find(0, "value", test_deadline()));
}

// Otherwise, a repeated exchange of this rank would receive the parts of the next exchange of the
// other ranks.
TEST_F(late_answer, with_the_parts_of_all_ranks_fails_later_exchanges_of_this_rank) {
  const scripted_store store(
      [&](bringup::stream& with) { answer_late_part_and<net::detail::store_publish>(with); });
  auto client = store.client();
  miss_exchange(client);
  answer();
  for (int times = 0; times < 2; ++times) {
    const auto failed = client.exchange("first", bytes_of("x"), test_deadline());
    expect_error(failed,
                 "the deadline of exchange(\"first\") passed on this rank, but the "
                 "exchange succeeded on the other ranks");
    EXPECT_EQ(failed.error().kind(), error_kind::timed_out);
  }
  EXPECT_TRUE(client.publish("value", bytes_of("x"), test_deadline()));
}

TEST_F(late_answer, that_expels_the_rank_is_the_last) {
  const scripted_store store([&](bringup::stream& with) {
    request_of(with);
    wait_for_answer();
    with.send(encode(store_failed{.why = store_failure::expelled, .ranks = {0}}), test_deadline())
        .value();
  });
  auto client = store.client();
  miss_exchange(client);
  answer();
  for (int times = 0; times < 2; ++times) {
    const auto failed = client.exchange("second", bytes_of("x"), test_deadline());
    expect_error(failed, "the other ranks continue without this one");
    EXPECT_EQ(failed.error().code(), ECONNABORTED);
  }
}

TEST_F(late_answer, with_the_parts_of_all_ranks_permits_exchanges_after_an_agreement) {
  using net::detail::asked;
  const auto send_agreed = [](bringup::stream& to, std::uint32_t number) {
    const std::uint32_t rank = 0;
    const std::span<const std::byte> part;
    send_numbered(to, number,
                  net::detail::encode_agreed(1, std::span(&rank, 1), std::span(&part, 1)));
  };
  auto listener = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::thread serves([&] {
    auto with = listener.accept(test_deadline()).value();
    const auto first = number_of_request(with);
    wait_for_answer();
    send_part(with, first, "late part");
    const auto agreement = request_of(with);
    EXPECT_TRUE(std::holds_alternative<net::detail::store_agreement>(agreement));
    send_agreed(with, number_of(agreement));
    const auto last = number_of_request(with);
    send_part(with, last, "part");
  });
  net::detail::store_link link(
      bringup::stream::connect(listener.local_address(), test_deadline()).value(), {.size = 1});
  const std::span<const std::byte> part;
  const auto exchange = [&](std::uint32_t number) {
    return net::detail::encode_exchange({.number = number, .timeout_ms = 1000, .name = "x"},
                                        std::span(&part, 1));
  };
  const asked by_exchange{.call = "exchange", .what = asked::kind::exchange, .name = "x"};
  EXPECT_FALSE(ask_store(link, by_exchange, exchange, deadline::after(20ms)).value());
  answer();
  EXPECT_FALSE(ask_store(link, by_exchange, exchange, test_deadline()));
  const auto agreement = [&](std::uint32_t number) {
    return net::detail::encode_agreement({.number = number, .timeout_ms = 1000, .name = "shrink"},
                                         std::span(&part, 1));
  };
  EXPECT_TRUE(ask_store(link, {.call = "shrink", .what = asked::kind::agreement}, agreement,
                        test_deadline())
                  .value());
  const auto all = ask_store(link, by_exchange, exchange, test_deadline()).value();
  EXPECT_TRUE(all && std::holds_alternative<net::detail::blobs>(*all));
  serves.join();
}

// The store would wait beyond the deadline of the caller for the other ranks.
TEST_F(late_answer, is_awaited_within_the_time_of_the_next_request) {
  constexpr auto time_of_answer = 1s;
  deadline until = deadline::never();
  std::atomic<bool> has_begun = false;
  const scripted_store store([&](bringup::stream& with) {
    const auto first = number_of_request(with);
    while (!has_begun) std::this_thread::yield();
    const auto due = deadline::after(time_of_answer);
    while (!due.expired()) std::this_thread::yield();
    const std::chrono::duration<double, std::milli> left = until.when() - deadline::clock::now();
    send_part(with, first, "late part");
    const auto find = std::get<net::detail::store_find>(request_of(with));
    EXPECT_LE(find.timeout_ms, left.count());
    send_reply(with, find.number);
  });
  auto client = store.client();
  miss_exchange(client);
  until = test_deadline();
  has_begun = true;
  EXPECT_TRUE(client.find(0, "value", until));
}

// The client must not take the answer of an earlier or of no request for that of its request.
TEST(stray_answer, is_an_error_of_the_request_in_progress) {
  const auto part = bytes_of("stray");
  const auto done = net::detail::encode_done(std::span(&part, 1));
  const std::vector<std::function<net::detail::blob(std::uint32_t)>> cases{
      [&](std::uint32_t number) { return net::detail::encode_numbered(number + 1, done); },
      [&](std::uint32_t number) { return net::detail::encode_numbered(number - 1, done); },
      [&](std::uint32_t) { return net::detail::blob(done); },
      [&](std::uint32_t) { return encode(store_failed{.why = store_failure::missing}); }};
  for (const auto& stray : cases) {
    const scripted_store store([&](bringup::stream& with) {
      const auto number = number_of_request(with);
      with.send(stray(number), test_deadline()).value();
      // The client may have closed the connection.
      static_cast<void>(with.send(net::detail::encode_numbered(number, done), test_deadline()));
    });
    const auto failed = store.client().exchange("x", bytes_of("x"), test_deadline());
    expect_error(failed, "which this rank does not expect; the last request of this rank is 2");
    EXPECT_EQ(failed.error().kind(), error_kind::protocol);
  }
}

TEST(stray_answer, between_requests_is_an_error_of_the_next_one) {
  std::atomic<bool> is_sent = false;
  const scripted_store store([&](bringup::stream& with) {
    const auto part = bytes_of("stray");
    send_numbered(with, 7, net::detail::encode_done(std::span(&part, 1)));
    is_sent = true;
    static_cast<void>(with.receive(test_deadline()));
  });
  auto client = store.client();
  while (!is_sent) std::this_thread::yield();
  expect_error(client.exchange("x", bytes_of("x"), test_deadline()),
               "the store sent an answer to request 7, which this rank does not expect");
}

/// Expects that each call of a client names rank 0, the address of its store and the remedy.
void expect_end_of_rank_0(net::store_client& of, const bringup::address& at) {
  for (int times = 0; times < 2; ++times) {
    const auto failed = of.exchange("x", bytes_of("x"), test_deadline());
    expect_error(failed, "exchange on rank 1");
    expect_error(failed, "the store at " + to_string(at) + ", in the process of rank 0, has ended");
    expect_error(failed, "use a separate store (verbena launch or verbena store)");
    expect_error(of.publish("x", bytes_of("x"), test_deadline()), "in the process of rank 0");
    expect_error(of.find(0, "x", test_deadline()), "in the process of rank 0");
  }
  const auto departed = of.departed();
  EXPECT_EQ(rank_list(departed.begin(), departed.end()), rank_list{0});
}

TEST(end_of_rank_0, is_named_by_each_later_call) {
  std::optional<net::store> store = net::store::open({.host = "127.0.0.1"}).value();
  const auto at = store->local_address();
  auto here = connect_client({.rank = 1, .size = 2, .store = at});
  store.reset();
  expect_end_of_rank_0(here, at);
}

TEST(end_of_rank_0, during_an_exchange_is_named) {
  std::optional<net::store> store = net::store::open({.host = "127.0.0.1"}).value();
  const auto at = store->local_address();
  auto here = connect_client({.rank = 1, .size = 2, .store = at});
  std::thread waits([&] {
    expect_error(here.exchange("x", bytes_of("x"), test_deadline()), "in the process of rank 0");
  });
  store.reset();
  waits.join();
  expect_end_of_rank_0(here, at);
}

TEST(end_of_rank_0, before_a_connection_is_named) {
  bringup::address at{.host = "127.0.0.1"};
  at.port = net::store::open(at).value().local_address().port;
  const auto failed =
      net::store_client::connect({.rank = 1, .size = 2, .store = at}, deadline::after(1ms));
  expect_error(failed, to_string(at));
  expect_error(failed, "rank 0 opens the store at this address in group::join()");
}

/// Calls exchange() with `bytes` on rank 1, whose store is in rank 0, while `serve` acts as the
/// store. Returns the error. The end of rank 0 must not be reported.
/// If `bytes` exceeds the room of the sockets, `serve` begins during the request.
error failure_of_exchange(const std::function<void(bringup::stream&)>& serve,
                          std::size_t bytes = 1) {
  const bool ends = bytes != 1;
  auto listener = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::optional<error> why;
  std::atomic<bool> has_failed = false;
  std::thread serves([&] {
    auto with = listener.accept(test_deadline()).value();
    with.receive(test_deadline()).value();
    with.send(net::detail::encode_admission(net::store_options::most_message_bytes),
              test_deadline())
        .value();
    serve(with);
    if (ends) {
      const auto closed = std::move(with);
    }
    while (!has_failed) std::this_thread::yield();
  });
  auto here = connect_client({.rank = 1, .size = 2, .store = listener.local_address()});
  const net::exchanged_bytes part(bytes);
  auto failed = here.exchange("x", std::span<const std::byte>(part), test_deadline());
  EXPECT_FALSE(failed);
  EXPECT_TRUE(here.departed().empty());
  has_failed = true;
  serves.join();
  return std::move(failed).error();
}

TEST(failed_connection_to_rank_0, by_a_malformed_message_is_not_its_end) {
  const auto why = failure_of_exchange(
      [](bringup::stream& with) { with.send(bytes_of("\x63"), test_deadline()).value(); });
  EXPECT_EQ(why.kind(), error_kind::protocol);
}

TEST(failed_connection_to_rank_0, by_a_refusal_is_not_its_end) {
  const auto why =
      failure_of_exchange([](bringup::stream& with) { with.refuse("it sent data twice"); });
  EXPECT_NE(why.message().find("has closed the connection of this rank: it sent data twice"),
            std::string::npos)
      << why.message();
  EXPECT_EQ(why.message().find("network"), std::string::npos) << why.message();
  EXPECT_EQ(why.kind(), error_kind::protocol);
}

TEST(failed_connection_to_rank_0, in_the_middle_of_a_message_is_not_its_end) {
  const auto why = failure_of_exchange([](bringup::stream& with) {
    const auto frame = bringup::encode_frame(bringup::frame_type::blob, bytes_of("message"));
    EXPECT_EQ(::send(with.fd(), frame.data(), 3, MSG_NOSIGNAL), 3);
    with.shut_down();
  });
  EXPECT_NE(why.message().find("has ended in the middle of a message"), std::string::npos)
      << why.message();
  EXPECT_EQ(why.code(), ECONNRESET);
}

// As if the rank had not read for a long time: the store then closes without a reason.
TEST(failed_connection_to_rank_0, between_two_messages_is_not_the_end_of_a_store_that_runs) {
  auto listener = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::atomic<bool> has_failed = false;
  std::thread serves([&] {
    {
      auto with = listener.accept(test_deadline()).value();
      with.receive(test_deadline()).value();
      with.send(net::detail::encode_admission(net::store_client::max_message_bytes),
                test_deadline())
          .value();
      number_of_request(with);
    }
    EXPECT_TRUE(listener.accept(test_deadline()));
    while (!has_failed) std::this_thread::yield();
  });
  auto here = connect_client({.rank = 1, .size = 2, .store = listener.local_address()});
  const auto failed = here.exchange("x", bytes_of("x"), test_deadline());
  expect_error(failed, "has closed the connection of this rank, but still runs");
  expect_error(failed, "store_options::max_unread_bytes or unread_timeout");
  EXPECT_TRUE(here.departed().empty());
  has_failed = true;
  serves.join();
}

/// A store in rank 0 that closes the connection of rank 1 between two messages, and does not greet
/// another connection before accept().
class silent_store {
 public:
  silent_store() {
    std::thread serves([this] {
      auto with = listener_->accept(test_deadline()).value();
      with.receive(test_deadline()).value();
      with.send(net::detail::encode_admission(net::store_client::max_message_bytes),
                test_deadline())
          .value();
    });
    client.emplace(connect_client({.rank = 1, .size = 2, .store = listener_->local_address()}));
    serves.join();
  }
  void accept() { static_cast<void>(listener_->accept(test_deadline())); }
  void end() { listener_.reset(); }

  std::optional<net::store_client> client;

 private:
  std::optional<bringup::listener> listener_ =
      bringup::listener::open({.host = "127.0.0.1"}).value();
};

TEST(failed_connection_to_rank_0, departed_does_not_wait_for_a_greeting) {
  silent_store store;
  EXPECT_TRUE(store.client->departed().empty());
  std::thread greets([&] { store.accept(); });
  const auto failed = store.client->exchange("x", bytes_of("x"), test_deadline());
  expect_error(failed, "exchange on rank 1");
  EXPECT_EQ(failed.error().message().find("has probably ended"), std::string::npos)
      << failed.error().message();
  EXPECT_TRUE(store.client->departed().empty());
  greets.join();
}

TEST(failed_connection_to_rank_0, without_a_greeting_before_the_deadline_is_not_its_end) {
  silent_store store;
  EXPECT_TRUE(store.client->departed().empty());
  const auto failed = store.client->exchange("x", bytes_of("x"), deadline::after(300ms));
  expect_error(failed, "another connection was neither greeted nor refused in time");
  EXPECT_TRUE(store.client->departed().empty());
}

// The first check ends without an answer, the second one is refused.
TEST(failed_connection_to_rank_0, is_checked_again_if_there_was_no_answer) {
  silent_store store;
  expect_error(store.client->exchange("x", bytes_of("x"), deadline::after(300ms)),
               "another connection was neither greeted nor refused in time");
  // After 2 s, the first check ends.
  for (const auto until = deadline::after(2500ms); !until.expired(); ::sched_yield())
    ASSERT_TRUE(store.client->departed().empty());
  store.end();
  const std::uint32_t rank_0[] = {0};
  for (const auto until = test_deadline();
       !std::ranges::equal(store.client->departed(), rank_0) && !until.expired();)
    ::sched_yield();
  EXPECT_TRUE(std::ranges::equal(store.client->departed(), rank_0));
}

// The sockets cannot hold the request, and the store does not read it.
TEST(failed_connection_to_rank_0, during_a_request_has_the_reason_of_the_store) {
  const auto why_of = [](const std::function<void(bringup::stream&)>& end) {
    return failure_of_exchange(
        [&](bringup::stream& with) {
          pollfd request{.fd = with.fd(), .events = POLLIN, .revents = 0};
          EXPECT_EQ(::poll(&request, 1, test_deadline().poll_timeout_ms()), 1);
          end(with);
        },
        std::size_t{64} << 20U);
  };
  const auto expelled = why_of([](bringup::stream& with) {
    with.send(encode(store_failed{.why = store_failure::expelled, .ranks = {1}}), test_deadline())
        .value();
  });
  EXPECT_EQ(expelled.code(), ECONNABORTED);
  EXPECT_NE(expelled.message().find("the other ranks continue without this one"), std::string::npos)
      << expelled.message();
  const auto refused = why_of([](bringup::stream& with) { with.refuse("it sent data twice"); });
  EXPECT_EQ(refused.kind(), error_kind::protocol);
  EXPECT_NE(refused.message().find("it sent data twice"), std::string::npos) << refused.message();
}

TEST(refusal_of_the_store, before_the_admission_is_a_refused_connection) {
  auto listener = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::thread serves([&] {
    auto with = listener.accept(test_deadline()).value();
    with.receive(test_deadline()).value();
    with.refuse("it sent no membership");
  });
  const auto failed = net::store_client::connect(
      {.rank = 1, .size = 2, .store = listener.local_address()}, test_deadline());
  expect_error(failed, "connect on rank 1");
  expect_error(failed, "which had not joined its group yet: it sent no membership");
  EXPECT_EQ(failed.error().code(), ECONNREFUSED);
  serves.join();
}

TEST(end_of_separate_store, is_named) {
  std::optional<test_store> store(std::in_place);
  const auto at = store->address();
  auto here = connect_client(store->member(1, 2));
  store.reset();
  for (int times = 0; times < 2; ++times)
    expect_error(here.exchange("x", bytes_of("x"), test_deadline()),
                 "the connection to the store at " + to_string(at) +
                     " has ended; check that the process of the store");
}

// The store of the test is that of rank 0, which the others have left out.
TEST(end_of_rank_0, after_shrink_without_rank_0_is_named) {
  std::optional<test_store> store(std::in_place);
  std::atomic<int> left = 0;
  for_each_rank(3, [&](std::uint32_t rank) {
    auto who = store->member(rank, 3);
    if (rank == 0) {
      const joined_rank ends(who);
      return;
    }
    who.host = net::store_host::rank_0;
    joined_rank here(who);
    here.group.shrink(test_deadline()).value();
    EXPECT_EQ(members_of(here.group), (rank_list{1, 2}));
    EXPECT_TRUE(here.group.exchange("x", bytes_of("x"), test_deadline()));
    if (++left == 2) store.reset();
    const auto failed = here.group.exchange("y", bytes_of("x"), test_deadline());
    expect_error(failed, "rank 0, which is no longer a member, has probably ended");
    expect_error(here.group.shrink(test_deadline()), "rank 0, which is no longer a member,");
  });
}

class message_limit : public ::testing::TestWithParam<const char*> {
 protected:
  /// Exchanges parts of `bytes` between two ranks, which have the secret of the store.
  static void exchange(const test_store& store, std::size_t bytes, const char* why) {
    const net::exchanged_bytes part(bytes);
    for_each_rank(2, [&](std::uint32_t rank) {
      auto who = store.member(rank, 2);
      who.secret = GetParam();
      auto client = connect_client(who);
      const auto all = client.exchange("x", std::span<const std::byte>(part), test_deadline());
      if (why != nullptr) return expect_error(all, why);
      ASSERT_TRUE(all) << all.error().message();
      EXPECT_EQ(all->back().size(), bytes);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(all, message_limit, ::testing::Values("", "a secret"));

TEST_P(message_limit, above_the_default_applies_to_clients) {
  const test_store store({.max_message_bytes = std::size_t{5} << 20U, .secret = GetParam()});
  exchange(store, std::size_t{2} << 20U, nullptr);
}

TEST_P(message_limit, of_a_message_is_named_with_its_length) {
  const test_store store({.max_message_bytes = std::size_t{128} << 10U, .secret = GetParam()});
  exchange(store, 131'072,
           "a message of 131092 bytes exceeds the limit of the store, 131072 bytes; raise "
           "store_options::max_message_bytes of the store");
}

TEST_P(message_limit, applies_to_the_parts_of_all_ranks) {
  const test_store store({.max_message_bytes = std::size_t{128} << 10U, .secret = GetParam()});
  exchange(store, 100'000, "raise store_options::max_message_bytes of the store");
}

TEST(message_limits, out_of_range_are_refused) {
  for (const std::size_t bytes : {std::size_t{0}, net::store_options::min_message_bytes - 1,
                                  net::store_options::most_message_bytes + 1}) {
    const auto failed = net::store::open({.host = "127.0.0.1"}, {.max_message_bytes = bytes});
    expect_error(failed, std::to_string(bytes) + " bytes is not in the range 131072 to 1073741824");
    EXPECT_EQ(failed.error().kind(), error_kind::invalid_argument);
  }
}

TEST(message_limits, of_an_admission_are_checked) {
  const auto read = [](const net::detail::blob& message) {
    return net::detail::read_admission(
        std::get<net::detail::blobs>(net::detail::decode_answer(message).value()));
  };
  EXPECT_EQ(read(net::detail::encode_admission(200'000)).value(), 200'000U);
  for (const std::size_t bytes : {std::size_t{0}, net::store_options::most_message_bytes + 1})
    expect_error(read(net::detail::encode_admission(bytes)), "has an invalid limit");
  expect_error(read(net::detail::encode_done({})), "has no limit");
  const auto part = bytes_of("longer than 8");
  expect_error(read(net::detail::encode_done(std::span(&part, 1))), "has an invalid limit");
}

}  // namespace
}  // namespace verbena::test
