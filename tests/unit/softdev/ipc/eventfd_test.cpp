// SPDX-License-Identifier: MIT
#include "softdev/ipc/eventfd.hpp"

#include <gtest/gtest.h>
#include <poll.h>

namespace verbena::softdev {
namespace {

TEST(eventfd, is_readable_from_signal_to_drain) {
  const unique_fd event = create_eventfd().value();
  pollfd look{event.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&look, 1, 0), 0);
  signal_eventfd(event.get());
  signal_eventfd(event.get());
  EXPECT_EQ(::poll(&look, 1, 0), 1);
  drain_eventfd(event.get());
  EXPECT_EQ(::poll(&look, 1, 0), 0);
  drain_eventfd(event.get());  // does not block if the eventfd is empty
}

}  // namespace
}  // namespace verbena::softdev
