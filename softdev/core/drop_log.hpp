// SPDX-License-Identifier: MIT
// Messages that were dropped without a word to their sender: how many, and why.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "softdev/core/failure.hpp"
#include "softdev/core/spin_lock.hpp"

namespace verbena::softdev {

/// Threads: thread-safe. Never allocates.
class drop_log {
 public:
  void note(const failure& why) noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept;
  [[nodiscard]] std::uint64_t count(reason why) const noexcept;

  /// How many messages were dropped for each reason, and the last one in words, as softdev's
  /// `describe` writes a failure; 0 when none was dropped.
  std::size_t describe(char* text, std::size_t capacity) const noexcept;

 private:
  struct kind {
    failure last;
    std::uint64_t count = 0;
  };

  mutable spin_lock lock_;
  std::array<kind, 8> kinds_;  ///< the last collects what has no room
};

}  // namespace verbena::softdev
