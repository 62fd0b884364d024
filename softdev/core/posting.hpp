// SPDX-License-Identifier: MIT
// How a program posts work requests to a queue pair: in batches, each of one thread.
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

  /// Opens a batch: takes the send side for this thread until `submit` or `abort`.
  void open() noexcept;
  /// Adds a request with its data, all or nothing: 0, EINVAL (state, opcode, number of elements,
  /// inline length) or ENOMEM (queue full). With send_flag::inline_data the bytes are copied now.
  [[nodiscard]] int add(const send_request& request, sge_list data) noexcept;
  /// Adds a request whose data follow by the two functions below.
  [[nodiscard]] int add(const send_request& request) noexcept;
  /// Sets the data of the request added last: 0 or EINVAL.
  [[nodiscard]] int set_sges(sge_list data) noexcept;
  /// Appends bytes to the inline data of the request added last, which becomes inline by it: 0 or
  /// EINVAL (more than max_inline_bytes).
  [[nodiscard]] int append_inline(const void* data, std::size_t bytes) noexcept;
  /// Sets the destination of the request added last; only with transports whose requests have one.
  void set_destination(const datagram_destination& to) noexcept;
  /// Takes back the request added last.
  void take_back() noexcept;
  /// Closes the batch and executes what can be executed now.
  void submit() noexcept;
  /// Closes the batch and forgets its requests.
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

  /// Takes the receive side for a batch of `add`, until `close`.
  void open() noexcept;
  /// 0, EINVAL (state, number of elements, receives are shared) or ENOMEM (queue full).
  [[nodiscard]] int add(std::uint64_t wr_id, sge_list sinks) noexcept;
  void close() noexcept;

 private:
  biased_lock lock_;
  queue_pair& self_;
};

}  // namespace verbena::softdev
