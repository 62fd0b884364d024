// SPDX-License-Identifier: MIT
// A second queue pair, which sends probe messages over the path of the program's queue pair.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "verbena/base/result.hpp"
#include "verbena/bringup/detail/negotiating_side.hpp"
#include "verbena/bringup/negotiation_options.hpp"
#include "verbena/verbs/completion.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// Returns the attributes that bring a queue pair to RTR, connected to `number` of the peer.
[[nodiscard]] queue_pair_attributes rtr_attributes(const negotiated& what,
                                                   const connection_wishes& wishes,
                                                   offered_queue_pair number);

/// Threads: one thread at a time.
class probe_pair {
 public:
  /// Creates the pair in the protection domain of the side's queue pair, with a separate completion
  /// queue.
  [[nodiscard]] static result<std::shared_ptr<probe_pair>> create(const negotiating_side& side);

  /// Returns its number and first PSN, for the offer.
  [[nodiscard]] offered_queue_pair offered() const;
  /// Connects the pair to the peer's probe pair, and posts its receives.
  [[nodiscard]] result<void> connect(const negotiated& what, const connection_wishes& wishes);
  /// Sends one byte. The peer must have connected its own probe pair.
  [[nodiscard]] result<void> begin();
  /// Polls; after the first message has arrived, sends a packet of full size. Returns true when
  /// both have arrived. Errors: EHOSTUNREACH if no packet arrives, EMSGSIZE if only the short
  /// packet arrives.
  [[nodiscard]] result<bool> poll(const negotiated& what, const std::string& peer);

 private:
  probe_pair(completion_queue queue, memory_region memory, prepared_queue_pair<rc> prepared);
  [[nodiscard]] result<void> send(std::size_t bytes);

  completion_queue queue_;
  memory_region memory_;
  std::optional<prepared_queue_pair<rc>> prepared_;
  std::optional<queue_pair<rc>> pair_;
  int sent_ = 0;
};

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
