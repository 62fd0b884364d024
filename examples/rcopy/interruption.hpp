// SPDX-License-Identifier: MIT
// SIGINT and SIGTERM as something that can be waited for.
#pragma once

namespace rcopy {

/// While it lives, the first SIGINT or SIGTERM makes fd() readable, for good; the second ends the
/// program. At most one lives at a time. Threads: fd() may be waited on by all.
class interruption {
 public:
  interruption();
  ~interruption();
  interruption(const interruption&) = delete;
  interruption& operator=(const interruption&) = delete;

  [[nodiscard]] int fd() const noexcept;
};

}  // namespace rcopy
