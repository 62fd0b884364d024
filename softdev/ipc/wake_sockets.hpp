// SPDX-License-Identifier: MIT
// Waking of a thread of another process that may be malicious. Each sender has a socket of its own
// towards the receiver, and whether a call blocks is an argument of the call: a sender can neither
// make the receiver or another sender wait nor take a signal of another sender away. (The flags and
// the count of an eventfd belong to all processes that hold it.)
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Returns whether `fd` can be a sender's end: a local socket that keeps messages apart.
[[nodiscard]] bool is_wake_socket(int fd) noexcept;
/// Makes the receiver of a sender's end readable. One system call; never blocks, whatever other
/// holders of the socket do.
void signal_wake_socket(int fd) noexcept;

/// The receiving ends of one sleeper. Thread-safe. close_all() is for a child of fork.
class wake_receiver {
 public:
  /// Errors: the errno of epoll_create1(2), eventfd(2) or epoll_ctl(2).
  [[nodiscard]] static result<std::unique_ptr<wake_receiver>> create();
  wake_receiver(const wake_receiver&) = delete;
  wake_receiver& operator=(const wake_receiver&) = delete;

  /// Readable while there are signals that take() did not take (an epoll descriptor). It stays in
  /// this process.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  /// Returns the end by which `sender` signals; an older end of the same sender becomes useless.
  /// Errors: the errno of socketpair(2) or epoll_ctl(2).
  [[nodiscard]] result<unique_fd> admit(const void* sender);
  /// Ignores `sender` from now on.
  void dismiss(const void* sender) noexcept;
  /// Returns whether `sender` has an end that it did not close.
  [[nodiscard]] bool serves(const void* sender) noexcept;

  /// What a call of wait() found.
  struct woken {
    bool signaled = false;      ///< there were signals; they were taken, at most 16 of each sender
    std::uint32_t watched = 0;  ///< bit n: the descriptor with the number n is readable
    int failed = 0;             ///< EINTR: a signal handler ran
  };
  /// Makes fd() readable also while `other` is. `number` is less than 32 and names it in results.
  /// `other` must stay open until this is destroyed. Errors: the errno of epoll_ctl(2).
  [[nodiscard]] result<void> watch(int other, std::uint32_t number) noexcept;

  /// Signals from this process. One system call.
  void signal() noexcept;
  /// Waits until fd() is readable, at most for `timeout` (zero or more), and takes the signals. One
  /// system call, and one for each sender that signaled. A point of cancellation.
  woken wait(std::chrono::nanoseconds timeout) noexcept;
  static constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();
  static constexpr std::chrono::nanoseconds no_time = std::chrono::nanoseconds::zero();
  /// Takes the signals; returns whether there were any. As wait(), but does not block.
  bool take() noexcept { return wait(no_time).signaled; }

  /// Closes everything without taking a lock.
  void close_all() noexcept;

 private:
  struct sender_end {
    const void* sender;
    std::uint64_t number;  ///< in events of the epoll descriptor
    unique_fd socket;
  };

  wake_receiver(unique_fd epoll, unique_fd own) noexcept;
  void take_from(std::uint64_t number) noexcept;

  unique_fd epoll_;
  unique_fd own_;  ///< an eventfd that no other process holds
  std::mutex mutex_;
  std::uint64_t next_number_;
  std::vector<sender_end> ends_;
};

}  // namespace verbena::softdev
