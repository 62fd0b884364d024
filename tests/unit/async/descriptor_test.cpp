// SPDX-License-Identifier: MIT
// Coroutines that wait for file descriptors.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/allocations.hpp"
#include "tests/unit/async/async_pair.hpp"
#include "tests/unit/async/owned_coroutine.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;
using async::task;

unique_fd event_descriptor() { return unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }
void set_event(const unique_fd& which) { ASSERT_EQ(::eventfd_write(which.get(), 1), 0); }
deadline long_wait() { return deadline::after(60s); }

using engine_descriptors = async_pair;

TEST_F(engine_descriptors, readable_ends_after_the_event) {
  const auto event = event_descriptor();
  bool is_set = false;
  const auto wait = [&]() -> task<void> {
    const auto outcome = co_await engine.readable(event.get(), long_wait());
    EXPECT_TRUE(outcome.value());
    EXPECT_TRUE(is_set);
  };
  const auto set = [&]() -> task<void> {
    co_await engine.wait_until(deadline::after(5ms));
    is_set = true;
    set_event(event);
  };
  const auto all = [&]() -> task<void> {
    async::scope running;
    running.spawn(wait());
    running.spawn(set());
    co_await running.join();
  };
  engine.run(all());
}

TEST_F(engine_descriptors, readable_ends_at_its_deadline) {
  const auto event = event_descriptor();
  const auto wait = [&](deadline until) -> task<bool> {
    const auto outcome = co_await engine.readable(event.get(), until);
    co_return outcome.value();
  };
  EXPECT_FALSE(engine.run(wait(deadline::after(0s))));
  EXPECT_FALSE(engine.run(wait(deadline::after(5ms))));
  set_event(event);
  EXPECT_TRUE(engine.run(wait(long_wait())));
}

TEST_F(engine_descriptors, writable_ends_when_the_pipe_has_room) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const unique_fd reader(ends[0]);
  const unique_fd writer(ends[1]);
  const std::vector<char> bytes(4096);
  while (::write(writer.get(), bytes.data(), bytes.size()) > 0) continue;
  const auto wait = [&](deadline until) -> task<bool> {
    const auto outcome = co_await engine.writable(writer.get(), until);
    co_return outcome.value();
  };
  EXPECT_FALSE(engine.run(wait(deadline::after(2ms))));
  std::vector<char> room(1 << 20);
  ASSERT_GT(::read(reader.get(), room.data(), room.size()), 0);
  EXPECT_TRUE(engine.run(wait(long_wait())));
}

TEST_F(engine_descriptors, several_coroutines_wait_for_one_descriptor) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
  const unique_fd here(ends[0]);
  const unique_fd there(ends[1]);
  int readable = 0;
  int writable = 0;
  const auto read = [&]() -> task<void> {
    const auto outcome = co_await engine.readable(here.get(), long_wait());
    EXPECT_TRUE(outcome.value());
    ++readable;
  };
  const auto write = [&]() -> task<void> {
    const auto outcome = co_await engine.writable(here.get(), long_wait());
    EXPECT_TRUE(outcome.value());
    ++writable;
  };
  const auto all = [&]() -> task<void> {
    async::scope running;
    running.spawn(read());
    running.spawn(write());
    running.spawn(read());
    const auto until = long_wait();
    while (writable == 0 && !until.expired()) co_await engine.wait_until(deadline::after(1ms));
    EXPECT_EQ(writable, 1);
    EXPECT_EQ(readable, 0);
    EXPECT_EQ(::write(there.get(), "x", 1), 1);
    co_await running.join();
  };
  engine.run(all());
  EXPECT_EQ(readable, 2);
}

TEST_F(engine_descriptors, closed_peer_ends_the_wait) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const unique_fd here(ends[0]);
  {
    const unique_fd there(ends[1]);
  }
  const auto wait = [&]() -> task<bool> {
    const auto outcome = co_await engine.readable(here.get(), long_wait());
    co_return outcome.value();
  };
  EXPECT_TRUE(engine.run(wait()));
}

TEST_F(engine_descriptors, descriptor_that_is_not_open_returns_ebadf) {
  int closed = -1;
  {
    closed = event_descriptor().get();
  }
  const auto wait = [&](int which) -> task<int> {
    const auto outcome = co_await engine.readable(which, long_wait());
    co_return outcome.has_value() ? 0 : outcome.error().code();
  };
  EXPECT_EQ(engine.run(wait(closed)), EBADF);
  EXPECT_EQ(engine.run(wait(-1)), EBADF);
  const unique_fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(engine.run(wait(file.get())), 0) << "a file is always readable";
}

owned_coroutine wait_alone(async::engine& engine, int fd, int& ended) {
  static_cast<void>(co_await engine.readable(fd, long_wait()));
  ++ended;
}

TEST_F(engine_descriptors, coroutines_can_be_destroyed_in_each_order) {
  const auto event = event_descriptor();
  for (int first = 0; first < 3; ++first) {
    for (const bool is_ready : {false, true}) {
      int ended = 0;
      std::array waiting{wait_alone(engine, event.get(), ended),
                         wait_alone(engine, event.get(), ended),
                         wait_alone(engine, event.get(), ended)};
      if (is_ready) set_event(event);
      waiting.at(static_cast<std::size_t>(first)).handle.destroy();
      static_cast<void>(engine.arm());
      engine.poll();
      EXPECT_EQ(ended, is_ready ? 2 : 0);
      for (int i = 0; i < 3; ++i)
        if (i != first) waiting.at(static_cast<std::size_t>(i)).handle.destroy();
      eventfd_t value = 0;
      ::eventfd_read(event.get(), &value);
    }
  }
  const auto wait = [&]() -> task<bool> {
    const auto outcome = co_await engine.readable(event.get(), deadline::after(1ms));
    co_return outcome.value();
  };
  EXPECT_FALSE(engine.run(wait()));
}

TEST_F(engine_descriptors, loop_of_the_program_waits_for_descriptors) {
  const auto event = event_descriptor();
  int ended = 0;
  auto waiting = wait_alone(engine, event.get(), ended);
  std::thread setting([&] {
    std::this_thread::yield();
    set_event(event);
  });
  const auto until = long_wait();
  while (ended == 0 && !until.expired()) {
    engine.poll();
    if (ended != 0 || !engine.arm()) continue;
    ASSERT_TRUE(wait_for_fd(engine.fd(), POLLIN, long_wait()).value());
  }
  setting.join();
  EXPECT_EQ(ended, 1);
  waiting.handle.destroy();
}

#ifdef VERBENA_COUNTS_ALLOCATIONS
TEST_F(engine_descriptors, waits_allocate_nothing) {
  const auto event = event_descriptor();
  set_event(event);
  std::size_t allocated = 1;
  const auto wait = [&]() -> task<void> {
    for (int i = 0; i < 2; ++i) {
      const std::size_t before = allocations;
      static_cast<void>(co_await engine.readable(event.get(), long_wait()));
      static_cast<void>(co_await engine.writable(event.get(), deadline::after(0s)));
      allocated = allocations - before;
    }
  };
  engine.run(wait());
  EXPECT_EQ(allocated, 0U);
}
#endif

// A program that only polls: the engine polls the descriptors in every 64th poll.
TEST_F(engine_descriptors, polls_without_sleep_notice_descriptors) {
  const auto event = event_descriptor();
  int ended = 0;
  auto waiting = wait_alone(engine, event.get(), ended);
  set_event(event);
  for (int i = 0; i < 64; ++i) engine.poll();
  EXPECT_EQ(ended, 1);
  waiting.handle.destroy();
}

}  // namespace
}  // namespace verbena::test
