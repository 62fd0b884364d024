// SPDX-License-Identifier: MIT
#include "verbena/async/engine.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "src/base/relax.hpp"
#include "src/channel/poll_batches.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::async {

using clock = std::chrono::steady_clock;

namespace {
// The number of polls between two polls of the descriptors while the engine does not sleep.
constexpr std::uint32_t polls_per_descriptor_poll = 64;
// The number of polls between two checks of the timers while each poll finds completions.
constexpr std::uint32_t polls_per_clock_read = 16;
}  // namespace

result<engine> engine::create(const context& of, const engine_options& options) {
  VERBENA_TRY(auto hub, completion_hub::create(
                            of, options.operations,
                            {.events = true, .completion_vector = options.completion_vector}));
  unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return error::from_errno(errno, "epoll_create1");
  unique_fd wakes(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakes) return error::from_errno(errno, "eventfd");
  for (const int each : {hub.fd(), wakes.get()}) {
    epoll_event readable{.events = EPOLLIN, .data = {.ptr = nullptr}};
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, each, &readable) != 0)
      return error::from_errno(errno, "epoll_ctl");
  }
  auto& table = *hub.table_;
  return engine(std::make_unique<detail::engine_state>(std::move(hub), table, std::move(epoll),
                                                       std::move(wakes), options.spin));
}

namespace detail {

engine_state::engine_state(completion_hub on, operation_table& table, unique_fd epoll,
                           unique_fd wakes, std::chrono::nanoseconds spin) noexcept
    : hub_(std::move(on)),
      table_(table),
      epoll_(std::move(epoll)),
      wakes_(std::move(wakes)),
      spin_(spin) {}

engine_state::~engine_state() {
  VERBENA_ASSERT(users_ == 0,
                 "an async::engine was destroyed before its channels and listeners: destroy them "
                 "first, and the coroutines that await their operations");
  VERBENA_ASSERT(
      timers_.empty() && descriptors_.empty() && taken_ == nullptr && entered_ == nullptr,
      "an async::engine was destroyed while coroutines waited for it: end them first");
  while (callers_.load(std::memory_order_acquire) != 0) verbena::detail::relax();
}

#ifdef VERBENA_CHECKED
namespace {

/// Stops the program if two threads poll at the same time. A resumed coroutine may poll again on
/// the same thread.
/// Threads: thread-bound.
class only_poller {
 public:
  explicit only_poller(std::atomic<const void*>& who) noexcept
      : who_(who), before_(who.exchange(&this_thread)) {
    VERBENA_CHECK(before_ == nullptr || before_ == &this_thread,
                  "two threads used an async::engine at once: use one engine per thread, and "
                  "enter() to continue on the thread of the engine");
  }
  only_poller(const only_poller&) = delete;
  only_poller& operator=(const only_poller&) = delete;
  ~only_poller() { who_.store(before_); }

 private:
  static thread_local char this_thread;

  std::atomic<const void*>& who_;
  const void* before_;
};
thread_local char only_poller::this_thread = 0;

}  // namespace
#endif

std::size_t engine_state::poll_completions() {
  const auto completed = table_.complete_all();
  return completed ? *completed : lose_all();
}

std::size_t engine_state::poll() {
#ifdef VERBENA_CHECKED
  const only_poller poller(polling_);
#endif
  // Without short circuits: fewer branches.
  const bool has_only_completions =
      static_cast<unsigned>(signals_.load(std::memory_order_relaxed) == 0) &
      static_cast<unsigned>(descriptors_.empty()) & static_cast<unsigned>(timers_.empty());
  if (has_only_completions && !failure_) [[likely]]
    return poll_completions();
  return poll_all();
}

std::size_t engine_state::poll_all() {
  std::size_t resumed = 0;
  if (signals_.load(std::memory_order_relaxed) != 0) [[unlikely]]
    resumed = take_signals();
  if (!descriptors_.empty() && ++polls_ >= polls_per_descriptor_poll) [[unlikely]]
    poll_descriptors();
  resumed += failure_ ? lose_all() : poll_completions();
  if (!timers_.empty() && (resumed == 0 || ++polls_without_clock_ >= polls_per_clock_read))
    resumed += expire_timers();
  return resumed;
}

std::size_t engine_state::expire_timers() noexcept {
  polls_without_clock_ = 0;
  return timers_.expire(clock::now());
}

std::size_t engine_state::take_signals() noexcept {
  const std::uint32_t before = signals_.exchange(0, std::memory_order_seq_cst);
  if ((before & sleeping) != 0) {
    if ((before & woken) != 0 && !woken_before_arming_) ++unread_wakes_;
    woken_before_arming_ = false;
    std::uint64_t count = 0;
    // Resets the eventfd. If the signaling thread has not written yet, a later call reads its
    // write.
    if (unread_wakes_ != 0 && ::read(wakes_.get(), &count, sizeof count) == sizeof count)
      unread_wakes_ -= std::min(count, unread_wakes_);
    if (!descriptors_.empty()) poll_descriptors();
    // Before the poll: soft0 then needs no write and read of the descriptor for the event of a
    // completion that this thread receives. arm() reports an error.
    if (std::exchange(may_have_slept_, false) && (before & woken) == 0 && !failure_)
      static_cast<void>(hub_.read_event());
  }
  const std::size_t resumed = resume_entered();
  // The caller may have checked its condition before the wake, and may ignore the result of poll().
  if ((before & woken) != 0) signals_.fetch_or(taken, std::memory_order_relaxed);
  return resumed;
}

void engine_state::poll_descriptors() noexcept {
  polls_ = 0;
  descriptors_.poll(epoll_.get(), table_);
}

/// Ends the operations of the hub, because no further completion can arrive.
std::size_t engine_state::lose_all() noexcept {
  if (failure_)
    table_.lose_all(failure_->code());
  else
    fail(hub_.lose_all());
  return table_.complete_completed();
}

void engine_state::observe(failure_observer& which) noexcept {
  which.next_observer = std::exchange(observers_, &which);
}

void engine_state::stop_observing(const failure_observer& which) noexcept {
  failure_observer** at = &observers_;
  while (*at != nullptr && *at != &which) at = &(*at)->next_observer;
  if (*at != nullptr) *at = which.next_observer;
}

/// Moves the entries of other threads from entered_ to the end of taken_.
void engine_state::take_entered() noexcept {
  entry* newest = entered_.exchange(nullptr, std::memory_order_acquire);
  entry* oldest = nullptr;
  while (newest != nullptr) {
    entry* const next = std::exchange(newest->next, oldest);
    oldest = std::exchange(newest, next);
  }
  entry** last = &taken_;
  while (*last != nullptr) last = &(*last)->next;
  *last = oldest;
}

std::size_t engine_state::resume_entered() noexcept {
  take_entered();
  std::size_t resumed = 0;
  // A call may destroy its own and other entries, and may poll.
  while (taken_ != nullptr) {
    entry& first = *std::exchange(taken_, taken_->next);
    first.resume(first);
    ++resumed;
  }
  return resumed;
}

void engine_state::leave(const entry& which) noexcept {
  take_entered();
  entry** link = &taken_;
  while (*link != nullptr && *link != &which) link = &(*link)->next;
  if (*link != nullptr) *link = which.next;
}

bool engine_state::arm() {
  // A signal after this statement is written to the eventfd; an earlier signal is in `before`.
  const std::uint32_t before = signals_.fetch_or(sleeping, std::memory_order_seq_cst);
  if (before == woken || (before & taken) != 0) woken_before_arming_ = true;
  if ((before & (woken | taken)) != 0 || table_.has_completed() || next_deadline().expired())
    return false;
  if (failure_) [[unlikely]] {
    table_.lose_all(failure_->code());  // posted since the last poll
    // Otherwise only timers, descriptors and other threads can resume a coroutine.
    return !table_.has_completed();
  }
  // The engine looks for completions of the past at the recipients that complete_all() calls.
  static_cast<void>(table_.take_delivered());
  auto armed = hub_.arm();
  if (!armed.has_value()) [[unlikely]] {
    auto why = std::move(armed).error();
    table_.lose_all(why.code());
    fail(std::move(why));
    return false;
  }
  may_have_slept_ = *armed && !table_.has_completed();
  return may_have_slept_;
}

deadline engine_state::next_deadline() const noexcept {
  const auto of_hub = failure_ ? deadline::never() : hub_.next_deadline();
  const auto next = timers_.next();
  return next && *next < of_hub.when() ? deadline::at(*next) : of_hub;
}

void engine_state::end_run(std::atomic<bool>& ended) noexcept {
  callers_.fetch_add(1, std::memory_order_relaxed);
  ended.store(true, std::memory_order_release);
  // From here on, `ended` may have been destroyed.
  signal();
  callers_.fetch_sub(1, std::memory_order_release);
}

void engine_state::run_until(const std::atomic<bool>& ended) {
  auto idle_since = clock::time_point::max();
  while (!ended.load(std::memory_order_acquire)) {
    if (poll() != 0) {
      idle_since = clock::time_point::max();
      continue;
    }
    // Reads the clock after each poll, because a poll can take longer than spin_ if the thread is
    // preempted.
    const auto now = clock::now();
    idle_since = std::min(idle_since, now);
    if (now - idle_since < spin_)
      verbena::detail::relax();
    else if (arm())
      wait_for_event();
  }
}

void engine_state::wait_for_event() noexcept {
  pollfd readable{.fd = epoll_.get(), .events = POLLIN, .revents = 0};
  timespec left{};
  const auto next = next_deadline();
  if (!next.is_never()) {
    const auto duration = next.time_left();
    left.tv_sec = static_cast<time_t>(duration / std::chrono::seconds(1));
    left.tv_nsec =
        static_cast<long>(duration % std::chrono::seconds(1) / std::chrono::nanoseconds(1));
  }
  // If a signal interrupts the call, the sleep ends early, which is harmless.
  if (::ppoll(&readable, 1, next.is_never() ? nullptr : &left, nullptr) != 0) return;
  may_have_slept_ = false;  // there is no event
  table_.armed() = false;   // the kernel may have lost it for lack of memory
}

void engine_state::enter(entry& which) noexcept {
  // Relaxed: the release of the entry makes the increment visible to the thread of the engine.
  callers_.fetch_add(1, std::memory_order_relaxed);
  which.next = entered_.load(std::memory_order_relaxed);
  while (!entered_.compare_exchange_weak(which.next, &which, std::memory_order_release)) {
  }
  signal();
  callers_.fetch_sub(1, std::memory_order_release);
}

void engine_state::wake() noexcept {
  callers_.fetch_add(1, std::memory_order_relaxed);
  signal();
  callers_.fetch_sub(1, std::memory_order_release);
}

void engine_state::signal() noexcept {
  if (signals_.fetch_or(woken, std::memory_order_seq_cst) != sleeping) return;
  constexpr std::uint64_t one = 1;
  // Fails only if the counter of the eventfd would overflow; the eventfd is then readable.
  static_cast<void>(::write(wakes_.get(), &one, sizeof one));
}

/// Precondition: the operations of the hub have ended.
void engine_state::fail(error why) noexcept {
  log(log_level::error, why.message());
  failure_.emplace(std::move(why));
  // Events that are in the completion channel are not read, so it could be readable from now on.
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, hub_.fd(), nullptr));
  while (observers_ != nullptr) {
    failure_observer& first = *std::exchange(observers_, observers_->next_observer);
    first.engine_failed(first);
  }
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::async
