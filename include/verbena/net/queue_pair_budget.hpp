// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
class queue_pair_share;
struct budget_state;
}  // namespace detail

/// Limits the number of queue pairs that groups create for connections on first use. Copies share
/// the limit and the count, so the groups of a process can share one budget. Threads: thread-safe.
class queue_pair_budget {
 public:
  /// Permits `limit` queue pairs at the same time; 0 permits none. Allocates.
  explicit queue_pair_budget(std::uint32_t limit);
  // No move operations: they would leave an object without a budget.
  /// Shares the budget.
  queue_pair_budget(const queue_pair_budget&) noexcept = default;
  /// Shares the budget.
  queue_pair_budget& operator=(const queue_pair_budget&) noexcept = default;
  ~queue_pair_budget() = default;

  /// Returns the maximum number of queue pairs.
  [[nodiscard]] std::uint32_t limit() const noexcept;
  /// Returns the number of queue pairs that exist. The queue pair of a failed channel counts until
  /// shrink(), readmit() or the end of the group.
  [[nodiscard]] std::uint32_t in_use() const noexcept;

 private:
  friend class detail::queue_pair_share;
  std::shared_ptr<detail::budget_state> state_;
};

}  // namespace verbena::inline VERBENA_ABI::net
