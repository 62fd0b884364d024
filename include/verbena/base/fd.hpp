// SPDX-License-Identifier: MIT
// An owned file descriptor, and waiting for one with a deadline.
#pragma once

#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// Owns a file descriptor and closes it. Threads: one thread at a time.
class unique_fd {
 public:
  unique_fd() noexcept = default;
  /// Takes over `fd`; -1 for none.
  explicit unique_fd(int fd) noexcept : fd_(fd) {}
  /// Takes over what `other` owns, which has none afterwards.
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  /// Closes its own and takes over what `other` owns.
  unique_fd& operator=(unique_fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~unique_fd() { reset(); }

  /// The descriptor, which stays owned; -1 if there is none.
  [[nodiscard]] int get() const noexcept { return fd_; }
  /// Whether there is a descriptor.
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Gives the descriptor up to the caller; -1 if there was none.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  /// Closes the descriptor, if there is one, and takes over `fd`.
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

/// Waits until poll(2) reports one of `events` (or an error or hang-up) on `fd`. True when it did,
/// false when the deadline passed; interrupted waits are continued. Blocks, does not allocate.
[[nodiscard]] result<bool> wait_for_fd(int fd, short events, deadline until);

}  // namespace verbena::inline VERBENA_ABI
