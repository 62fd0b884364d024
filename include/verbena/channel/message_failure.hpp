// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/verbs/completion.hpp"

namespace verbena::inline VERBENA_ABI {

/// What of a message_channel failed.
enum class failed_part : std::uint8_t {
  message,       ///< a message: `message` is its number
  credit_write,  ///< a write of the channel itself
  receive,       ///< a receive
  polling,       ///< ibv_poll_cq(3), with `code`; the queue pair was destroyed
  posting,       ///< ibv_post_recv(3), or ibv_post_send(3) of the channel itself, with `code`
  flush,         ///< nothing: message_channel::flush() was called
};

/// Why a message_channel ended: the first failure; those that only follow from it are not told.
/// Threads: immutable value.
struct message_failure {
  failed_part part = failed_part::message;  ///< what failed
  std::uint64_t message = 0;                ///< the message that failed; 0: none
  int code = 0;                             ///< the errno of the verb; 0: none failed
  std::optional<completion> done = {};      ///< all that the completion said, if there was one
};

/// Consecutive messages. Threads: immutable value.
struct message_range {
  std::uint64_t first = 0;  ///< number of the first one
  std::uint64_t count = 0;  ///< how many

  friend bool operator==(message_range, message_range) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI
