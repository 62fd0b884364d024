// SPDX-License-Identifier: MIT
// Parts of operations on several ranks.
#pragma once

#include <cstdint>
#include <span>

#include "verbena/base/detail/lasting.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// Memory of a rank. Threads: immutable value.
struct peer_region {
  std::uint32_t rank = 0;     ///< the owner of the memory
  remote_region region = {};  ///< the memory

  /// Returns the part of `length` bytes at `offset`. Precondition: the part is inside the region.
  [[nodiscard]] peer_region slice(std::uint64_t offset, std::uint64_t length) const {
    return {rank, region.slice(offset, length)};
  }
};

/// A message to a rank, and the result of its send. If the call returns `invalid_argument`,
/// `result` is unchanged. Threads: one thread at a time.
struct peer_send {
  std::uint32_t rank;              ///< the receiver
  source data;                     ///< the message
  operation_options options = {};  ///< immediate data and flags
  operation_result result = {};    ///< set before the call returns, also if the post was refused
};
/// A receive for a message of a rank, and its result. If the call returns `invalid_argument`,
/// `result` is unchanged. Threads: one thread at a time.
struct peer_receive {
  std::uint32_t rank;            ///< the sender
  sink into;                     ///< memory for one message
  operation_result result = {};  ///< set before the call returns, also if the post was refused
};
/// A write to the memory of a rank, and its result. If the call returns `invalid_argument`,
/// `result` is unchanged. Threads: one thread at a time.
struct peer_write {
  peer_region to;                  ///< the rank and the beginning of its memory
  source data;                     ///< the bytes
  operation_options options = {};  ///< immediate data and flags
  operation_result result = {};    ///< set before the call returns, also if the post was refused
};
/// A read from the memory of a rank, and its result. If the call returns `invalid_argument`,
/// `result` is unchanged. Threads: one thread at a time.
struct peer_read {
  peer_region from;              ///< the rank and the beginning of its memory
  sink into;                     ///< memory for as many bytes as it has
  operation_result result = {};  ///< set before the call returns, also if the post was refused
};

namespace detail {
/// The ranks of an operation in steps, which refers to the elements until it has ended.
using lasting_ranks = verbena::detail::lasting<std::span<const std::uint32_t>>;
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::net
