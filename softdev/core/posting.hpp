// SPDX-License-Identifier: MIT
// Posting of work requests to a queue pair, in batches of one thread each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softdev/core/biased_lock.hpp"
#include "softdev/core/datagram.hpp"
#include "softdev/core/types.hpp"
#include "softdev/core/work_queue.hpp"

namespace verbena::softdev {

class queue_pair;

/// Posts send requests. Threads: thread-safe, but a batch belongs to the thread that opened it.
/// Does not allocate.
class send_posting {
 public:
  explicit send_posting(queue_pair& self) noexcept : self_(self) {}
  /// The lock of the send side; a batch holds it.
  [[nodiscard]] biased_lock& lock() noexcept { return lock_; }

  /// Opens a batch: locks the send side for this thread until `submit` or `abort`.
  void open() noexcept;
  /// Adds a request with its data. Returns 0, EINVAL (state, opcode, number of elements, inline
  /// length), ENOMEM (queue full) or EFAULT (inline data not accessible); on an error, adds
  /// nothing. With send_flag::inline_data, the bytes are copied now.
  [[nodiscard]] int add(const send_request& request, sge_list data) noexcept;
  /// Adds a request. set_sges() or append_inline() set its data.
  [[nodiscard]] int add(const send_request& request) noexcept;
  /// Sets the data of the request added last. Returns 0 or EINVAL.
  [[nodiscard]] int set_sges(sge_list data) noexcept;
  /// Appends inline data to the request added last, which becomes inline. Returns 0, EINVAL
  /// (opcode, or more than max_inline_bytes) or EFAULT (data not accessible).
  [[nodiscard]] int append_inline(const void* data, std::size_t bytes) noexcept;
  /// Sets the destination of the request added last. Only for transports whose requests have one.
  void set_destination(const datagram_destination& to) noexcept;
  /// Removes the request added last.
  void take_back() noexcept;
  /// Closes the batch and executes its requests as far as possible now.
  void submit() noexcept;
  /// Closes the batch and discards its requests.
  void abort() noexcept;

 private:
  [[nodiscard]] send_entry* begin(const send_request& request, int& code) noexcept;

  biased_lock lock_;
  queue_pair& self_;
  std::uint64_t batch_begin_ = 0;
};

/// Posts receive requests. Threads: as send_posting.
class receive_posting {
 public:
  explicit receive_posting(queue_pair& self) noexcept : self_(self) {}
  /// The lock of the receive side; a batch holds it.
  [[nodiscard]] biased_lock& lock() noexcept { return lock_; }

  /// Opens a batch: locks the receive side for this thread until `close`.
  void open() noexcept;
  /// Adds a receive request. Returns 0, EINVAL (state, number of elements, shared receive queue) or
  /// ENOMEM (queue full).
  [[nodiscard]] int add(std::uint64_t wr_id, sge_list sinks) noexcept;
  void close() noexcept;

 private:
  biased_lock lock_;
  queue_pair& self_;
};

}  // namespace verbena::softdev
