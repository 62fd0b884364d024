// SPDX-License-Identifier: MIT
#include "softdev/host/event_queue.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "softdev/ipc/cancellation.hpp"

namespace verbena::softdev {
namespace {

// The queue of which this thread is a collector.
thread_local event_queue* collecting = nullptr;

// Returns whether all signal handlers of the process have SA_RESTART. The signal that interrupted a
// call is not known, but programs hardly ever mix both kinds of handlers.
bool handlers_restart() noexcept {
  for (int number = 1; number < NSIG; ++number) {
    // A thread that waits causes none of these, and sanitizers handle them.
    if (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL) continue;
    struct sigaction action;
    if (sigaction(number, nullptr, &action) != 0) continue;
    const bool handled = (action.sa_flags & SA_SIGINFO) != 0 ||
                         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
    if (handled && (action.sa_flags & SA_RESTART) == 0) return false;
  }
  return true;
}

// Calls wait(may_block), which returns an errno, until a blocking read of `fd` would return.
template <class Wait>
int wait_like_read(int fd, Wait wait) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return errno;
  const bool may_block = (flags & O_NONBLOCK) == 0;
  while (true) {
    const int failed = wait(may_block);
    if (failed != EINTR || !handlers_restart()) return failed;
  }
}

}  // namespace

/// Holds the lock while events are added. Makes the descriptor readable after the lock was
/// released: otherwise the woken thread would immediately wait for the lock.
class event_queue::adding {
 public:
  explicit adding(event_queue& to) noexcept : to_(to), lock_(to.mutex_) {}
  ~adding() {
    const bool begins = to_.first_ != nullptr && !to_.readable_ && collecting != &to_;
    if (begins) to_.readable_ = true;
    lock_.unlock();
    if (!begins) return;
    const without_cancellation disabled;
    const std::uint64_t one = 1;
    if (write(to_.fd_.get(), &one, sizeof one) < 0) {
      // It cannot fail: the count is 0.
    }
  }
  adding(const adding&) = delete;
  adding& operator=(const adding&) = delete;

 private:
  event_queue& to_;
  std::unique_lock<std::mutex> lock_;
};

// Precondition: the lock is held, and the node is not in the queue.
void event_queue::append(event_node& node) noexcept {
  node.next = nullptr;
  (last_ != nullptr ? last_->next : first_) = &node;
  last_ = &node;
}

// Precondition: the lock is held.
void event_queue::became_shorter() noexcept {
  if (first_ != nullptr || !readable_) return;
  readable_ = false;
  // The count is 1, or the thread that set `readable_` is about to set it to 1.
  const without_cancellation disabled;
  std::uint64_t count = 0;
  while (read(fd_.get(), &count, sizeof count) < 0 && (errno == EAGAIN || errno == EINTR)) {
    sched_yield();
  }
}

event_queue::collector::collector(event_queue& of) noexcept : of_(of) { collecting = &of; }

event_queue::collector::~collector() {
  collecting = nullptr;
  const adding left(of_);
}

void event_queue::push(event_node& node) noexcept {
  const adding lock(*this);
  if (node.pending++ == 0) append(node);
}

void event_queue::push_once(event_node& node) noexcept {
  const adding lock(*this);
  if (node.pending != 0) return;
  node.pending = 1;
  append(node);
}

bool event_queue::push_any(std::span<event_node> pool, std::uint32_t kind) noexcept {
  const adding lock(*this);
  for (event_node& node : pool) {
    if (node.pending != 0) continue;
    node.kind = kind;
    node.pending = 1;
    append(node);
    return true;
  }
  return false;
}

event_queue::event event_queue::pop(void (*taken)(void* owner, std::uint32_t kind)) noexcept {
  const std::lock_guard lock(mutex_);
  event_node* const node = first_;
  if (node == nullptr) return {};
  const event result{node->owner, node->kind};
  if (--node->pending == 0 || node->next != nullptr) {
    first_ = node->next;
    if (first_ == nullptr) last_ = nullptr;
    if (node->pending != 0) append(*node);
  }
  became_shorter();
  taken(result.owner, result.kind);
  return result;
}

void event_queue::drop(event_node& node) noexcept {
  const std::lock_guard lock(mutex_);
  if (node.pending == 0) return;
  node.pending = 0;
  event_node* before = nullptr;
  for (event_node* at = first_; at != &node; at = at->next) before = at;
  (before == nullptr ? first_ : before->next) = node.next;
  if (last_ == &node) last_ = before;
  node.next = nullptr;
  became_shorter();
}

int wait_readable(int fd) {
  return wait_like_read(fd, [fd](bool may_block) {
    const with_cancellation permitted;
    pollfd wanted{fd, POLLIN, 0};
    const int ready = poll(&wanted, 1, may_block ? -1 : 0);
    if (ready < 0) return errno;
    return ready == 0 ? EAGAIN : 0;
  });
}

int wait_readable(wake_receiver& receiver, bool& signaled) {
  return wait_like_read(receiver.fd(), [&](bool may_block) {
    if (!may_block) return EAGAIN;
    const auto found = receiver.wait(wake_receiver::forever);
    signaled = found.signaled;
    if (found.failed != 0) return found.failed;
    return found.signaled || found.watched != 0 ? 0 : EAGAIN;
  });
}

}  // namespace verbena::softdev
