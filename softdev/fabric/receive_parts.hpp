// SPDX-License-Identifier: MIT
// Receives requests that are sent in parts: each record is a separate request, which is answered at
// once.
#pragma once

#include <cstddef>
#include <span>

#include "softdev/fabric/endpoint_state.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, with the receive lock of the queue pair held.
class part_receiver {
 public:
  explicit part_receiver(endpoint_state& state) noexcept : state_(state) {}

  /// Executes a request or a part of it.
  void receive(queue_pair& target, peer& from, const message& what,
               std::span<const std::byte> payload) noexcept;

 private:
  void answer_read(queue_pair& target, peer& from, const message& what) noexcept;

  endpoint_state& state_;
};

}  // namespace verbena::softdev
