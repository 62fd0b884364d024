// SPDX-License-Identifier: MIT
#include "verbena/bringup/advertisement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "verbena/base/bytes.hpp"

namespace {

using namespace verbena;
using namespace verbena::bringup;
using testing::HasSubstr;
using kind = advertisement_kind;

const remote_region somewhere({.address = 0x1000, .length = 4096, .key = remote_key(0x55)});
const access_flags readable = access::remote_read;

std::uint32_t advertise_to(advertisement_table& from, advertisement_table& to,
                           const std::string& name) {
  advertisement_message message;
  const auto number = from.advertise(somewhere, readable, name, message).value();
  EXPECT_EQ(to.take(message).value(), (advertisement_update{kind::advertised, number}));
  return number;
}

TEST(advertisement_table, buffers_are_returned_in_order_and_by_name) {
  advertisement_table here;
  advertisement_table there;
  const auto first = advertise_to(here, there, "first");
  const auto second = advertise_to(here, there, "second");
  EXPECT_EQ(there.pending(), 2U);
  EXPECT_EQ(there.find("second").value().number, second);
  const auto got = there.next().value();
  EXPECT_EQ(got, (advertised_buffer{first, "first", somewhere, readable}));
  EXPECT_EQ(there.next().value().number, second);
  EXPECT_FALSE(there.next());
  EXPECT_TRUE(there.is_usable(first));
  EXPECT_FALSE(there.find("third"));
}

TEST(advertisement_table, copy_is_independent_of_the_original) {
  advertisement_table here;
  advertisement_table there;
  const auto number = advertise_to(here, there, "lent");
  const advertisement_table copy = here;
  EXPECT_TRUE(here.take(there.release(number).value()));
  EXPECT_FALSE(here.is_advertised(number));
  EXPECT_TRUE(copy.is_advertised(number));
  here = copy;
  EXPECT_TRUE(here.is_advertised(number));
}

TEST(advertisement_table, move_transfers_the_buffers) {
  advertisement_table here;
  advertisement_table there;
  const auto number = advertise_to(here, there, "lent");
  advertisement_table moved = std::move(here);
  EXPECT_TRUE(moved.is_advertised(number));
  advertisement_table assigned;
  assigned = std::move(moved);
  EXPECT_TRUE(assigned.is_advertised(number));
}

TEST(advertisement_table, use_of_a_moved_from_table_stops_the_program) {
  advertisement_table here;
  const advertisement_table moved = std::move(here);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): the use is the test
  EXPECT_DEATH(static_cast<void>(here.pending()), "a moved-from advertisement_table was used");
}

TEST(advertisement_table, revoked_buffer_is_released) {
  advertisement_table here;
  advertisement_table there;
  const auto number = advertise_to(here, there, "lent");
  const auto kept = advertise_to(here, there, "kept");
  EXPECT_EQ(there.take(here.revoke(number).value()).value().kind, kind::revoked);
  EXPECT_FALSE(there.is_usable(number));
  EXPECT_FALSE(there.find("lent"));
  EXPECT_EQ(there.next().value().number, kept) << "next() does not return a revoked buffer";
  EXPECT_TRUE(here.is_advertised(number)) << "requests of the peer may still be in flight";
  EXPECT_EQ(here.revoke(number).error().code(), EALREADY);
  EXPECT_EQ(here.take(there.release(number).value()).value(),
            (advertisement_update{kind::released, number}));
  EXPECT_FALSE(here.is_advertised(number));
  EXPECT_EQ(here.revoke(number).error().code(), ENOENT);
  EXPECT_EQ(there.release(number).error().code(), ENOENT);
}

// Both sides end the use of one buffer at the same time: the revocation and the release cross.
TEST(advertisement_table, crossing_messages_keep_both_tables_consistent) {
  advertisement_table here;
  advertisement_table there;
  const auto number = advertise_to(here, there, "");
  const auto question = here.revoke(number).value();
  const auto answer = there.release(number).value();
  EXPECT_TRUE(there.take(question));
  EXPECT_TRUE(here.take(answer));
  EXPECT_FALSE(here.is_advertised(number));
}

TEST(advertisement_table, invalid_buffers_are_rejected) {
  advertisement_table here({.own_buffers = 1});
  advertisement_message message;
  const auto refusal = [&](const remote_region& region, access_flags access,
                           const std::string& name) {
    const auto made = here.advertise(region, access, name, message);
    return made ? "none" : made.error().message();
  };
  EXPECT_THAT(refusal(somewhere.slice(0, 0), readable, ""), HasSubstr("the buffer is empty"));
  EXPECT_THAT(refusal(somewhere, {}, ""), HasSubstr("its access flags"));
  EXPECT_THAT(refusal(somewhere, access::local_write | access::remote_read, ""),
              HasSubstr("its access flags"));
  EXPECT_THAT(refusal(somewhere, readable, std::string(45, 'n')), HasSubstr("44 characters"));
  EXPECT_THAT(refusal(somewhere, readable, "a\n"), HasSubstr("printable"));
  EXPECT_EQ(refusal(somewhere, readable, "one"), "none");
  EXPECT_THAT(refusal(somewhere, readable, "one"),
              HasSubstr("another advertised buffer has this name"));
  EXPECT_THAT(refusal(somewhere, readable, "two"), HasSubstr("revoke some"));
}

TEST(advertisement_table, protocol_violation_of_the_peer_returns_an_error) {
  advertisement_table here({.buffers_of_peer = 2});
  advertisement_table there;
  advertisement_message message;
  static_cast<void>(there.advertise(somewhere, readable, "a", message));
  ASSERT_TRUE(here.take(message));
  const auto words = [&](std::span<const std::byte> bytes) {
    const auto taken = here.take(bytes);
    EXPECT_FALSE(taken);
    return taken ? std::string() : std::string(taken.error().diagnosis());
  };
  EXPECT_THAT(words(message), HasSubstr("that is in use"));
  EXPECT_THAT(words(bytes_of("a message of the application")), HasSubstr("in the same order"));
  auto newer = message;
  newer[4] = std::byte{2};
  EXPECT_THAT(words(newer), HasSubstr("has version 2"));
  advertisement_table stranger;
  advertisement_message foreign;
  static_cast<void>(stranger.advertise(somewhere, readable, "x", foreign));
  static_cast<void>(advertisement_table(stranger).take(foreign));
  advertisement_table borrower;
  static_cast<void>(borrower.take(foreign));
  EXPECT_THAT(words(borrower.release(1).value()), HasSubstr("does not have"));
  static_cast<void>(there.advertise(somewhere, readable, "b", message));
  ASSERT_TRUE(here.take(message));
  static_cast<void>(there.advertise(somewhere, readable, "c", message));
  EXPECT_THAT(words(message), HasSubstr("exceeds the limit"));
}

// Truncated, modified and random messages are rejected, or decoded to the value that encodes to
// their bytes. The table stays consistent.
TEST(advertisement_table, random_bytes_do_not_change_the_table) {
  std::mt19937 random(6);
  advertisement_message message;
  advertisement_table sender;
  static_cast<void>(
      sender.advertise(somewhere, readable | access::remote_atomic, "a name", message));
  for (std::size_t length = 0; length < message.size(); ++length)
    EXPECT_FALSE(advertisement_table().take(std::span(message).first(length)));
  int accepted = 0;
  for (std::size_t bit = 0; bit < message.size() * 8; ++bit) {
    auto flipped = message;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    advertisement_table book;
    const auto taken = book.take(flipped);
    if (!taken) continue;
    ++accepted;
    const auto got = book.next();
    if (!got) continue;  // decoded as a revocation of an unknown buffer
    EXPECT_LE(got->name.size(), max_buffer_name);
    EXPECT_FALSE(got->access.empty());
    EXPECT_NE(got->region, somewhere.slice(0, 0));
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 400);
}

// Random calls and random delivery between two tables: at the end both tables agree.
TEST(advertisement_table, random_calls_keep_both_tables_consistent) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    advertisement_table lender;
    advertisement_table borrower;
    std::deque<advertisement_message> to_borrower;
    std::deque<advertisement_message> to_lender;
    std::set<std::uint32_t> lent;
    std::set<std::uint32_t> borrowed;
    const auto deliver_one = [](std::deque<advertisement_message>& wire, advertisement_table& to) {
      const auto news = to.take(wire.front()).value();
      wire.pop_front();
      return news;
    };
    const auto step = [&](unsigned what) {
      if (what == 0 && lent.size() < 20) {
        advertisement_message message;
        lent.insert(lender.advertise(somewhere, readable, "", message).value());
        to_borrower.push_back(message);
      } else if (what == 1 && !lent.empty()) {
        const auto asked = lender.revoke(*lent.begin());
        if (asked) to_borrower.push_back(*asked);
      } else if (what == 2 && !borrowed.empty()) {
        const auto number = *borrowed.rbegin();
        to_lender.push_back(borrower.release(number).value());
        borrowed.erase(number);
      } else if (what == 3 && !to_borrower.empty()) {
        const auto news = deliver_one(to_borrower, borrower);
        if (news.kind == kind::advertised) borrowed.insert(news.number);
      } else if (what == 4 && !to_lender.empty()) {
        const auto news = deliver_one(to_lender, lender);
        ASSERT_EQ(lent.erase(news.number), 1U);
      }
    };
    for (int i = 0; i < 300; ++i) step(static_cast<unsigned>(random() % 5));
    for (int i = 0; i < 1000; ++i) step(2 + static_cast<unsigned>(i % 3));
    EXPECT_TRUE(to_borrower.empty() && to_lender.empty() && borrowed.empty());
    EXPECT_TRUE(lent.empty()) << "every released buffer is known to its owner";
  }
}

}  // namespace
