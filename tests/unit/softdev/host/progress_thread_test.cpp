// SPDX-License-Identifier: MIT
#include "softdev/host/progress_thread.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "softdev/host/host.hpp"
#include "softdev/ipc/clock.hpp"
#include "softdev/ipc/eventfd.hpp"

namespace verbena::softdev {
namespace {

// A progress thread with counters. The thread never ends, so the object is never destroyed.
class driven final : private progress_work {
 public:
  static driven& make() {
    static auto* const kept = new std::vector<driven*>;
    kept->push_back(new driven);
    return *kept->back();
  }
  driven(const driven&) = delete;
  driven& operator=(const driven&) = delete;

  struct seen {
    int tends = 0;
    int runs = 0;
    int sleeps = 0;    ///< number of permitted sleeps
    int refusals = 0;  ///< number of refused sleeps
    int awakes = 0;
    int watches = 0;
    bool asleep = false;
    std::set<std::thread::id> threads;
    sigset_t blocked{};
  };
  // Input of the thread; modified only by change().
  struct inputs {
    bool polls = false;         ///< the program polls continuously
    bool may_sleep = true;      ///< result of fall_asleep
    time_ns run_again = never;  ///< after the last run, in nanoseconds
    time_ns watch_at = never;   ///< until watched() is called
  };

  void change(const std::function<void(inputs&)>& how) {
    const std::lock_guard lock(mutex_);
    how(inputs_);
  }
  [[nodiscard]] seen now() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  // Waits until `condition` holds for the counters. Returns false after a timeout.
  bool wait_for(const std::function<bool(const seen&)>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return condition(seen_); });
  }
  // Waits until the thread sleeps.
  bool wait_until_asleep() {
    return wait_for([](const seen& of) { return of.asleep; });
  }
  void make_readable(int fd) {
    const std::uint64_t one = 1;
    ASSERT_EQ(write(fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }

  std::unique_ptr<wake_receiver> wakes = wake_receiver::create().value();
  unique_fd tend_fd = create_eventfd().value();

 private:
  template <class Change>
  void note(Change&& change) {
    {
      const std::lock_guard lock(mutex_);
      change();
      seen_.threads.insert(std::this_thread::get_id());
    }
    changed_.notify_all();
  }
  static void drain(const unique_fd& fd) {
    std::uint64_t count = 0;
    static_cast<void>(read(fd.get(), &count, sizeof count));
  }

  driven() = default;

  void tend() noexcept override {
    note([this] {
      ++seen_.tends;
      drain(tend_fd);
      if (inputs_.polls) thread.note_polling();
    });
  }
  void run() noexcept override {
    note([this] {
      ++seen_.runs;
      pthread_sigmask(SIG_BLOCK, nullptr, &seen_.blocked);
    });
  }
  [[nodiscard]] time_ns next_deadline() const noexcept override {
    const std::lock_guard lock(mutex_);
    const time_ns wait = inputs_.run_again;
    return std::min(wait == never ? never : monotonic_now() + wait, inputs_.watch_at);
  }
  [[nodiscard]] time_ns next_watch() const noexcept override {
    const std::lock_guard lock(mutex_);
    return inputs_.watch_at;
  }
  [[nodiscard]] bool fall_asleep() noexcept override {
    bool allowed = false;
    note([&] {
      allowed = inputs_.may_sleep;
      ++(allowed ? seen_.sleeps : seen_.refusals);
      seen_.asleep = allowed;
    });
    return allowed;
  }
  void sleep_on() noexcept override {
    note([this] {
      ++seen_.sleeps;
      seen_.asleep = true;
    });
  }
  void awake() noexcept override {
    note([this] {
      ++seen_.awakes;
      seen_.asleep = false;
    });
  }
  void watched() noexcept override {
    note([this] {
      ++seen_.watches;
      inputs_.watch_at = never;
    });
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  seen seen_;
  inputs inputs_;

 public:
  progress_thread thread{*this, {.tend_fd = tend_fd.get(), .wakes = wakes.get()}};
};

TEST(progress_thread, thread_starts_once_and_sleeps_when_idle) {
  driven& one = driven::make();
  EXPECT_FALSE(one.thread.started());
  EXPECT_EQ(one.thread.start(), 0);
  EXPECT_TRUE(one.thread.started());
  EXPECT_EQ(one.thread.start(), 0);
  ASSERT_TRUE(one.wait_until_asleep());
  one.thread.wake();
  ASSERT_TRUE(one.wait_for([](const auto& seen) { return seen.sleeps >= 2; }));
  const auto seen = one.now();
  EXPECT_GE(seen.tends, 2);
  EXPECT_GE(seen.runs, 2);
  EXPECT_EQ(seen.threads.size(), 1U);
  EXPECT_EQ(seen.threads.count(std::this_thread::get_id()), 0U);
}

TEST(progress_thread, thread_blocks_all_signals) {
  driven& one = driven::make();
  ASSERT_EQ(one.thread.start(), 0);
  ASSERT_TRUE(one.wait_until_asleep());
  const auto seen = one.now();
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM}) {
    EXPECT_EQ(sigismember(&seen.blocked, number), 1) << number;
  }
  sigset_t mine;
  pthread_sigmask(SIG_BLOCK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGUSR1), 0);
}

TEST(progress_thread, thread_wakes_by_call_and_by_each_descriptor) {
  driven& one = driven::make();
  ASSERT_EQ(one.thread.start(), 0);
  ASSERT_TRUE(one.wait_until_asleep());
  const unique_fd peer = one.wakes->admit(&one).value();
  const std::function<void()> reasons[] = {[&] { one.thread.wake(); },
                                           [&] { signal_wake_socket(peer.get()); },
                                           [&] { one.make_readable(one.tend_fd.get()); }};
  for (const auto& wake : reasons) {
    const auto before = one.now();
    wake();
    EXPECT_TRUE(one.wait_for([&](const auto& seen) {
      return seen.runs > before.runs && seen.tends > before.tends && seen.sleeps > before.sleeps;
    }));
  }
}

TEST(progress_thread, thread_runs_when_a_timer_expires) {
  driven& one = driven::make();
  one.change([](auto& input) { input.run_again = 1'000'000; });
  ASSERT_EQ(one.thread.start(), 0);
  EXPECT_TRUE(one.wait_for([](const auto& seen) { return seen.runs >= 4; }));
}

TEST(progress_thread, thread_watches_at_the_time_for_it) {
  driven& one = driven::make();
  ASSERT_EQ(one.thread.start(), 0);
  for (const bool polls : {false, true}) {
    const int before = one.now().watches;
    one.change([&](auto& input) {
      input.polls = polls;
      input.watch_at = monotonic_now() + 1'000'000;
    });
    one.thread.wake();
    EXPECT_TRUE(one.wait_for([&](const auto& seen) { return seen.watches > before; })) << polls;
  }
  one.change([](auto& input) { input.polls = false; });
}

TEST(progress_thread, thread_runs_again_if_work_arrived_before_sleep) {
  driven& one = driven::make();
  one.change([](auto& input) { input.may_sleep = false; });
  ASSERT_EQ(one.thread.start(), 0);
  EXPECT_TRUE(one.wait_for([](const auto& seen) { return seen.runs >= 3; }));
  EXPECT_EQ(one.now().sleeps, 0);
  one.change([](auto& input) { input.may_sleep = true; });
  EXPECT_TRUE(one.wait_until_asleep());
}

TEST(progress_thread, refused_sleep_is_ended_as_a_sleep_is) {
  driven& one = driven::make();
  one.change([](auto& input) { input.may_sleep = false; });
  ASSERT_EQ(one.thread.start(), 0);
  EXPECT_TRUE(
      one.wait_for([](const auto& seen) { return seen.refusals >= 3 && seen.awakes >= 2; }));
  EXPECT_EQ(one.now().sleeps, 0);
  one.change([](auto& input) { input.may_sleep = true; });
  EXPECT_TRUE(one.wait_until_asleep());
}

TEST(progress_thread, thread_stays_idle_while_the_program_polls) {
  driven& one = driven::make();
  one.change([](auto& input) { input.polls = true; });
  ASSERT_EQ(one.thread.start(), 0);
  ASSERT_TRUE(one.wait_for([](const auto& seen) { return seen.tends >= 4; }));
  EXPECT_EQ(one.now().runs, 0) << "the polling program makes progress itself";
  one.change([](auto& input) { input.polls = false; });
  EXPECT_TRUE(one.wait_for([](const auto& seen) { return seen.runs >= 1; }));
}

TEST(progress_thread, thread_runs_while_a_queue_is_armed_even_if_the_program_polls) {
  driven& one = driven::make();
  one.change([](auto& input) { input.polls = true; });
  ASSERT_EQ(one.thread.start(), 0);
  ASSERT_TRUE(one.wait_for([](const auto& seen) { return seen.tends >= 2; }));
  EXPECT_EQ(one.now().runs, 0);
  one.thread.expect_sleep();
  one.thread.end_parking();
  ASSERT_TRUE(one.wait_for([](const auto& seen) { return seen.runs >= 1; }));
  ASSERT_TRUE(one.wait_until_asleep());
  one.thread.expect_no_sleep();
  one.thread.wake();
  const auto asleep = one.now();
  // The run that the call started may continue; then the thread is idle again.
  ASSERT_TRUE(one.wait_for([&](const auto& seen) { return seen.tends >= asleep.tends + 2; }));
  const auto away = one.now();
  ASSERT_TRUE(one.wait_for([&](const auto& seen) { return seen.tends >= away.tends + 3; }));
  EXPECT_EQ(one.now().runs, away.runs);
}

}  // namespace
}  // namespace verbena::softdev
