// SPDX-License-Identifier: MIT
// What a program still knows about a request that failed, and the device does not say: only for
// texts.
#pragma once

#include <cstddef>
#include <optional>

#include "verbena/verbs/completion_status.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

/// A request whose completion failed. Threads: immutable value.
struct request_details {
  /// What it was to do; completions that failed do not say it (ibv_poll_cq(3)).
  std::optional<completion_opcode> operation = {};
  /// The memory of the peer that it named.
  std::optional<remote_region> remote = {};
};

/// A request that was refused when it was posted. Threads: immutable value.
struct request_shape {
  std::size_t slices = 1;        ///< that it named
  std::size_t inline_bytes = 0;  ///< that it carried itself
};

}  // namespace verbena::inline VERBENA_ABI
