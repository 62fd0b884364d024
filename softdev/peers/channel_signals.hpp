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

  /// Signals a channel when our end of it is known; otherwise asks for it, wakes the peer's
  /// progress thread instead, and returns false. One or two system calls.
  bool signal(wake_channel_id channel) noexcept;
  /// Keeps and signals our end of a channel; an empty one means that it was refused.
  void take(wake_channel_id channel, unique_fd end);

 private:
  struct place;
  [[nodiscard]] place* place_of(wake_channel_id channel) noexcept;

  peer_messages& messages_;
  std::mutex mutex_;
  std::unique_ptr<std::unique_ptr<place[]>[]> pages_;  ///< by number; made when used
  std::uint32_t held_ = 0;
};

}  // namespace verbena::softdev
