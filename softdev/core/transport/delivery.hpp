// SPDX-License-Identifier: MIT
// What the send side keeps of a request over SRD (scalable reliable datagrams). Each request is
// delivered for itself: it is answered, tried again and completed whatever becomes of the others.
#pragma once

#include <cstdint>

#include "softdev/core/datagram.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// A request that a path cannot hand over at once goes in parts, one at a time.
struct delivery {
  datagram_destination to;       ///< first: other code knows only this of a delivery
  time_ns retry_at = 0;          ///< when it waits
  time_ns give_up_at = never;    ///< when nobody answers
  std::uint64_t done_bytes = 0;  ///< of the parts before
  std::uint64_t part_bytes = 0;  ///< of the one that is on its way
  std::uint16_t attempt = 0;     ///< counts the parts of the queue pair, and their repetitions
  std::uint8_t receiver_retries = 0;
};

}  // namespace verbena::softdev
