// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "src/channel/connection_options.hpp"
#include "src/net/pair_table.hpp"
#include "verbena/channel/channel_options.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// A queue pair that is not connected yet. Threads: one thread at a time.
struct unmade_pair {
  queue_pair_share share;  // declared first: returned after the queue pair is destroyed
  prepared_queue_pair<rc> queue;

  [[nodiscard]] static result<made_pair> connect(unmade_pair self, const endpoint& to) {
    const pair_endpoints ends{.local = self.queue.endpoint(), .remote = to};
    VERBENA_TRY(auto connected, std::move(self.queue).handshake(to));
    return made_pair{.share = std::move(self.share), .queue = std::move(connected), .ends = ends};
  }
};

/// Creates the queue pairs of channels. Threads: one thread at a time; copies are independent.
struct pair_maker {
  protection_domain domain;
  completion_queue cq;
  channel_options options;
  std::optional<queue_pair_budget> budget;

  /// Creates a queue pair. Returns nullopt if the budget is exhausted. Errors: those of
  /// protection_domain::create_qp().
  [[nodiscard]] result<std::optional<unmade_pair>> make() const {
    auto share = queue_pair_share::take(budget);
    if (!share) return std::optional<unmade_pair>();
    VERBENA_TRY(auto queue,
                domain.create_qp<rc>(
                    cq, cq, verbena::detail::queue_pair_options_of(options, domain.context())));
    return std::optional(unmade_pair{.share = *std::move(share), .queue = std::move(queue)});
  }
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
