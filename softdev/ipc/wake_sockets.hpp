// SPDX-License-Identifier: MIT
// Wake-ups of another process, which may be malicious. Each sender has its own socket to the
// receiver, and an argument of each call (MSG_DONTWAIT) decides whether it blocks. A sender
// therefore cannot block the receiver or another sender, and cannot consume another sender's
// signal. (The flags and the count of an eventfd are shared by all processes that hold it.)
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

/// Returns whether `fd` can be a sender's end: a local SOCK_SEQPACKET socket.
[[nodiscard]] bool is_wake_socket(int fd) noexcept;
/// Signals the receiver of a sender's end. One system call; never blocks, regardless of other
/// holders of the socket.
void signal_wake_socket(int fd) noexcept;

/// Owns the receiving ends of one sleeper. Thread-safe. close_all() is for a child of fork.
class wake_receiver {
 public:
  /// Creates a receiver without senders. Errors: the errno of epoll_create1(2), eventfd(2) or
  /// epoll_ctl(2).
  [[nodiscard]] static result<std::unique_ptr<wake_receiver>> create();
  wake_receiver(const wake_receiver&) = delete;
  wake_receiver& operator=(const wake_receiver&) = delete;

  /// Returns an epoll descriptor that is readable while there are signals to take. It must not be
  /// passed to another process.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  /// Returns a new end with which `sender` signals. An older end of the same sender stops working.
  /// Errors: the errno of socketpair(2) or epoll_ctl(2).
  [[nodiscard]] result<unique_fd> admit(const void* sender);
  /// Ignores `sender` from now on.
  void dismiss(const void* sender) noexcept;
  /// Returns whether `sender` has an end that is not closed.
  [[nodiscard]] bool serves(const void* sender) noexcept;

  /// The result of wait().
  struct woken {
    bool signaled = false;      ///< there were signals; they were taken, at most 16 of each sender
    std::uint32_t watched = 0;  ///< bit n: the descriptor with the number n is readable
    int failed = 0;             ///< EINTR: a signal handler ran
  };
  /// Makes fd() readable also while `other` is readable. `number` identifies `other` in results and
  /// is less than 32. `other` must stay open until this object is destroyed. Errors: the errno of
  /// epoll_ctl(2).
  [[nodiscard]] result<void> watch(int other, std::uint32_t number) noexcept;

  /// Signals the receiver from this process. One system call.
  void signal() noexcept;
  /// Waits until fd() is readable, at most `timeout` (zero or more), and takes the signals. Makes
  /// one system call, and one more for each sender that signaled. A cancellation point.
  woken wait(std::chrono::nanoseconds timeout);
  static constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();
  static constexpr std::chrono::nanoseconds no_time = std::chrono::nanoseconds::zero();
  /// Takes the signals without blocking. Returns whether there were any.
  bool take() noexcept { return wait(no_time).signaled; }

  /// Closes all descriptors without taking a lock.
  void close_all() noexcept;
  /// Closes all descriptors except fd(), without taking a lock.
  void close_senders() noexcept;

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
