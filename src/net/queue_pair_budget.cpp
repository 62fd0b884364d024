// SPDX-License-Identifier: MIT
#include "verbena/net/queue_pair_budget.hpp"

#include "src/net/queue_pair_share.hpp"

namespace verbena::inline VERBENA_ABI::net {

queue_pair_budget::queue_pair_budget(std::uint32_t limit)
    : state_(std::make_shared<detail::budget_state>(limit)) {}

std::uint32_t queue_pair_budget::limit() const noexcept { return state_->limit; }

std::uint32_t queue_pair_budget::in_use() const noexcept {
  return state_->in_use.load(std::memory_order_relaxed);
}

namespace detail {

std::optional<queue_pair_share> queue_pair_share::take(const std::optional<queue_pair_budget>& of) {
  if (!of) return queue_pair_share();
  auto& in_use = of->state_->in_use;
  auto now = in_use.load(std::memory_order_relaxed);
  do {
    if (now >= of->state_->limit) return std::nullopt;
  } while (!in_use.compare_exchange_weak(now, now + 1, std::memory_order_relaxed));
  return queue_pair_share(of->state_);
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::net
