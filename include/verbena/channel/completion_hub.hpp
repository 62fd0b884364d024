// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "verbena/base/result.hpp"
#include "verbena/channel/detail/operation_table.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {

/// One completion queue for several channels. If one of them polls, the completions of all are
/// delivered.
///
/// Each channel reserves an entry for each operation that it can have in flight, so the queue
/// cannot overrun. Copies share the queue; channels keep it alive. Threads: one thread at a time,
/// for the hub, its channels and their operations together.
class completion_hub {
 public:
  /// Creates a hub for `operations` in flight on all channels together: the sum of their
  /// `max_send_wr + max_recv_wr`.
  ///
  /// Errors: `invalid_argument` for 0; the errno of ibv_create_cq(3), with the limit of the device.
  /// Allocates; may block in the kernel.
  [[nodiscard]] static result<completion_hub> create(const context& of, std::uint32_t operations);

  /// Returns the number of operations that no channel has reserved.
  [[nodiscard]] std::uint32_t unreserved() const noexcept { return table_->unreserved(); }
  /// Returns the queue. Only channels may poll it.
  [[nodiscard]] const completion_queue& cq() const noexcept { return table_->cq(); }

 private:
  friend class protection_domain;
  explicit completion_hub(std::shared_ptr<detail::operation_table> table) noexcept
      : table_(std::move(table)) {}

  std::shared_ptr<detail::operation_table> table_;
};

}  // namespace verbena::inline VERBENA_ABI
