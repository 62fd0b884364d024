// SPDX-License-Identifier: MIT
// An owned file descriptor, and poll(2) with a deadline.
#pragma once

#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// Owns a file descriptor and closes it. Threads: one thread at a time.
class unique_fd {
 public:
  unique_fd() noexcept = default;
  /// Takes ownership of `fd`; -1 means no descriptor.
  explicit unique_fd(int fd) noexcept : fd_(fd) {}
  /// Takes the descriptor of `other`, which is empty afterwards.
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  /// Closes its own descriptor and takes the descriptor of `other`, which is empty afterwards.
  unique_fd& operator=(unique_fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~unique_fd() { reset(); }

  /// Returns the descriptor and keeps ownership; -1 if there is none.
  [[nodiscard]] int get() const noexcept { return fd_; }
  /// Returns whether there is a descriptor.
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Releases ownership and returns the descriptor; -1 if there was none.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  /// Closes the descriptor, if there is one, and takes ownership of `fd`.
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

/// Waits until poll(2) reports one of `events`, an error or a hang-up on `fd`.
///
/// Returns true if poll(2) reported an event, and false if the deadline passed. Signals do not end
/// the wait. Blocks; does not allocate. Errors: the errno of poll(2).
[[nodiscard]] result<bool> wait_for_fd(int fd, short events, deadline until);

}  // namespace verbena::inline VERBENA_ABI
