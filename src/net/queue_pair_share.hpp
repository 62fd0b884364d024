// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "verbena/net/queue_pair_budget.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The state that copies of a queue_pair_budget share. Threads: thread-safe.
struct budget_state {
  std::uint32_t limit;
  std::atomic<std::uint32_t> in_use = 0;
};

/// One queue pair of a budget. The destructor returns the share to the budget.
/// Threads: one thread at a time.
class queue_pair_share {
 public:
  queue_pair_share() noexcept = default;
  queue_pair_share(queue_pair_share&&) noexcept = default;
  queue_pair_share& operator=(queue_pair_share&& other) noexcept {
    const queue_pair_share replaced(std::exchange(state_, std::move(other.state_)));
    return *this;
  }
  ~queue_pair_share() {
    if (state_) state_->in_use.fetch_sub(1, std::memory_order_relaxed);
  }

  /// Takes a share from the budget. Returns nullopt if all shares are in use. If `of` is nullopt,
  /// returns an empty share.
  [[nodiscard]] static std::optional<queue_pair_share> take(
      const std::optional<queue_pair_budget>& of);

 private:
  explicit queue_pair_share(std::shared_ptr<budget_state> state) noexcept
      : state_(std::move(state)) {}

  std::shared_ptr<budget_state> state_;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
