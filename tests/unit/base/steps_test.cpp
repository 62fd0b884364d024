// SPDX-License-Identifier: MIT
#include "verbena/base/steps.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "verbena/base/fd.hpp"

namespace verbena {
namespace {

using namespace std::chrono_literals;

deadline after_a_minute() { return deadline::after(60s); }
unique_fd event_fd() { return unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }
void set(const unique_fd& which) { ASSERT_EQ(::eventfd_write(which.get(), 1), 0); }

steps<int> read_number(int fd, deadline until) {
  VERBENA_CO_TRY(const bool is_ready, co_await detail::ready(fd, POLLIN, until));
  if (!is_ready) co_return error::timed_out("read_number", "test", "no number arrived");
  eventfd_t number = 0;
  ::eventfd_read(fd, &number);
  co_return static_cast<int>(number);
}

steps<int> sum_of_two(int one, int other, deadline until) {
  VERBENA_CO_TRY(const int first, co_await read_number(one, until));
  VERBENA_CO_TRY(const int second, co_await read_number(other, until));
  co_return first + second;
}

steps<void> fail_at_once() {
  VERBENA_CO_TRY_VOID(result<void>(error::from_errno(EPERM, "fail_at_once")));
  co_return {};
}

TEST(steps, progress_returns_the_result_after_the_event) {
  const auto event = event_fd();
  const auto until = after_a_minute();
  auto reading = read_number(event.get(), until);
  EXPECT_EQ(reading.fd(), event.get());
  EXPECT_EQ(reading.events(), POLLIN);
  EXPECT_EQ(reading.next_deadline().when(), until.when());
  EXPECT_FALSE(reading.progress());
  EXPECT_FALSE(reading.progress());
  set(event);
  const auto ended = reading.progress();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->value(), 1);
}

TEST(steps, progress_returns_the_error_after_the_deadline) {
  const auto event = event_fd();
  auto reading = read_number(event.get(), deadline::after(0s));
  const auto ended = reading.progress();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->error().kind(), error_kind::timed_out);
}

TEST(steps, descriptor_that_is_not_open_counts_as_ready) {
  auto reading = read_number(1'000'000, after_a_minute());
  EXPECT_TRUE(reading.progress()) << "poll(2) reports POLLNVAL";
}

TEST(steps, operation_that_ends_at_once_has_its_result) {
  auto failing = fail_at_once();
  EXPECT_EQ(failing.fd(), -1);
  EXPECT_TRUE(failing.next_deadline().expired());
  EXPECT_EQ(failing.progress()->error().code(), EPERM);
  EXPECT_EQ(fail_at_once().wait().error().code(), EPERM);
}

TEST(steps, steps_await_other_steps) {
  const auto one = event_fd();
  const auto other = event_fd();
  auto adding = sum_of_two(one.get(), other.get(), after_a_minute());
  EXPECT_EQ(adding.fd(), one.get());
  set(one);
  EXPECT_FALSE(adding.progress());
  EXPECT_EQ(adding.fd(), other.get());
  set(other);
  EXPECT_EQ(adding.progress()->value(), 2);
}

TEST(steps, wait_blocks_until_the_end) {
  const auto one = event_fd();
  set(one);
  EXPECT_EQ(read_number(one.get(), after_a_minute()).wait().value(), 1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(read_number(one.get(), deadline::after(20ms)).wait());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
}

TEST(steps, expiry_waits_for_the_time_alone) {
  const auto pause = [](deadline until) -> steps<void> {
    VERBENA_CO_TRY_DISCARD(co_await detail::expiry(until));
    co_return {};
  };
  auto pausing = pause(deadline::after(20ms));
  EXPECT_EQ(pausing.fd(), -1);
  EXPECT_FALSE(pausing.progress());
  EXPECT_TRUE(std::move(pausing).wait());
}

TEST(steps, exceptions_pass_through_steps) {
  const auto fail = [](int fd) -> steps<void> {
    static_cast<void>(co_await detail::ready(fd, POLLIN, deadline::after(0s)));
    throw 7;
  };
  const auto pass = [&](int fd) -> steps<void> { co_return co_await fail(fd); };
  const auto event = event_fd();
  auto failing = pass(event.get());
  EXPECT_THROW(static_cast<void>(failing.progress()), int);
  EXPECT_THROW(static_cast<void>(pass(event.get()).wait()), int);
}

// The objects of an operation are destroyed when it has ended, or is destroyed.
TEST(steps, end_destroys_what_the_operation_owns) {
  const auto keep = [](std::shared_ptr<int> owned, int fd) -> steps<int> {
    VERBENA_CO_TRY_DISCARD(co_await detail::ready(fd, POLLIN, after_a_minute()));
    co_return *owned;
  };
  const auto event = event_fd();
  const auto owned = std::make_shared<int>(5);
  {
    auto one = keep(owned, event.get());
    EXPECT_EQ(owned.use_count(), 2);
    auto other = std::move(one);
    EXPECT_EQ(owned.use_count(), 2);
    other = keep(owned, event.get());
    EXPECT_EQ(owned.use_count(), 2);
  }
  EXPECT_EQ(owned.use_count(), 1);
  set(event);
  auto ending = keep(owned, event.get());
  EXPECT_EQ(ending.progress()->value(), 5);
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace verbena
