// SPDX-License-Identifier: MIT
#include "softdev/host/progress_thread.hpp"

#include <poll.h>
#include <pthread.h>

#include <cerrno>
#include <ctime>

#include "softdev/ipc/eventfd.hpp"
#include "src/base/quiet_thread.hpp"

namespace verbena::softdev {
namespace {

// How long the thread stays away from a program that polls before it looks again.
constexpr time_ns park_ns = 2'000'000;
// What ppoll(2) is given instead of `never`.
constexpr time_ns longest_wait_ns = 3'600'000'000'000;

time_ns monotonic_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<time_ns>(now.tv_sec) * 1'000'000'000U + static_cast<time_ns>(now.tv_nsec);
}

timespec to_timespec(time_ns duration) noexcept {
  return {static_cast<time_t>(duration / 1'000'000'000U),
          static_cast<long>(duration % 1'000'000'000U)};
}

}  // namespace

int progress_thread::start() noexcept {
  if (starting_.exchange(true)) return 0;
  pthread_t thread;
  if (const int failed = verbena::detail::start_quiet_thread(thread, &progress_thread::enter, this,
                                                             "verbena-soft")) {
    starting_.store(false);
    return failed;
  }
  pthread_detach(thread);
  started_.store(true, std::memory_order_release);
  return 0;
}

void* progress_thread::enter(void* self) noexcept {
  static_cast<progress_thread*>(self)->loop();
  return nullptr;
}

void progress_thread::wake() noexcept {
  if (called_.exchange(true, std::memory_order_seq_cst)) return;
  if (waiting_.load(std::memory_order_seq_cst)) signal_eventfd(wake_fd_.get());
}

void progress_thread::expect_sleep() noexcept {
  attentive_.fetch_add(1, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst)) signal_eventfd(wake_fd_.get());
}

void progress_thread::loop() noexcept {
  while (true) {
    work_.tend(work_.context);
    if (attentive_.load(std::memory_order_seq_cst) == 0 &&
        polled_.exchange(false, std::memory_order_relaxed)) {
      park();
      continue;
    }
    called_.store(false, std::memory_order_seq_cst);
    work_.run(work_.context);
    waiting_.store(true, std::memory_order_seq_cst);
    const time_ns until = work_.next(work_.context);
    if (!called_.load(std::memory_order_seq_cst) && work_.fall_asleep(work_.context)) {
      wait(until);
      work_.awake(work_.context);
    }
    waiting_.store(false, std::memory_order_relaxed);
  }
}

void progress_thread::wait(time_ns until) noexcept {
  const time_ns now = monotonic_ns();
  if (until <= now) return;
  const time_ns left = until - now < longest_wait_ns ? until - now : longest_wait_ns;
  const timespec timeout = to_timespec(left);
  pollfd fds[] = {{wake_fd_.get(), POLLIN, 0},
                  {work_.watch_fd, POLLIN, 0},
                  {work_.run_fd, POLLIN, 0},
                  {work_.tend_fd, POLLIN, 0}};
  if (ppoll(fds, 4, &timeout, nullptr) > 0) attend(fds[0], fds[1]);
}

void progress_thread::attend(const pollfd& wake, const pollfd& watch) noexcept {
  if (wake.revents != 0) drain_eventfd(wake_fd_.get());
  if (watch.revents != 0) work_.watched(work_.context);
}

void progress_thread::park() noexcept {
  parked_.store(true, std::memory_order_seq_cst);
  if (attentive_.load(std::memory_order_seq_cst) == 0) {
    const timespec timeout = to_timespec(park_ns);
    pollfd fds[] = {
        {wake_fd_.get(), POLLIN, 0}, {work_.watch_fd, POLLIN, 0}, {work_.tend_fd, POLLIN, 0}};
    if (ppoll(fds, 3, &timeout, nullptr) > 0) attend(fds[0], fds[1]);
  }
  parked_.store(false, std::memory_order_relaxed);
}

}  // namespace verbena::softdev
