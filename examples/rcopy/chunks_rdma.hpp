// SPDX-License-Identifier: MIT
// Transfer of chunks by RDMA. The sender writes each chunk to the receiver's registered memory and
// then sends a control message with its number and length. The receiver returns credits in a
// control message with the number of chunks that it has processed. Each side has a ring of `window`
// chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "examples/rcopy/chunks.hpp"
#include "examples/rcopy/conversation.hpp"
#include "examples/rcopy/protocol.hpp"
#include "examples/rcopy/rdma_side.hpp"

namespace rcopy {

class rdma_sender final : public chunk_sender {
 public:
  rdma_sender(rdma_side side, flow flow, const conversation& with)
      : side_(std::move(side)), flow_(flow), with_(with) {}

  verbena::result<std::span<std::byte>> next_buffer() override;
  verbena::result<void> send(std::size_t bytes) override;
  verbena::result<void> finish() override;

 private:
  verbena::result<void> take_next();
  verbena::result<void> take_credit(control_message received);

  rdma_side side_;
  flow flow_;
  conversation with_;
  // Numbers of chunks: posted, completed on this side, and processed by the receiver.
  std::uint64_t sent_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t credited_ = 0;
};

class rdma_receiver final : public chunk_receiver {
 public:
  rdma_receiver(rdma_side side, flow flow, const conversation& with)
      : side_(std::move(side)), flow_(flow), with_(with) {}

  verbena::result<std::span<const std::byte>> next(std::size_t bytes) override;
  verbena::result<void> release() override;
  verbena::result<void> finish() override;

 private:
  verbena::result<void> take_next();
  verbena::result<void> send_credit();

  rdma_side side_;
  flow flow_;
  conversation with_;
  std::deque<control_message> arrived_;
  std::uint64_t received_ = 0;
  std::uint64_t last_credit_ = 0;  // value of received_ in the last credit
  std::uint64_t credits_in_flight_ = 0;
};

}  // namespace rcopy
