// SPDX-License-Identifier: MIT
// Attributes of work requests that only the program knows, for the messages of errors.
#pragma once

#include <cstddef>
#include <optional>

#include "verbena/verbs/completion_status.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

/// A posted request, for queue pair describe(). Threads: immutable value.
struct request_details {
  /// The operation. A failed completion does not define it (ibv_poll_cq(3)).
  std::optional<completion_opcode> operation = {};
  /// The peer's memory in an RDMA or atomic operation.
  std::optional<remote_region> remote = {};
};

/// A request that was refused when it was posted, for queue pair describe_refused_send() and
/// describe_refused_receive(). Threads: immutable value.
struct request_shape {
  std::size_t slices = 1;        ///< number of scatter/gather elements
  std::size_t inline_bytes = 0;  ///< bytes of inline data
};

}  // namespace verbena::inline VERBENA_ABI
