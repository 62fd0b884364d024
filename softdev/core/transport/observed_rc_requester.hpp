// SPDX-License-Identifier: MIT
// The send side over RC while the traffic of the engine is observed.
#pragma once

#include "softdev/core/transport/rc_requester.hpp"

namespace verbena::softdev {

/// Submits each request to its path by itself, and reports the answers to the observer. Threads: as
/// requester.
class observed_rc_requester final : public rc_requester {
 public:
  observed_rc_requester(queue_pair& self, const queue_pair_options& options, std::byte* memory)
      : rc_requester(self, options, false, memory) {}

  bool answer(const request_id& which, const response& what) noexcept override;
};

}  // namespace verbena::softdev
