// SPDX-License-Identifier: MIT
#include "softdev/ipc/eventfd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

namespace verbena::softdev {
namespace {

TEST(eventfd, that_blocks_is_refused) {
  const unique_fd good = create_eventfd().value();
  EXPECT_TRUE(is_eventfd(good.get()));
  const unique_fd blocking(::eventfd(0, EFD_CLOEXEC));
  EXPECT_FALSE(is_eventfd(blocking.get()));
  const unique_fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(is_eventfd(file.get()));
  EXPECT_FALSE(is_eventfd(-1));
}

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
