// SPDX-License-Identifier: MIT
#include "softdev/host/progress_thread.hpp"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <utility>

#include "softdev/ipc/clock.hpp"
#include "src/base/quiet_thread.hpp"

namespace verbena::softdev {
namespace {

// How long the thread parks while the program polls.
constexpr time_ns park_ns = 2'000'000;
// The longest wait, also if the deadline is `never`.
constexpr time_ns longest_wait_ns = 3'600'000'000'000;

// Numbers of the watched descriptors.
constexpr std::uint32_t watch_number = 0;
constexpr std::uint32_t tend_number = 1;
constexpr std::uint32_t run_number = 2;

}  // namespace

int progress_thread::start() noexcept {
  if (starting_.exchange(true)) return 0;
  int failed = watch();
  pthread_t thread;
  if (failed == 0) {
    failed =
        verbena::detail::start_quiet_thread(thread, &progress_thread::enter, this, "verbena-soft");
  }
  if (failed != 0) {
    starting_.store(false);
    return failed;
  }
  pthread_detach(thread);
  started_.store(true, std::memory_order_release);
  return 0;
}

/// Watches the descriptors of `wakes_`. Returns 0 or an errno.
int progress_thread::watch() noexcept {
  for (const auto& [fd, number] :
       {std::pair(wakes_.watch_fd, watch_number), std::pair(wakes_.tend_fd, tend_number),
        std::pair(wakes_.run_fd, run_number)}) {
    if (fd < 0) continue;
    const auto watched = wakes_.wakes->watch(fd, number);
    // EEXIST: an earlier start has added them and failed later.
    if (!watched && watched.error().code() != EEXIST) return watched.error().code();
  }
  return 0;
}

void* progress_thread::enter(void* self) noexcept {
  static_cast<progress_thread*>(self)->loop();
  return nullptr;
}

void progress_thread::wake() noexcept {
  if (called_.exchange(true, std::memory_order_seq_cst)) return;
  if (waiting_.load(std::memory_order_seq_cst) || announced_.load(std::memory_order_seq_cst)) {
    wakes_.wakes->signal();
  }
}

void progress_thread::end_parking() noexcept {
  if (parked_.load(std::memory_order_seq_cst) && !sleep_parked()) wakes_.wakes->signal();
}

/// Makes peers wake the parked thread. Returns false if the thread must wake before its time is
/// over.
bool progress_thread::sleep_parked() noexcept {
  const std::lock_guard lock(park_lock_);
  if (!parked_.load(std::memory_order_relaxed)) return true;  // the thread reads `attentive_` next
  if (work_.next_deadline() < parked_until_) return false;
  if (!announced_.exchange(true, std::memory_order_seq_cst)) {
    called_.store(false, std::memory_order_seq_cst);
    work_.sleep_on();
  }
  return true;
}

void progress_thread::loop() noexcept {
  while (true) {
    work_.tend();
    if (const time_ns at = work_.next_watch(); at != never && at <= monotonic_now())
      work_.watched();
    if (attentive_.load(std::memory_order_seq_cst) == 0 &&
        polled_.exchange(false, std::memory_order_relaxed)) {
      park();
      continue;
    }
    called_.store(false, std::memory_order_seq_cst);
    work_.run();
    waiting_.store(true, std::memory_order_seq_cst);
    if (!called_.load(std::memory_order_seq_cst)) {
      if (work_.fall_asleep()) {
        // fall_asleep() may have set a deadline.
        const time_ns until = work_.next_deadline();
        const time_ns now = monotonic_now();
        if (until > now) wait_for(until - now);
      }
      work_.awake();
    }
    waiting_.store(false, std::memory_order_relaxed);
  }
}

void progress_thread::park() noexcept {
  {
    const std::lock_guard lock(park_lock_);
    parked_until_ = monotonic_now() + park_ns;
    parked_.store(true, std::memory_order_seq_cst);
  }
  if (attentive_.load(std::memory_order_seq_cst) == 0) wait_for(park_ns);
  const std::lock_guard lock(park_lock_);
  parked_.store(false, std::memory_order_seq_cst);
  if (announced_.exchange(false, std::memory_order_relaxed)) work_.awake();
}

void progress_thread::wait_for(time_ns duration) noexcept {
  const auto left = std::chrono::nanoseconds(std::min(duration, longest_wait_ns));
  const auto found = wakes_.wakes->wait(left);
  if ((found.watched & (1U << watch_number)) != 0) work_.watched();
}

}  // namespace verbena::softdev
