// SPDX-License-Identifier: MIT
// How processes that use multicast groups find each other.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "softdev/peers/slot_claim.hpp"
#include "tests/unit/softdev/peers/link_pair.hpp"
#include "verbena/base/sanitizers.hpp"

namespace verbena::softdev {
namespace {

using namespace testing;

/// A process that uses groups, but does not search and does not pair.
slot_claim silent_group_user() {
  slot_claim claim = slot_claim::take().value();
  EXPECT_EQ(claim.announce_group_user(), 0);
  return claim;
}

/// Other tests may use groups at the same time.
bool finds(link& own, const slot_claim& other) {
  const auto found = own.meet_group_users().value();
  return std::ranges::any_of(found, [&](const auto& each) { return each->slot() == other.slot(); });
}

TEST(group_users, first_search_tries_each_slot_and_later_ones_those_of_peers) {
  const auto own = open_link();
  const slot_claim first = silent_group_user();
  const slot_claim no_user = slot_claim::take().value();
  EXPECT_TRUE(finds(*own, first));
  EXPECT_FALSE(finds(*own, no_user));
  const slot_claim later = silent_group_user();
  EXPECT_FALSE(finds(*own, later)) << "it searches itself";
  EXPECT_TRUE(finds(*own, first));
}

TEST(group_users, process_that_paired_later_is_found_after_the_pairing_ended) {
  const auto own = open_link();
  static_cast<void>(own->meet_group_users().value());
  const auto later = open_link();
  const auto others = later->meet_group_users().value();
  const auto to_own =
      std::ranges::find(others, own->slot(), [](const auto& e) { return e->slot(); });
  ASSERT_NE(to_own, others.end());
  ASSERT_TRUE(drive({own.get(), later.get()}, [&] {
    const auto back = own->find(later->slot());
    return back && back->state() == peer_state::paired;
  }));
  EXPECT_GE(own->lose_peers(std::nullopt), 1U);
  ASSERT_TRUE(drive({own.get(), later.get()}, [&] { return !own->find(later->slot()); }));
  const auto again = own->meet_group_users().value();
  EXPECT_EQ(std::ranges::count(again, later->slot(), [](const auto& e) { return e->slot(); }), 1);
}

// UndefinedBehaviorSanitizer needs descriptors to examine an object.
#ifndef VERBENA_ADDRESS_SANITIZER
TEST(group_users, search_without_descriptors_fails_and_is_repeated) {
  child process([](int) {
    const auto own = open_link();
    const slot_claim first = silent_group_user();
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
    const rlimit none{0, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 3;
    const auto failed = own->meet_group_users();
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 4;
    if (failed || failed.error().code() != EMFILE) return 5;
    return finds(*own, first) ? 0 : 6;
  });
  EXPECT_EQ(process.wait(), 0);
}
#endif

}  // namespace
}  // namespace verbena::softdev
