// SPDX-License-Identifier: MIT
// A second queue pair that tries the way: what it sends and receives is not the application's.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/negotiation.hpp"
#include "verbena/verbs/completion.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// What brings a queue pair of `from` to RTR, connected to `number` of `to`, as agreed.
[[nodiscard]] queue_pair_attributes rtr_attributes(const negotiated& what,
                                                   const connection_wishes& wishes,
                                                   offered_queue_pair number);

/// Threads: one thread at a time.
class probe_pair {
 public:
  /// In the protection domain of the side's queue pair, with a completion queue of its own.
  [[nodiscard]] static result<std::shared_ptr<probe_pair>> create(const negotiating_side& side);

  /// What the peer connects to.
  [[nodiscard]] offered_queue_pair offered() const;
  /// Connects it to the peer's, and posts its receives.
  [[nodiscard]] result<void> connect(const negotiated& what, const connection_wishes& wishes);
  /// Sends one byte, then a full packet. The peer must have connected its own. Errors: EHOSTUNREACH
  /// when nothing gets through, EMSGSIZE when only short packets do; `timed_out`. Blocks.
  [[nodiscard]] result<void> try_way(const negotiated& what, const stream& peer, deadline until);

 private:
  probe_pair(completion_queue queue, memory_region memory, prepared_queue_pair<rc> prepared);
  [[nodiscard]] result<completion> send_and_wait(std::size_t bytes, const stream& peer,
                                                 deadline until);

  completion_queue queue_;
  memory_region memory_;
  std::optional<prepared_queue_pair<rc>> prepared_;
  std::optional<queue_pair<rc>> pair_;
};

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
