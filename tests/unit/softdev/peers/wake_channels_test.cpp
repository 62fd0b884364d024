// SPDX-License-Identifier: MIT
#include "softdev/peers/wake_channels.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "softdev/ipc/wake_sockets.hpp"
#include "softdev/shm/sealed_memory.hpp"
#include "tests/unit/softdev/peers/link_pair.hpp"

namespace verbena::softdev {
namespace {

TEST(wake_channels, ids_are_nonzero_and_not_reused_soon) {
  wake_channels channels;
  std::set<wake_channel_id> seen;
  for (int i = 0; i < 70'000; ++i) {
    const auto made = channels.create().value();
    ASSERT_NE(made.id, 0U);
    ASSERT_NE(made.id >> 16, 0U) << "a generation is never 0";
    if (i < 65'535) {
      ASSERT_TRUE(seen.insert(made.id).second);
    }
    ASSERT_TRUE(channels.destroy(made.id));
  }
}

TEST(wake_channels, shared_end_signals_the_channel) {
  wake_channels channels;
  const int with = 0;
  const auto made = channels.create().value();
  const unique_fd end = channels.share(made.id, &with);
  ASSERT_TRUE(end);
  signal_wake_socket(end.get());
  EXPECT_TRUE(testing::readable(made.receiver->fd()));
  EXPECT_TRUE(made.receiver->take());
  EXPECT_FALSE(channels.share(made.id + 1, &with));
  EXPECT_FALSE(channels.share(made.id + (1U << 16), &with));
  EXPECT_FALSE(channels.share(0, &with));
  channels.dismiss(&with);
  signal_wake_socket(end.get());
  EXPECT_FALSE(testing::readable(made.receiver->fd())) << "the sender was dismissed";
  EXPECT_TRUE(channels.destroy(made.id));
  EXPECT_FALSE(channels.share(made.id, &with));
}

TEST(wake_channels, one_peer_gets_a_limited_number_of_ends) {
  wake_channels channels;
  const int greedy = 0;
  const int modest = 0;
  std::vector<unique_fd> ends;
  std::vector<wake_channel_id> ids;
  for (std::uint32_t i = 0; i < wake_channels::most_per_peer; ++i) {
    ids.push_back(channels.create().value().id);
    ends.push_back(channels.share(ids.back(), &greedy));
    ASSERT_TRUE(ends.back()) << i;
  }
  const auto further = channels.create().value().id;
  EXPECT_FALSE(channels.share(further, &greedy));
  EXPECT_TRUE(channels.share(further, &modest));
  EXPECT_TRUE(channels.share(ids[7], &greedy)) << "a new end for an old one";
  ends[3].reset();
  EXPECT_TRUE(channels.share(further, &greedy)) << "an end that was closed does not count";
}

TEST(wake_channels, sleeper_is_signaled_once_per_sleep) {
  sleeper_signal signal;
  EXPECT_FALSE(signal.wanted(0));
  EXPECT_TRUE(signal.wanted(1));
  EXPECT_FALSE(signal.wanted(1));
  EXPECT_FALSE(signal.wanted(2));
  EXPECT_TRUE(signal.wanted(3));
  EXPECT_FALSE(signal.wanted(3));
}

}  // namespace
}  // namespace verbena::softdev
