// SPDX-License-Identifier: MIT
#include "softdev/peers/wake_channels.hpp"

#include <gtest/gtest.h>

#include <set>

#include "softdev/ipc/eventfd.hpp"
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

TEST(wake_channels, shared_copy_signals_the_original) {
  wake_channels channels;
  const auto made = channels.create().value();
  const unique_fd copy = channels.share(made.id);
  ASSERT_TRUE(copy);
  signal_eventfd(copy.get());
  EXPECT_TRUE(testing::readable(made.fd));
  EXPECT_FALSE(channels.share(made.id + 1));
  EXPECT_FALSE(channels.share(made.id + (1U << 16)));
  EXPECT_FALSE(channels.share(0));
  EXPECT_TRUE(channels.destroy(made.id));
  EXPECT_FALSE(channels.share(made.id));
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
