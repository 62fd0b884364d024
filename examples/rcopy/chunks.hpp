// SPDX-License-Identifier: MIT
// How chunks of a file cross, by whatever means: chunks_rdma.hpp, chunks_tcp.hpp.
#pragma once

#include <cstddef>
#include <span>

#include "verbena/base/result.hpp"

namespace rcopy {

/// The sending end. Threads: one thread at a time.
class chunk_sender {
 public:
  chunk_sender() = default;
  chunk_sender(const chunk_sender&) = delete;
  chunk_sender& operator=(const chunk_sender&) = delete;
  virtual ~chunk_sender() = default;

  /// Room for one chunk; waits until there is some. Valid until send().
  [[nodiscard]] virtual verbena::result<std::span<std::byte>> room() = 0;
  /// Sends the first `bytes` of the room.
  [[nodiscard]] virtual verbena::result<void> send(std::size_t bytes) = 0;
  /// Waits until all of it has crossed.
  [[nodiscard]] virtual verbena::result<void> finish() = 0;
};

/// The receiving end. Threads: one thread at a time.
class chunk_receiver {
 public:
  chunk_receiver() = default;
  chunk_receiver(const chunk_receiver&) = delete;
  chunk_receiver& operator=(const chunk_receiver&) = delete;
  virtual ~chunk_receiver() = default;

  /// Waits for the next chunk, which must have `bytes` bytes. Valid until give_back().
  [[nodiscard]] virtual verbena::result<std::span<const std::byte>> next(std::size_t bytes) = 0;
  /// Lets the sender use the chunk's room again, now or a few chunks later.
  [[nodiscard]] virtual verbena::result<void> give_back() = 0;
  /// Acknowledges the whole file to the sender, after the last chunk.
  [[nodiscard]] virtual verbena::result<void> finish() = 0;
};

}  // namespace rcopy
