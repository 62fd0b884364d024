// SPDX-License-Identifier: MIT
// Where the answering side of an iWARP connection sends first. MPA (RFC 5044) lets it send only
// after it has received: so its answer begins with the place of a word in its memory, and the
// asking side writes that word before anything else.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "verbena/cm/event_channel.hpp"
#include "verbena/cm/identifier.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// The word of the answering side. It goes before the queue pair. Threads: one thread at a time.
class awaited_go_ahead {
 public:
  /// In the protection domain of `queue`. Errors: those of protection_domain::allocate().
  [[nodiscard]] static result<awaited_go_ahead> create(const identifier& id,
                                                       const queue_pair<rc>& queue);
  /// The private data of the answer: the place of the word, and then `said`.
  [[nodiscard]] std::vector<std::byte> announce(std::span<const std::byte> said) const;
  /// Waits until the word is there. Blocks until `until`.
  [[nodiscard]] result<void> wait(const event_channel& channel, const identifier& id,
                                  deadline until) const;
  /// The word: it stays as long as the queue pair, for it may be written again.
  [[nodiscard]] memory_region into_region() && { return std::move(word_); }

 private:
  explicit awaited_go_ahead(memory_region word) noexcept : word_(std::move(word)) {}
  [[nodiscard]] bool is_there() const;

  memory_region word_;
};

/// The asking side: writes the word whose place `said` begins with, and takes the place off `said`.
/// The region that is returned is read by the request: it stays until the queue pair ends. Writes
/// three times, over 50 ms: siw does not see what comes before its own rdma_accept has ended, until
/// more comes. Errors: `protocol` when the answer has no such place; ECONNRESET when the peer
/// closes; those of posting.
[[nodiscard]] result<memory_region> give_go_ahead(const event_channel& channel,
                                                  const identifier& id, queue_pair<rc>& queue,
                                                  std::vector<std::byte>& said);

}  // namespace verbena::inline VERBENA_ABI::cm::detail
