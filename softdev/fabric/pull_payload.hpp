// SPDX-License-Identifier: MIT
// Receives requests whose payload is in the memory of the requester's process, and copies the
// payload once, in the order of the requests. Each word of such a record may be hostile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/fabric/endpoint_state.hpp"
#include "softdev/fabric/records.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, which is in an access epoch during receive(). Takes locks of
/// queue pairs. Allocates when an arena of a peer is used for the first time.
class payload_puller {
 public:
  explicit payload_puller(endpoint_state& state) noexcept : state_(state) {}

  /// Begins a batch. The bytes that are copied for each peer in one batch are limited, because the
  /// program waits for the batch, and the peer's fence for each active section.
  void begin_batch() noexcept { from_ = nullptr; }
  /// Executes a request, or a part of it; after a part, keeps the record.
  [[nodiscard]] handled receive(peer& from, std::span<const std::byte> bytes) noexcept;

 private:
  enum class copied : std::uint8_t { all, part, unreadable, refused };
  [[nodiscard]] handled go_on(queue_pair& target, peer& from,
                              const records::payload_reference& payload) noexcept;
  [[nodiscard]] copied copy(responder& receiver, peer& from,
                            const records::payload_reference& payload, response& out) noexcept;

  endpoint_state& state_;
  const peer* from_ = nullptr;  ///< of the last request of this batch
  std::uint64_t left_ = 0;      ///< bytes that may still be copied from it
};

}  // namespace verbena::softdev
