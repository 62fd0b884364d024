// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Sizes of the queues of a queue pair: requested sizes, or the sizes that the device granted.
/// Source: struct ibv_qp_cap, ibv_create_qp(3). Threads: immutable value.
struct queue_sizes {
  std::uint32_t max_send_wr = 64;     ///< outstanding work requests in the send queue
  std::uint32_t max_recv_wr = 64;     ///< outstanding work requests in the receive queue
  std::uint32_t max_send_sge = 1;     ///< scatter/gather elements of one send request
  std::uint32_t max_recv_sge = 1;     ///< scatter/gather elements of one receive request
  std::uint32_t max_inline_data = 0;  ///< bytes of inline data in one send request

  friend bool operator==(const queue_sizes&, const queue_sizes&) noexcept = default;
};

/// Depths of the queues of a connection whose other sizes the library selects.
/// Threads: immutable value.
struct queue_depths {
  std::uint32_t max_send_wr = queue_sizes{}.max_send_wr;  ///< outstanding messages to the peer
  std::uint32_t max_recv_wr = queue_sizes{}.max_recv_wr;  ///< posted receives

  friend bool operator==(const queue_depths&, const queue_depths&) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI
