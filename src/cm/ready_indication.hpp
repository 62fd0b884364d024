// SPDX-License-Identifier: MIT
// iWARP connections whose passive side sends first. MPA (RFC 5044) permits it to send only after it
// has received. The private data of the reply therefore begins with the address of a word, and the
// active side writes this word before it sends.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/steps.hpp"
#include "verbena/cm/event_channel.hpp"
#include "verbena/cm/identifier.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// The word of the passive side. Destroy it before the queue pair. Threads: one thread at a time.
class pending_ready_indication {
 public:
  /// Creates the word in the protection domain of `queue`. Errors: those of
  /// protection_domain::allocate().
  [[nodiscard]] static result<pending_ready_indication> create(const queue_pair<rc>& queue);
  /// Returns the private data of the reply: the address of the word, followed by `said`.
  [[nodiscard]] std::vector<std::byte> announce(std::span<const std::byte> said) const;
  /// Waits until the word is written.
  [[nodiscard]] steps<void> wait(event_channel channel, identifier id, deadline until) const;
  /// Returns the memory region. Keep it while the queue pair is connected, because the peer writes
  /// the word several times.
  [[nodiscard]] memory_region into_region() && { return std::move(word_); }

 private:
  explicit pending_ready_indication(memory_region word) noexcept : word_(std::move(word)) {}
  [[nodiscard]] bool is_there() const;

  memory_region word_;
};

/// On the active side: writes the word whose address is at the start of `said`, and removes the
/// address. The returned region must exist as long as the queue pair. Writes three times within
/// 50 ms, since siw does not process data that arrives before its rdma_accept(3) returns until more
/// data arrives. Errors: `protocol` if the reply has no address; ECONNRESET if the peer closes the
/// connection; those of posting.
[[nodiscard]] steps<memory_region> send_ready_indication(event_channel channel, identifier id,
                                                         queue_pair<rc>& queue,
                                                         std::vector<std::byte>& said);

}  // namespace verbena::inline VERBENA_ABI::cm::detail
