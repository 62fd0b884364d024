// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/verbs/completion.hpp"

namespace verbena::inline VERBENA_ABI {

/// The part of a message_channel that failed.
enum class failed_part : std::uint8_t {
  message,       ///< a message: `message` is its number
  credit_write,  ///< an RDMA write of the channel itself
  receive,       ///< a receive
  polling,       ///< ibv_poll_cq(3), with `code`; the queue pair was destroyed
  posting,       ///< ibv_post_recv(3), or ibv_post_send(3) of the channel itself, with `code`
  flush,         ///< no part: message_channel::flush() was called
  connection,    ///< no part: the connection manager reported that the peer has disconnected
  protocol,      ///< a receive that the peer used for other data than a message within the limit
};

/// The first failure of a message_channel. Threads: immutable value.
struct message_failure {
  failed_part part = failed_part::message;  ///< the part that failed
  std::uint64_t message = 0;                ///< number of the failed message; 0: none
  int code = 0;                             ///< errno of the verb; 0: none failed
  std::optional<completion> done = {};      ///< the completion, if there was one
};

}  // namespace verbena::inline VERBENA_ABI
