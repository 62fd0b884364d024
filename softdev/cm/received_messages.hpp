// SPDX-License-Identifier: MIT
// The queue of messages from other hosts for the thread of a manager.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "softdev/cm/address.hpp"
#include "softdev/cm/mad.hpp"

namespace verbena::softdev::cm {

/// A message of another host.
struct received_message {
  address own;
  address peer;
  std::array<std::byte, mad_bytes> bytes;
};

/// Thread-safe. No other lock is taken while the lock of an object is held.
class received_messages {
 public:
  /// Adds a message. Returns false if too many messages are waiting or memory is exhausted.
  [[nodiscard]] bool add(const address& own, const address& peer, mad_view message) noexcept {
    constexpr std::size_t most_waiting = 1024;
    try {
      const std::lock_guard lock(mutex_);
      if (waiting_.size() >= most_waiting) return false;
      received_message& made = waiting_.emplace_back(own, peer);
      std::ranges::copy(message, made.bytes.begin());
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }
  /// Removes all messages.
  [[nodiscard]] std::vector<received_message> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<received_message> waiting_;
};

}  // namespace verbena::softdev::cm
