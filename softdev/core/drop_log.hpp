// SPDX-License-Identifier: MIT
// A log of messages that were dropped without notice to their sender: how many, and why.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "softdev/core/failure.hpp"
#include "softdev/core/spin_lock.hpp"

namespace verbena::softdev {

/// Counts dropped messages by reason. Threads: thread-safe. Never allocates.
class drop_log {
 public:
  void note(const failure& why) noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept;
  [[nodiscard]] std::uint64_t count(reason why) const noexcept;

  /// Writes the number of dropped messages for each reason, and a description of the last one, as
  /// softdev's `describe` writes a failure. Returns the length, or 0 if no message was dropped.
  std::size_t describe(char* text, std::size_t capacity) const noexcept;

 private:
  struct kind {
    failure last;
    std::uint64_t count = 0;
  };

  mutable spin_lock lock_;
  std::array<kind, 8> kinds_;  ///< the last one counts all further reasons
};

}  // namespace verbena::softdev
