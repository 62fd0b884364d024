// SPDX-License-Identifier: MIT
// SIGINT and SIGTERM as a file descriptor for poll(2).
#pragma once

namespace rcopy {

/// Makes fd() readable after the first SIGINT or SIGTERM. The descriptor remains readable. The
/// second signal ends the program. At most one object may exist at a time. Threads: several threads
/// may wait for fd().
class interruption {
 public:
  interruption();
  ~interruption();
  interruption(const interruption&) = delete;
  interruption& operator=(const interruption&) = delete;

  [[nodiscard]] int fd() const noexcept;
};

}  // namespace rcopy
