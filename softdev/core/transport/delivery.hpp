// SPDX-License-Identifier: MIT
// The state of a request over SRD (scalable reliable datagrams) on the send side. Each request is
// answered, retried and completed independently of the others.
#pragma once

#include <cstdint>

#include "softdev/core/datagram.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// The state of a request. If the path cannot transfer it at once, it is sent in parts, one at a
/// time.
struct delivery {
  datagram_destination to;       ///< first: other code accesses only this member
  time_ns retry_at = 0;          ///< if it waits
  time_ns give_up_at = never;    ///< if there is no answer
  std::uint64_t done_bytes = 0;  ///< of earlier parts
  std::uint64_t part_bytes = 0;  ///< of the part in flight
  std::uint16_t attempt = 0;     ///< counts the parts of the queue pair, and their repetitions
  std::uint8_t receiver_retries = 0;
};

}  // namespace verbena::softdev
