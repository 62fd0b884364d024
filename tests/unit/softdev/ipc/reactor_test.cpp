// SPDX-License-Identifier: MIT
#include "softdev/ipc/reactor.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "softdev/ipc/eventfd.hpp"

namespace verbena::softdev {
namespace {

enum class kind : std::uint8_t { first, second };

class reactor_test : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(reactor_.open()); }

  reactor reactor_;
  unique_fd event_ = create_eventfd().value();
};

TEST_F(reactor_test, wait_returns_the_names_of_ready_descriptors) {
  const unique_fd other = create_eventfd().value();
  constexpr std::uint64_t largest = (std::uint64_t{1} << 56) - 1;
  ASSERT_EQ(reactor_.watch(event_.get(), {kind::second, largest}), 0);
  ASSERT_EQ(reactor_.watch(other.get(), {kind::first, 3}), 0);
  EXPECT_TRUE(reactor_.wait(0).empty());
  signal_eventfd(event_.get());
  const auto ready = reactor_.wait(-1);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(static_cast<kind>(ready[0].kind), kind::second);
  EXPECT_EQ(ready[0].number, largest);
}

TEST_F(reactor_test, writable_descriptor_is_ready_if_that_is_wanted) {
  ASSERT_EQ(reactor_.watch(event_.get(), {kind::first, 1}), 0);
  EXPECT_TRUE(reactor_.wait(0).empty());
  ASSERT_EQ(reactor_.rewatch(event_.get(), {kind::first, 2}, reactor::wanted::either), 0);
  const auto ready = reactor_.wait(0);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].number, 2U);
}

TEST_F(reactor_test, rewatch_of_an_unwatched_descriptor_watches_it) {
  ASSERT_EQ(reactor_.rewatch(event_.get(), {kind::first, 1}, reactor::wanted::readable), 0);
  signal_eventfd(event_.get());
  EXPECT_EQ(reactor_.wait(0).size(), 1U);
}

TEST_F(reactor_test, unwatched_descriptor_is_not_reported) {
  ASSERT_EQ(reactor_.watch(event_.get(), {kind::first, 1}), 0);
  signal_eventfd(event_.get());
  reactor_.unwatch(event_.get());
  reactor_.unwatch(-1);
  EXPECT_TRUE(reactor_.wait(0).empty());
}

TEST_F(reactor_test, watch_returns_the_errno) {
  EXPECT_EQ(reactor_.watch(-1, {kind::first, 1}), EBADF);
  ASSERT_EQ(reactor_.watch(event_.get(), {kind::first, 1}), 0);
  EXPECT_EQ(reactor_.watch(event_.get(), {kind::first, 1}), EEXIST);
}

}  // namespace
}  // namespace verbena::softdev
