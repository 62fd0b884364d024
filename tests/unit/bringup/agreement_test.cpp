// SPDX-License-Identifier: MIT
// Both sides reach the same decision for random offers, and no value exceeds the offers.
// decisions.inc lists the decision for each situation.
#include "verbena/bringup/agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

#include "tests/unit/bringup/offers.hpp"

namespace {

using namespace offers;
using bringup::agreement;
using bringup::decide;
using bringup::side;

side mirrored(side of) {
  if (of == side::both) return of;
  return of == side::ours ? side::theirs : side::ours;
}

agreement mirrored(agreement of) {
  std::swap(of.our_gid, of.their_gid);
  std::swap(of.ours, of.theirs);
  return of;
}

void expect_within(const agreement& made, const offer& ours, const offer& theirs) {
  EXPECT_LE(made.mtu, ours.mtu);
  EXPECT_LE(made.mtu, theirs.mtu);
  EXPECT_TRUE(made.mtu == ours.mtu || made.mtu == theirs.mtu);
  EXPECT_LE(made.inline_bytes, std::min(ours.inline_bytes, theirs.inline_bytes));
  EXPECT_LE(made.ours.reads, ours.reliability.initiator_depth);
  EXPECT_LE(made.ours.reads, theirs.reliability.responder_resources);
  EXPECT_EQ(made.ours.timeout.is_infinite(), ours.reliability.timeout.is_infinite());
  EXPECT_GE(made.ours.timeout.exponent(), ours.reliability.timeout.exponent());
  EXPECT_LE(made.ours.timeout.exponent(), std::max(ours.reliability.timeout.exponent(),
                                                   bringup::longest_raised_timeout_exponent));
  EXPECT_EQ(made.our_gid.has_value(), made.their_gid.has_value());
  EXPECT_TRUE(made.our_gid || ours.link_layer == link_layer::infiniband);
  if (!made.our_gid) return;
  ASSERT_LT(*made.our_gid, ours.gids.size());
  ASSERT_LT(*made.their_gid, theirs.gids.size());
  const auto& one = ours.gids[*made.our_gid];
  const auto& other = theirs.gids[*made.their_gid];
  if (ours.link_layer == link_layer::infiniband) return;
  EXPECT_EQ(one.type, other.type);
  EXPECT_TRUE(one.gid != other.gid || ours.host == theirs.host);
}

TEST(decision, both_sides_reach_the_same_decision) {
  std::mt19937 random(4);
  int agreed = 0;
  int refused = 0;
  for (int round = 0; round < 6000; ++round) {
    const offer ours = random_offer(random);
    const offer theirs = random() % 50 == 0 ? ours : random_offer(random);
    const auto here = decide(ours, theirs);
    const auto there = decide(theirs, ours);
    ASSERT_EQ(here.has_value(), there.has_value());
    if (here) {
      ++agreed;
      ASSERT_EQ(mirrored(*here), *there) << to_string(*here, ours, theirs) << "\n"
                                         << to_string(*there, theirs, ours);
      expect_within(*here, ours, theirs);
      EXPECT_FALSE(to_string(*here, ours, theirs).empty());
    } else {
      ++refused;
      const auto& why = here.error();
      const auto& seen_there = there.error();
      ASSERT_EQ(why.reason, seen_there.reason);
      ASSERT_EQ(why.whose, mirrored(seen_there.whose));
      EXPECT_FALSE(why.text.empty());
      EXPECT_NE(to_error(why, "peer").code(), 0);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(agreed, 300);
  EXPECT_GT(refused, 1000);
}

// The order of the GID table changes the indexes of the selected GIDs, not their addresses.
TEST(decision, order_of_addresses_does_not_change_the_decision) {
  std::mt19937 random(5);
  for (int round = 0; round < 1500; ++round) {
    const offer ours = random_offer(random);
    const offer theirs = random_offer(random);
    if (ours.link_layer == link_layer::infiniband) continue;  // the first GID defines its subnet
    offer turned = ours;
    std::ranges::reverse(turned.gids);
    const auto first = decide(ours, theirs);
    const auto second = decide(turned, theirs);
    ASSERT_EQ(first.has_value(), second.has_value());
    if (!first) continue;
    ASSERT_EQ(first->reach, second->reach);
    ASSERT_EQ(ours.gids[*first->our_gid].type, turned.gids[*second->our_gid].type);
  }
}

TEST(decision, ack_timeout_is_raised_to_at_most_the_limit) {
  offer ours = adapter(1, {entry("10.0.0.1/24")});
  offer theirs = adapter(2, {entry("10.0.0.2/24")});
  theirs.reliability.ack_delay_exponent = 31;
  EXPECT_EQ(decide(ours, theirs).value().ours.timeout.exponent(),
            bringup::longest_raised_timeout_exponent);
  ours.reliability.timeout = ack_timeout::infinite();
  EXPECT_TRUE(decide(ours, theirs).value().ours.timeout.is_infinite());
}

TEST(decision_death, content_of_the_other_kind_stops_the_program) {
  const offer ours = adapter(1, {entry("10.0.0.1/24")});
  const auto agreed = decide(ours, adapter(2, {entry("10.0.0.2/24")}));
  const auto refused = decide(ours, adapter(2, {}));
  ASSERT_TRUE(agreed);
  ASSERT_FALSE(refused);
  EXPECT_DEATH(static_cast<void>(agreed.error()), "error\\(\\) of a decision without a mismatch");
  EXPECT_DEATH(static_cast<void>(refused.value()), "value\\(\\) of a decision with a mismatch");
}

TEST(decision, each_mismatch_has_an_errno) {
  using bringup::mismatch;
  const auto code = [](mismatch reason) {
    return bringup::to_error({.reason = reason, .whose = side::both, .text = "words"}, "peer")
        .code();
  };
  EXPECT_EQ(code(mismatch::transport), EPROTOTYPE);
  EXPECT_EQ(code(mismatch::iwarp), EOPNOTSUPP);
  EXPECT_EQ(code(mismatch::port_down), ENETDOWN);
  EXPECT_EQ(code(mismatch::partition), EACCES);
  EXPECT_EQ(code(mismatch::no_gid), EADDRNOTAVAIL);
  EXPECT_EQ(code(mismatch::no_common_subnet), ENETUNREACH);
}

}  // namespace
