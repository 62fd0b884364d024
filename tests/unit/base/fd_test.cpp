// SPDX-License-Identifier: MIT
#include "verbena/base/fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

namespace {

// The calls of poll(2) in the calling thread: the first `early` ones end as after a timeout.
struct poll_script {
  int early = 0;
  std::vector<int> timeouts;
};
thread_local poll_script* script_of_poll = nullptr;

}  // namespace

// Replaces the function of libc in this program.
extern "C" int poll(pollfd* entries, nfds_t count, int timeout_ms) {
  if (script_of_poll != nullptr) {
    script_of_poll->timeouts.push_back(timeout_ms);
    if (script_of_poll->early-- > 0) return 0;
  }
  const timespec limit{.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1'000'000L};
  return ::ppoll(entries, count, timeout_ms < 0 ? nullptr : &limit, nullptr);
}

namespace verbena {
namespace {

using namespace std::chrono_literals;

struct pipe_ends {
  unique_fd read_end;
  unique_fd write_end;
};

pipe_ends make_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  return {unique_fd(ends[0]), unique_fd(ends[1])};
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(unique_fd, destructor_closes_the_descriptor) {
  int raw = -1;
  {
    const auto ends = make_pipe();
    raw = ends.read_end.get();
    EXPECT_TRUE(is_open(raw));
    EXPECT_TRUE(static_cast<bool>(ends.read_end));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(unique_fd, move_transfers_ownership) {
  auto ends = make_pipe();
  const int raw = ends.read_end.get();
  unique_fd second(std::move(ends.read_end));
  EXPECT_EQ(second.get(), raw);
  EXPECT_FALSE(static_cast<bool>(ends.read_end));  // NOLINT(bugprone-use-after-move,*.Move)
  ends.write_end = std::move(second);
  EXPECT_EQ(ends.write_end.get(), raw);
  EXPECT_TRUE(is_open(raw));
  auto& self = ends.write_end;
  ends.write_end = std::move(self);
  EXPECT_TRUE(is_open(raw)) << "self-assignment keeps the descriptor open";
}

TEST(unique_fd, release_ends_ownership) {
  auto ends = make_pipe();
  const int raw = ends.read_end.release();
  EXPECT_FALSE(static_cast<bool>(ends.read_end));
  EXPECT_TRUE(is_open(raw));
  ends.read_end.reset(raw);
  ends.read_end.reset();
  EXPECT_FALSE(is_open(raw));
}

TEST(wait_for_fd, readable_descriptor_returns_true) {
  const auto ends = make_pipe();
  ASSERT_EQ(::write(ends.write_end.get(), "x", 1), 1);
  EXPECT_TRUE(wait_for_fd(ends.read_end.get(), POLLIN, deadline::never()).value());
}

TEST(wait_for_fd, passed_deadline_returns_false) {
  const auto ends = make_pipe();
  const auto until = deadline::after(20ms);
  EXPECT_FALSE(wait_for_fd(ends.read_end.get(), POLLIN, until).value());
  EXPECT_TRUE(until.expired()) << "the wait ended before the deadline";
}

TEST(wait_for_fd, expired_deadline_still_polls_once) {
  const auto ends = make_pipe();
  EXPECT_FALSE(wait_for_fd(ends.read_end.get(), POLLIN, deadline::after(0ns)).value());
  ASSERT_EQ(::write(ends.write_end.get(), "x", 1), 1);
  EXPECT_TRUE(wait_for_fd(ends.read_end.get(), POLLIN, deadline::after(0ns)).value());
}

// parity: ibverbs-88
TEST(wait_for_fd, poll_is_repeated_until_the_deadline) {
  const auto ends = make_pipe();
  ASSERT_EQ(::write(ends.write_end.get(), "x", 1), 1);
  poll_script script{.early = 2};
  script_of_poll = &script;
  const auto found = wait_for_fd(ends.read_end.get(), POLLIN, deadline::after(24h * 400));
  script_of_poll = nullptr;
  EXPECT_TRUE(found.value());
  EXPECT_EQ(script.timeouts, std::vector(3, 86'400'000)) << "each call waits a day at most";
}

TEST(wait_for_fd, hang_up_returns_true) {
  auto ends = make_pipe();
  ends.write_end.reset();
  EXPECT_TRUE(wait_for_fd(ends.read_end.get(), POLLIN, deadline::never()).value());
}

std::atomic<int> signals_seen{0};

// parity: ibverbs-87
TEST(wait_for_fd, signal_does_not_end_the_wait) {
  struct sigaction action{};
  action.sa_handler = [](int) { ++signals_seen; };
  struct sigaction previous{};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &previous), 0);
  const auto ends = make_pipe();
  std::atomic<bool> done{false};
  std::atomic<bool> found{false};
  std::thread waiter([&] {
    found = wait_for_fd(ends.read_end.get(), POLLIN, deadline::never()).value_or(false);
    done = true;
  });
  // Sends signals until the wait has continued. Then makes the descriptor readable.
  while (signals_seen.load() < 3 && !done.load()) {
    ::pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  EXPECT_FALSE(done.load());
  EXPECT_EQ(::write(ends.write_end.get(), "x", 1), 1);
  waiter.join();
  EXPECT_TRUE(found.load());
  ::sigaction(SIGUSR1, &previous, nullptr);
}

}  // namespace
}  // namespace verbena
