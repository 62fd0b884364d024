// SPDX-License-Identifier: MIT
// What peers signal: one receiver of wake-ups per completion channel. A peer signals it only when
// the published word says that somebody sleeps.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "softdev/ipc/wake_sockets.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// A wake channel: index in the low 16 bits, a generation that is never 0 above. 0 means none.
using wake_channel_id = std::uint32_t;

/// This process's wake channels. Thread-safe.
class wake_channels {
 public:
  static constexpr std::uint32_t capacity = 4096;
  /// The index of a channel, less than `capacity` if it is one.
  [[nodiscard]] static constexpr std::uint32_t index_of(wake_channel_id id) noexcept {
    return id & 0xffffU;
  }
  /// Channels that one peer may signal directly; it wakes the progress thread for further ones.
  static constexpr std::uint32_t most_per_peer = 64;

  struct created {
    wake_channel_id id = 0;
    wake_receiver* receiver = nullptr;  ///< owned here until destroy
  };
  [[nodiscard]] result<created> create();
  /// Closes the receiver; peers signal nobody. False when `id` is not alive.
  bool destroy(wake_channel_id id);
  /// The end by which `with` signals; empty when `id` is not alive, when `with` signals
  /// `most_per_peer` channels already, or when descriptors are missing.
  [[nodiscard]] unique_fd share(wake_channel_id id, const void* with);
  /// Ignores the peer from now on.
  void dismiss(const void* who) noexcept;

 private:
  struct entry {
    std::unique_ptr<wake_receiver> receiver;
    std::uint16_t generation = 0;
  };
  [[nodiscard]] wake_receiver* find(wake_channel_id id) noexcept;

  std::mutex mutex_;
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
