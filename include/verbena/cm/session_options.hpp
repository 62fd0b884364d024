// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/verbs/access.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// How a session is made. Threads: one thread at a time.
struct session_options {
  /// Requests to send, write and read that may be outstanding.
  std::uint32_t send_capacity = 64;
  /// Receives that may be outstanding.
  std::uint32_t receive_capacity = 64;
  /// Slices that one request may have; reduced to what the device takes.
  std::uint32_t max_slices = 4;
  /// Messages about buffers that may be outstanding in each direction, beside the capacities.
  std::uint32_t max_messages = 8;
  /// What the peer may do to buffers that let it.
  access_flags peer_rights = access::remote_read | access::remote_write;
  /// Reads in flight, in each direction; reduced to what both devices can do.
  std::uint8_t read_depth = 16;
  /// The protection domain, for sessions that share buffers: that of another session by the same
  /// device. Not given: one of its own.
  std::optional<protection_domain> domain = {};
};

/// The two queues of a session, each with completions of its own.
enum class session_queue : std::uint8_t {
  send,     ///< of sends, writes and reads
  receive,  ///< of receives
};

}  // namespace verbena::inline VERBENA_ABI::cm
