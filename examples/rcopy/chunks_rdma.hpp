// SPDX-License-Identifier: MIT
// Chunks by RDMA: the sender writes each chunk into the receiver's registered memory, and sends a
// note behind it that it is there. The receiver gives room back with a note of how many chunks it
// has taken so far. Both sides keep a ring of `window` chunks.
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

  verbena::result<std::span<std::byte>> room() override;
  verbena::result<void> send(std::size_t bytes) override;
  verbena::result<void> finish() override;

 private:
  verbena::result<void> take_next();
  verbena::result<void> take_credit(note received);

  rdma_side side_;
  flow flow_;
  conversation with_;
  // Chunks posted, completed here, and taken by the receiver.
  std::uint64_t sent_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t credited_ = 0;
};

class rdma_receiver final : public chunk_receiver {
 public:
  rdma_receiver(rdma_side side, flow flow, const conversation& with)
      : side_(std::move(side)), flow_(flow), with_(with) {}

  verbena::result<std::span<const std::byte>> next(std::size_t bytes) override;
  verbena::result<void> give_back() override;
  verbena::result<void> finish() override;

 private:
  verbena::result<void> take_next();
  verbena::result<void> send_credit();

  rdma_side side_;
  flow flow_;
  conversation with_;
  std::deque<note> arrived_;
  std::uint64_t received_ = 0;
  std::uint64_t announced_ = 0;  // what the last credit said of received_
  std::uint64_t credits_in_flight_ = 0;
};

}  // namespace rcopy
