// SPDX-License-Identifier: MIT
// The send side over UC and UD. Responders do not answer, so a request is done when its path has
// taken it, even if the message is dropped later. The window is empty, except for injected delays.
#pragma once

#include "softdev/core/requester.hpp"
#include "softdev/core/route.hpp"

namespace verbena::softdev {

/// Executes requests over UC and UD. Threads: as requester.
class unreliable_requester final : public requester {
 public:
  unreliable_requester(queue_pair& self, const queue_pair_options& options, std::byte* memory)
      : requester(self, options, false, memory) {}

 private:
  void start_requests() noexcept override;
  [[nodiscard]] bool wake_up() noexcept override { return true; }
  void forget_window() noexcept override { patience_ = never; }

  [[nodiscard]] bool start(send_entry& entry) noexcept;
  [[nodiscard]] response send(outgoing_request& out) noexcept;
  [[nodiscard]] response send_to_group(const route& way, outgoing_request& out) noexcept;
  [[nodiscard]] bool settle(send_entry& entry, const outgoing_request& out,
                            const response& what) noexcept;

  time_ns patience_ = never;  ///< the time at which a message without room on its path is dropped
};

}  // namespace verbena::softdev
