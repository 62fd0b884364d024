// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/verbs/access.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_sizes.hpp"
#include "verbena/verbs/reliability.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// Options of a session. Threads: one thread at a time.
struct session_options {
  /// The sizes of the queues. The session reduces the numbers of scatter/gather elements to what
  /// the device supports.
  queue_sizes queues = {};
  /// Advertisement messages that may be outstanding in each direction, in addition to the queues.
  std::uint32_t max_messages = 8;
  /// Remote access that the queue pair permits to buffers with these access flags.
  access_flags access = access::remote_read | access::remote_write;
  /// Timeouts and retries.
  verbena::reliability reliability = {};
  /// The protection domain of another session on one device, to share buffers. If not set, the
  /// session allocates its own.
  std::optional<protection_domain> domain = {};
};

/// The two queues of a session; each has its own completions.
enum class session_queue : std::uint8_t {
  send,     ///< sends, writes and reads
  receive,  ///< receives
};

}  // namespace verbena::inline VERBENA_ABI::cm
