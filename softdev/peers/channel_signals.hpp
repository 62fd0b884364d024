// SPDX-License-Identifier: MIT
// Signals to the completion channels of a peer: this process's ends of the peer's wake channels.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "softdev/peers/peer_messages.hpp"
#include "softdev/peers/wake_channels.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::softdev {

/// Threads: thread-safe.
class channel_signals {
 public:
  explicit channel_signals(peer_messages& messages);
  ~channel_signals();
  channel_signals(const channel_signals&) = delete;
  channel_signals& operator=(const channel_signals&) = delete;

  /// Signals a channel if this process has an end of it. Otherwise requests the end from the peer,
  /// wakes the peer's progress thread and returns false. If the peer refuses, some later calls
  /// request the end again. One or two system calls.
  bool signal(wake_channel_id channel) noexcept;
  /// Stores and signals this process's end of a channel. If `end` is empty, the peer refused it.
  void take(wake_channel_id channel, unique_fd end);
  /// Closes the ends in a child of fork. Does nothing if another thread of the parent was inside.
  void close_all() noexcept;

 private:
  struct place;
  [[nodiscard]] place* place_of(wake_channel_id channel) noexcept;

  peer_messages& messages_;
  std::mutex mutex_;
  std::unique_ptr<std::unique_ptr<place[]>[]> pages_;  ///< by index; allocated on first use
  std::uint32_t held_ = 0;
};

}  // namespace verbena::softdev
