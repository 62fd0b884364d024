// SPDX-License-Identifier: MIT
// Another user holds public names of a user: processes of the user claim slots, each its own, and
// find each other.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/softdev/peers/other_users.hpp"

namespace verbena::softdev {
namespace {

using testing::as_crowded_user;
using testing::as_root;
using testing::crowded_user;
using testing::public_slots;

#define EXPECT_PASSED(status)                                                       \
  do {                                                                              \
    const int ended = (status);                                                     \
    if (ended == testing::skipped) GTEST_SKIP() << "only root can change its user"; \
    EXPECT_EQ(ended, 0);                                                            \
  } while (false)

TEST(squatted_names, claim_without_squatter_makes_no_file) {
  EXPECT_PASSED(as_root([] {
    const testing::home_directory home(crowded_user());
    as_crowded_user([] {
      const auto claimed = slot_claim::take();
      return claimed && is_public_slot(claimed->slot()) && claimed->slot() < large_slots ? 0 : 3;
    });
    EXPECT_TRUE(std::filesystem::is_empty(home.path()));
  }));
}

void processes_pair(bool listening, const char* kind) {
  const testing::home_directory home(crowded_user());
  const testing::squatter other(public_slots().size(), listening, kind);
  testing::child owner([&](int to_parent) {
    if (::setuid(crowded_user()) != 0) return 1;
    const auto opened = testing::open_link();
    testing::send_value(to_parent, opened->slot());
    for (;;) {  // until it is killed
      pollfd look{opened->service_fd(), POLLIN, 0};
      ::poll(&look, 1, 10);
      opened->service(testing::clock::now());
    }
  });
  const auto slot = owner.read<std::uint32_t>();
  EXPECT_FALSE(is_public_slot(slot));
  EXPECT_LT(slot, large_slots);
  as_crowded_user([&] {
    const auto opened = testing::open_link();
    EXPECT_FALSE(is_public_slot(opened->slot()));
    const auto to_owner = opened->connect(slot);
    testing::drive({opened.get()}, [&] { return to_owner->state() != peer_state::connecting; });
    EXPECT_EQ(to_owner->state(), peer_state::paired) << describe(to_owner->end());
    EXPECT_EQ(to_owner->pid(), owner.pid());
    return 0;
  });
}

TEST(squatted_names, processes_pair_if_all_names_are_taken) {
  EXPECT_PASSED(as_root([] { processes_pair(true, "soft0"); }));
}

TEST(squatted_names, processes_pair_if_all_names_are_taken_without_a_listener) {
  EXPECT_PASSED(as_root([] { processes_pair(false, "soft0"); }));
}

TEST(squatted_names, processes_pair_if_all_names_of_groups_are_taken) {
  EXPECT_PASSED(as_root([] { processes_pair(true, "groups"); }));
}

TEST(squatted_names, process_without_the_table_does_not_find_private_slot) {
  EXPECT_PASSED(as_root([] {
    const testing::home_directory home(crowded_user());
    const testing::squatter other(public_slots().size());
    as_crowded_user([] {
      const auto claimed = slot_claim::take().value();
      EXPECT_EQ(connect_to_slot(claimed.slot()).error, 0);
      EXPECT_EQ(find_slot_holder(claimed.slot()).pid, ::getpid());
      testing::forget_home();
      EXPECT_EQ(connect_to_slot(claimed.slot()).error, ECONNREFUSED);
      return 0;
    });
  }));
}

TEST(squatted_names, name_of_ended_process_that_another_user_took_is_refused) {
  EXPECT_PASSED(as_root([] {
    const testing::home_directory home(crowded_user());
    const testing::squatter other(public_slots().size());
    std::uint32_t slot = slot_count;
    {
      testing::child owner([&](int to_parent) {
        if (::setuid(crowded_user()) != 0) return 1;
        const auto claimed = slot_claim::take().value();
        testing::send_value(to_parent, claimed.slot());
        ::pause();
        return 0;
      });
      slot = owner.read<std::uint32_t>();
    }
    // Each user can read the name in /proc/net/unix while the process runs.
    std::array<unsigned long long, 2> words{};
    as_crowded_user([&] { return name_table::open(if_missing::fail) ? 0 : 3; });
    testing::child reader([&](int to_parent) {
      if (::setuid(crowded_user()) != 0) return 1;
      const name_token token =
          name_table::open(if_missing::fail).value().find(name_entries::slots + slot);
      testing::send_value(to_parent, std::array{token.high, token.low});
      return 0;
    });
    const auto token = reader.read<std::array<std::uint64_t, 2>>();
    words = {token[0], token[1]};
    const unique_fd stolen = testing::take_name(
        local_name("verbena-soft0.%u.%016llx%016llx", crowded_user(), words[0], words[1]), true);
    EXPECT_TRUE(stolen);
    as_crowded_user([&] {
      EXPECT_EQ(connect_to_slot(slot).error, EACCES);
      // All large private slots can be claimed, that one, too.
      std::vector<slot_claim> all;
      do all.push_back(slot_claim::take().value());
      while (all.back().slot() < large_slots);
      EXPECT_EQ(find_slot_holder(slot).pid, ::getpid());
      EXPECT_FALSE(is_public_slot(all.back().slot()));
      return 0;
    });
  }));
}

TEST(squatted_names, refusal_tells_why_there_are_no_private_names) {
  EXPECT_PASSED(as_root([] {
    const testing::home_directory home(crowded_user());
    std::filesystem::permissions(home.path(), std::filesystem::perms::all);
    const testing::squatter other(public_slots().size());
    as_crowded_user([&] {
      const auto refused = slot_claim::take();
      if (refused) return 3;
      const std::string said = refused.error().message();
      EXPECT_NE(said.find("by other users (user 54322 pid "), std::string::npos) << said;
      EXPECT_NE(said.find(home.path().string() + " can be written by every user"),
                std::string::npos)
          << said;
      return 0;
    });
  }));
}

/// Binds and frees public names of the crowded user at random.
int squat_at_random(unsigned seed) {
  std::mt19937 random(seed);
  const std::vector<std::uint32_t> slots = public_slots();
  std::vector<unique_fd> held(slots.size() * 2);
  // Few names are free at a time, so that public and private slots are claimed.
  for (;;) {
    for (int i = 0; i < 4; ++i) held[random() % held.size()].reset();
    for (std::size_t at = random() % 16; at < held.size(); at += 1 + random() % 16) {
      if (held[at]) continue;
      const char* const kind = at % 2 == 0 ? "soft0" : "groups";
      held[at] = testing::take_name(
          local_name("verbena-%s.%u.%u", kind, crowded_user(), slots[at / 2]), random() % 2 == 0);
    }
  }
}

TEST(squatted_names, claimed_slots_differ_while_names_come_and_go) {
  EXPECT_PASSED(as_root([] {
    const testing::home_directory home(crowded_user());
    constexpr std::size_t claims = 60;
    constexpr unsigned processes = 6;
    const testing::child first(
        [](int) { return ::setuid(testing::squatting_user) == 0 ? squat_at_random(1) : 1; });
    const testing::child second(
        [](int) { return ::setuid(testing::squatting_user + 1) == 0 ? squat_at_random(2) : 1; });
    using slots = std::array<std::uint32_t, claims>;
    std::vector<std::unique_ptr<testing::child>> all;
    for (unsigned i = 0; i < processes; ++i) {
      all.push_back(std::make_unique<testing::child>([&, i](int to_parent) {
        if (::setuid(crowded_user()) != 0) return 1;
        std::mt19937 random(i);
        std::vector<slot_claim> held;
        // Some are given back, so that other processes and users get them.
        for (int turn = 0; turn < 100; ++turn) {
          held.push_back(slot_claim::take().value());
          if (random() % 2 == 0)
            held.erase(held.begin() + static_cast<long>(random() % held.size()));
        }
        while (held.size() < claims) held.push_back(slot_claim::take().value());
        slots out{};
        for (std::size_t k = 0; k < claims; ++k) out[k] = held[k].slot();
        testing::send_value(to_parent, out);
        ::pause();
        return 0;
      }));
    }
    std::set<std::uint32_t> seen;
    std::size_t of_public = 0;
    for (const auto& each : all) {
      for (const std::uint32_t slot : each->read<slots>()) {
        EXPECT_TRUE(seen.insert(slot).second) << "slot " << slot << " is claimed twice";
        of_public += is_public_slot(slot) ? 1 : 0;
      }
    }
    EXPECT_EQ(seen.size(), claims * processes);
    RecordProperty("public_slots", static_cast<int>(of_public));
  }));
}

TEST(squatted_names, processes_beyond_the_large_slots_get_small_ones) {
  EXPECT_PASSED(as_root([] {
    testing::forget_home();
    as_crowded_user([] {
      std::vector<slot_claim> held;
      std::size_t large = 0;
      while (held.empty() || held.back().slot() < large_slots) {
        auto claimed = slot_claim::take();
        if (!claimed) return 3;
        held.push_back(*std::move(claimed));
        large += held.back().slot() < large_slots ? 1 : 0;
      }
      EXPECT_EQ(large, 576U);
      const testing::linked_pair small;
      EXPECT_GE(small.left->slot(), large_slots);
      EXPECT_GE(small.right->slot(), large_slots);
      EXPECT_EQ(small.to_right->state(), peer_state::paired);
      return 0;
    });
  }));
}

}  // namespace
}  // namespace verbena::softdev
