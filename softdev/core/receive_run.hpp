// SPDX-License-Identifier: MIT
// A run of consecutive short sends to one queue pair. Their common data are looked up once, and
// their completions become visible together.
#pragma once

#include <cstdint>
#include <span>

#include "softdev/core/completion_queue.hpp"
#include "softdev/core/memory_region.hpp"
#include "softdev/core/responder_checks.hpp"

namespace verbena::softdev {

class queue_pair;

/// A complete send without immediate data, not solicited. The members have the names of `message`.
struct short_send {
  softdev::transport transport = softdev::transport::rc;
  std::uint16_t pkey = 0;
  std::uint16_t destination_lid = 0;
  std::uint32_t source_qpn = 0;
  std::uint32_t psn = 0;
  std::uint32_t qkey = 0;
};

/// Executes sends that need only an acknowledgement. The responder executes all other requests.
///
/// Threads: one thread at a time. From `begin` to `end`, the receive lock of the queue pair is
/// held, the thread is in one access epoch, and the lock of the completion queue is taken. Does not
/// allocate.
class receive_run {
 public:
  /// Begins a run. Returns false if the responder must execute the next request.
  [[nodiscard]] bool begin(queue_pair& to) noexcept;
  /// Executes a send. Returns false, and leaves the queue pair unchanged, if the responder must
  /// execute it after `end`.
  [[nodiscard]] bool take(const short_send& what, std::span<const std::byte> payload) noexcept;
  /// Makes the completions visible.
  void end() noexcept { completions_.close(); }

 private:
  queue_pair* to_ = nullptr;
  responder_view view_;
  recent_region region_;
  completion_queue::batch completions_;
};

}  // namespace verbena::softdev
