// SPDX-License-Identifier: MIT
// The owned level of a multi_channel: operations with several ranks that own their buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/assert.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/buffer_slice.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/pending_operation.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/net/peer_operations.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// A message to a rank. The operation takes the buffer. Threads: one thread at a time.
struct owned_send {
  std::uint32_t rank = 0;          ///< the receiver
  buffer memory = {};              ///< the message
  buffer_slice part = {};          ///< the range of the message in the buffer
  operation_options options = {};  ///< immediate data and flags
};
/// A receive for a message of a rank. Threads: one thread at a time.
struct owned_receive {
  std::uint32_t rank = 0;  ///< the sender
  buffer memory = {};      ///< memory for one message
  buffer_slice part = {};  ///< the range of the buffer for the message
};
/// A write to the memory of a rank. Threads: one thread at a time.
struct owned_write {
  peer_region to = {};             ///< the rank and the beginning of its memory
  buffer memory = {};              ///< the bytes
  buffer_slice part = {};          ///< the range of the bytes in the buffer
  operation_options options = {};  ///< immediate data and flags
};
/// A read from the memory of a rank. Threads: one thread at a time.
struct owned_read {
  peer_region from = {};   ///< the rank and the beginning of its memory
  buffer memory = {};      ///< memory for as many bytes as it has
  buffer_slice part = {};  ///< the range of the buffer that the read fills
};

/// Operations with several ranks, in the order of the parts. Each operation owns its buffer.
///
/// The object may be destroyed at any time. Destroying it does not block: each buffer returns to
/// its pool when the device no longer accesses it.
/// Threads: one thread at a time, with the channels.
class [[nodiscard("destroying the operations gives up buffers and results")]] pending_operations {
 public:
  /// Returns the number of operations.
  [[nodiscard]] std::size_t size() const noexcept { return operations_.size(); }
  /// Returns an operation, whose poll(), wait() and take_buffer() do not affect the others.
  /// Precondition: index < size().
  [[nodiscard]] pending_operation& operator[](std::size_t index) {
    VERBENA_ASSERT(index < operations_.size(),
                   "an index is not less than the number of operations");
    return operations_[index];
  }
  /// Returns the rank of an operation. Precondition: index < size().
  [[nodiscard]] std::uint32_t rank(std::size_t index) const {
    VERBENA_ASSERT(index < ranks_.size(), "an index is not less than the number of operations");
    return ranks_[index];
  }
  /// Polls until all operations have completed or `until` passes.
  ///
  /// Errors: the first failure, with the ranks of all failures; `timed_out` with the ranks of the
  /// operations that are in flight when `until` passes. After `timed_out`, the connections are
  /// unaffected, and wait() can be called again. If a channel could not be connected,
  /// channel::describe() returns the cause. Allocates only for an error.
  [[nodiscard]] result<void> wait(deadline until = deadline::never());

 private:
  friend class multi_channel;
  friend class pending_multicast;
  pending_operations() noexcept = default;
  /// Calls `post` for each part and collects the returned operations.
  template <class Part, class Post>
  [[nodiscard]] static pending_operations of(std::span<Part> parts, Post post);
  void reserve(std::size_t count) {
    operations_.reserve(count);
    ranks_.reserve(count);
  }
  void add(std::uint32_t rank, pending_operation&& posted) {
    operations_.push_back(std::move(posted));
    ranks_.push_back(rank);
  }

  std::vector<pending_operation> operations_;
  std::vector<std::uint32_t> ranks_;
};

/// Sends of the same bytes to several ranks. The sends share ownership of the buffer.
///
/// The object may be destroyed at any time. Destroying it does not block: the buffer returns to its
/// pool when the device no longer reads it.
/// Threads: one thread at a time, with the channels.
class [[nodiscard("destroying the operations gives up buffer and results")]] pending_multicast {
 public:
  /// Polls until all sends have completed. Errors: those of pending_operations::wait().
  [[nodiscard]] result<void> wait(deadline until = deadline::never()) { return sends_.wait(until); }
  /// Returns the buffer, or an empty buffer if it was taken already. Precondition: wait() has
  /// succeeded, or failed with an error other than `timed_out`.
  [[nodiscard]] buffer take_buffer();

 private:
  friend class multi_channel;
  pending_multicast(std::shared_ptr<buffer> memory, pending_operations&& sends) noexcept
      : memory_(std::move(memory)), sends_(std::move(sends)) {}

  std::shared_ptr<buffer> memory_;  // the sends hold views of this buffer
  pending_operations sends_;
};

}  // namespace verbena::inline VERBENA_ABI::net
