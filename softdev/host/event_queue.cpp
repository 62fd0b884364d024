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

}  // namespace

// Precondition: the lock is held, and the node is not in the queue.
void event_queue::append(event_node& node) noexcept {
  node.next = nullptr;
  if (last_ != nullptr) {
    last_->next = &node;
  } else {
    first_ = &node;
    const std::uint64_t one = 1;
    const ssize_t written = write(fd_.get(), &one, sizeof one);  // 0 + 1: cannot block or fail
    static_cast<void>(written);
  }
  last_ = &node;
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
  if (first_ == nullptr) {
    std::uint64_t count = 0;
    const ssize_t got = read(fd_.get(), &count, sizeof count);  // it is 1: cannot block or fail
    static_cast<void>(got);
  }
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
  if (first_ == nullptr) {
    std::uint64_t count = 0;
    const ssize_t got = read(fd_.get(), &count, sizeof count);
    static_cast<void>(got);
  }
}

result<unique_fd> make_event_fd() {
  unique_fd fd(eventfd(0, EFD_CLOEXEC));
  if (!fd) return error::from_errno(errno, "eventfd");
  return fd;
}

int wait_readable(int fd) noexcept {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return errno;
  pollfd wanted{fd, POLLIN, 0};
  const int timeout = (flags & O_NONBLOCK) != 0 ? 0 : -1;
  while (true) {
    const int ready = poll(&wanted, 1, timeout);
    if (ready > 0) return 0;
    if (ready == 0) return EAGAIN;
    if (errno != EINTR || !handlers_restart()) return errno;
  }
}

}  // namespace verbena::softdev
