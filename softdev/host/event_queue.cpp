// SPDX-License-Identifier: MIT
#include "softdev/host/event_queue.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace verbena::softdev {
namespace {

// The queue of which this thread is a collector.
thread_local event_queue* collecting = nullptr;

// True when every signal handler of the process asks for system calls to be restarted. Which signal
// interrupted us cannot be known; programs hardly ever mix both kinds.
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

// Calls wait(may_block), which returns an errno, as often as a blocking read of `fd` would.
template <class Wait>
int wait_like_read(int fd, Wait wait) noexcept {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return errno;
  const bool may_block = (flags & O_NONBLOCK) == 0;
  while (true) {
    const int failed = wait(may_block);
    if (failed != EINTR || !handlers_restart()) return failed;
  }
}

}  // namespace

// Precondition: the lock is held, and the node is not in the queue.
void event_queue::append(event_node& node) noexcept {
  node.next = nullptr;
  if (last_ != nullptr) {
    last_->next = &node;
  } else {
    first_ = &node;
    if (collecting != this) set_readable(true);
  }
  last_ = &node;
}

// Precondition: the lock is held.
void event_queue::set_readable(bool wanted) noexcept {
  if (readable_ == wanted) return;
  readable_ = wanted;
  std::uint64_t count = 1;  // the eventfd's count is 0 or 1: the calls cannot block or fail
  const ssize_t done =
      wanted ? write(fd_.get(), &count, sizeof count) : read(fd_.get(), &count, sizeof count);
  static_cast<void>(done);
}

event_queue::collector::collector(event_queue& of) noexcept : of_(of) { collecting = &of; }

event_queue::collector::~collector() {
  collecting = nullptr;
  const std::lock_guard lock(of_.mutex_);
  of_.set_readable(of_.first_ != nullptr);
}

void event_queue::push(event_node& node) noexcept {
  const std::lock_guard lock(mutex_);
  if (node.pending++ == 0) append(node);
}

void event_queue::push_once(event_node& node) noexcept {
  const std::lock_guard lock(mutex_);
  if (node.pending != 0) return;
  node.pending = 1;
  append(node);
}

bool event_queue::push_any(std::span<event_node> pool, std::uint32_t kind) noexcept {
  const std::lock_guard lock(mutex_);
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
  if (first_ == nullptr) set_readable(false);
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
  if (first_ == nullptr) set_readable(false);
}

result<unique_fd> make_event_fd() {
  unique_fd fd(eventfd(0, EFD_CLOEXEC));
  if (!fd) return error::from_errno(errno, "eventfd");
  return fd;
}

int wait_readable(int fd) noexcept {
  return wait_like_read(fd, [fd](bool may_block) {
    pollfd wanted{fd, POLLIN, 0};
    const int ready = poll(&wanted, 1, may_block ? -1 : 0);
    if (ready < 0) return errno;
    return ready == 0 ? EAGAIN : 0;
  });
}

int wait_readable(wake_receiver& receiver, bool& signaled) noexcept {
  return wait_like_read(receiver.fd(), [&](bool may_block) {
    const auto found = receiver.wait(may_block ? wake_receiver::forever : wake_receiver::no_time);
    signaled = found.signaled;
    if (found.failed != 0) return found.failed;
    return found.signaled || found.watched != 0 ? 0 : EAGAIN;
  });
}

}  // namespace verbena::softdev
