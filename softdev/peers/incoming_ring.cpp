// SPDX-License-Identifier: MIT
#include "softdev/peers/incoming_ring.hpp"

namespace verbena::softdev {

void incoming_ring::end_batch() noexcept {
  if (!consumer_.publish_position()) return;
  if (memory_.theirs().wants_space.load(std::memory_order_seq_cst) == 0) return;
  if ((memory_.segment().header().sleeping.load(std::memory_order_seq_cst) & 1U) != 0) {
    messages_.wake();
  }
}

ring_status incoming_ring::check_announced() noexcept {
  const ring_status status = consumer_.check_announced();
  const std::uint64_t kept = keeps_record() ? kept_at_ : 0;
  return status == ring_status::ok && consumer_.announced() <= kept ? ring_status::empty : status;
}

}  // namespace verbena::softdev
