// SPDX-License-Identifier: MIT
// Waking: the eventfd of the progress thread and one eventfd per completion channel. A peer signals
// them only when the published word says that somebody sleeps.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// A wake channel: index in the low 16 bits, a generation that is never 0 above. 0 means none.
using wake_channel_id = std::uint32_t;

/// This process's wake channels. Thread-safe.
class wake_channels {
 public:
  static constexpr std::uint32_t capacity = 4096;

  struct created {
    wake_channel_id id = 0;
    int fd = -1;  ///< the eventfd, non-blocking; owned here until destroy
  };
  [[nodiscard]] result<created> create();
  /// Closes the eventfd; peers that hold a copy signal nobody. False when `id` is not alive.
  bool destroy(wake_channel_id id);
  /// A copy of the eventfd for a peer; empty when `id` is not alive.
  [[nodiscard]] unique_fd share(wake_channel_id id) const;
  /// Closes everything (in a forked child).
  void close_all() noexcept;

 private:
  struct entry {
    unique_fd fd;
    std::uint16_t generation = 0;
  };
  mutable std::mutex mutex_;
  std::vector<entry> entries_;
};

/// Signals one sleeper once per sleep, whoever asks. One thread at a time.
class sleeper_signal {
 public:
  /// True when `word` (odd while somebody sleeps, changed with every sleep) asks for a signal that
  /// was not given yet.
  [[nodiscard]] bool wanted(std::uint32_t word) noexcept {
    if ((word & 1U) == 0 || word == signalled_) return false;
    signalled_ = word;
    return true;
  }

 private:
  std::uint32_t signalled_ = 0;
};

}  // namespace verbena::softdev
