// SPDX-License-Identifier: MIT
// Transfer of chunks as bytes of the bring-up stream's socket, between its frames, for comparison.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "examples/rcopy/chunks.hpp"
#include "examples/rcopy/conversation.hpp"

namespace rcopy {

class tcp_sender final : public chunk_sender {
 public:
  tcp_sender(const conversation& with, std::size_t chunk_bytes)
      : with_(with), chunk_(chunk_bytes) {}

  verbena::result<std::span<std::byte>> next_buffer() override { return std::span(chunk_); }
  verbena::result<void> send(std::size_t bytes) override;
  verbena::result<void> finish() override { return {}; }

 private:
  conversation with_;
  std::vector<std::byte> chunk_;
};

class tcp_receiver final : public chunk_receiver {
 public:
  tcp_receiver(const conversation& with, std::size_t chunk_bytes)
      : with_(with), chunk_(chunk_bytes) {}

  verbena::result<std::span<const std::byte>> next(std::size_t bytes) override;
  verbena::result<void> release() override { return {}; }
  verbena::result<void> finish() override { return {}; }

 private:
  conversation with_;
  std::vector<std::byte> chunk_;
};

}  // namespace rcopy
