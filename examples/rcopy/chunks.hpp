// SPDX-License-Identifier: MIT
// The interface for the transfer of chunks, implemented by chunks_rdma.hpp and chunks_tcp.hpp.
#pragma once

#include <cstddef>
#include <span>

#include "verbena/base/result.hpp"

namespace rcopy {

/// Sends the chunks of a file. Threads: one thread at a time.
class chunk_sender {
 public:
  chunk_sender() = default;
  chunk_sender(const chunk_sender&) = delete;
  chunk_sender& operator=(const chunk_sender&) = delete;
  virtual ~chunk_sender() = default;

  /// Waits for a free buffer for one chunk. The buffer is valid until send().
  [[nodiscard]] virtual verbena::result<std::span<std::byte>> next_buffer() = 0;
  /// Sends the first `bytes` of the buffer.
  [[nodiscard]] virtual verbena::result<void> send(std::size_t bytes) = 0;
  /// Waits until the receiver has received all chunks.
  [[nodiscard]] virtual verbena::result<void> finish() = 0;
};

/// Receives the chunks of a file. Threads: one thread at a time.
class chunk_receiver {
 public:
  chunk_receiver() = default;
  chunk_receiver(const chunk_receiver&) = delete;
  chunk_receiver& operator=(const chunk_receiver&) = delete;
  virtual ~chunk_receiver() = default;

  /// Waits for the next chunk, which must have `bytes` bytes. The chunk is valid until release().
  [[nodiscard]] virtual verbena::result<std::span<const std::byte>> next(std::size_t bytes) = 0;
  /// Releases the chunk. The sender may be informed only after several chunks.
  [[nodiscard]] virtual verbena::result<void> release() = 0;
  /// Acknowledges all chunks to the sender. Call it after the last chunk.
  [[nodiscard]] virtual verbena::result<void> finish() = 0;
};

}  // namespace rcopy
