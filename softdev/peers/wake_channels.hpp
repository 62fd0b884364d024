// SPDX-License-Identifier: MIT
// The channels that peers signal: one receiver of wake-ups per completion channel. A peer signals
// it only if the published arm word requests an event.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "softdev/ipc/wake_sockets.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// A wake channel: the index in the low 16 bits, a generation, which is never 0, in the high bits.
/// 0 means none.
using wake_channel_id = std::uint32_t;

/// This process's wake channels. Thread-safe.
class wake_channels {
 public:
  static constexpr std::uint32_t capacity = 4096;
  /// Returns the index of a channel, less than `capacity` if `id` is valid.
  [[nodiscard]] static constexpr std::uint32_t index_of(wake_channel_id id) noexcept {
    return id & 0xffffU;
  }
  /// The most channels that one peer signals directly. For others, it wakes the progress thread.
  static constexpr std::uint32_t most_per_peer = 64;

  struct created {
    wake_channel_id id = 0;
    wake_receiver* receiver = nullptr;  ///< owned by wake_channels until destroy()
  };
  [[nodiscard]] result<created> create();
  /// Closes the receiver; later signals have no effect. Returns false if `id` does not exist.
  bool destroy(wake_channel_id id);
  /// Returns the end that `with` signals. It is empty if `id` does not exist, if `with` already
  /// signals `most_per_peer` channels, or if descriptors are exhausted.
  [[nodiscard]] unique_fd share(wake_channel_id id, const void* with);
  /// Ignores further signals of the peer.
  void dismiss(const void* who) noexcept;
  /// Closes the descriptors in a child of fork, except those that the program knows. Does nothing
  /// if another thread of the parent was inside.
  void close_all() noexcept;

 private:
  struct entry {
    std::unique_ptr<wake_receiver> receiver;
    std::uint16_t generation = 0;
  };
  [[nodiscard]] wake_receiver* find(wake_channel_id id) noexcept;

  std::mutex mutex_;
  std::vector<entry> entries_;
};

/// Limits the signals to one sleeper to one per sleep. One thread at a time.
class sleeper_signal {
 public:
  /// Returns whether `word` requests a signal that was not sent yet. The word is odd while a thread
  /// sleeps, and changes with every sleep.
  [[nodiscard]] bool wanted(std::uint32_t word) noexcept {
    if ((word & 1U) == 0 || word == signalled_) return false;
    signalled_ = word;
    return true;
  }

 private:
  std::uint32_t signalled_ = 0;
};

}  // namespace verbena::softdev
