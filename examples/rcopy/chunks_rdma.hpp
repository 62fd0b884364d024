// SPDX-License-Identifier: MIT
// Chunks by RDMA: the sender writes each chunk into the receiver's registered memory, with a number
// that tells the receiver that it is there. The receiver gives room back with a short message that
// carries how many chunks it has taken so far. Both sides keep a ring of `window` chunks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "examples/rcopy/chunks.hpp"
#include "examples/rcopy/conversation.hpp"
#include "examples/rcopy/protocol.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace rcopy {

/// One side's device objects for one transfer. Threads: one thread at a time.
class rdma_side {
 public:
  enum class role : std::uint8_t { sender, receiver };

  /// Registers the ring, exchanges its place with the peer and connects the queue pair.
  [[nodiscard]] static verbena::result<rdma_side> connect(const verbena::context& device, flow flow,
                                                          role role, const conversation& with);

  /// Waits for the next completion and returns it if it succeeded. A failure is reported with its
  /// cause: that the peer gave up or ended, else what the device says.
  [[nodiscard]] verbena::result<verbena::completion> next_completion(const conversation& with);

  [[nodiscard]] verbena::result<void> post_empty_receive();
  [[nodiscard]] verbena::queue_pair<verbena::rc>& queue_pair() noexcept { return *queue_pair_; }
  /// The bytes of chunk `number` in our ring, and their registration.
  [[nodiscard]] std::span<std::byte> bytes(std::uint64_t number) const;
  [[nodiscard]] verbena::local_slice slice(std::uint64_t number, std::size_t bytes) const;
  /// The same place in the receiver's ring.
  [[nodiscard]] verbena::remote_region remote(std::uint64_t number, std::size_t bytes) const;

 private:
  rdma_side(flow flow, verbena::completion_channel channel, verbena::completion_queue queue,
            verbena::memory_region ring) noexcept
      : flow_(flow),
        channel_(std::move(channel)),
        queue_(std::move(queue)),
        ring_(std::move(ring)) {}
  verbena::result<bool> poll();

  flow flow_;
  verbena::completion_channel channel_;
  verbena::completion_queue queue_;
  verbena::memory_region ring_;
  verbena::remote_region peer_ring_;
  std::optional<verbena::queue_pair<verbena::rc>> queue_pair_;
  std::array<verbena::completion, 16> completions_{};
  std::span<verbena::completion> ready_;
};

class rdma_sender final : public chunk_sender {
 public:
  rdma_sender(rdma_side side, flow flow, const conversation& with)
      : side_(std::move(side)), flow_(flow), with_(with) {}

  verbena::result<std::span<std::byte>> room() override;
  verbena::result<void> send(std::size_t bytes) override;
  verbena::result<void> finish() override;

 private:
  verbena::result<void> take_completion();
  verbena::result<void> take_credit(const verbena::completion& received);

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
  struct arrival {
    std::uint32_t number;
    std::size_t bytes;
  };
  verbena::result<void> take_completion();
  verbena::result<void> send_credit();

  rdma_side side_;
  flow flow_;
  conversation with_;
  std::deque<arrival> arrived_;
  std::uint64_t received_ = 0;
  std::uint64_t announced_ = 0;  // what the last credit said of received_
  std::uint64_t credits_in_flight_ = 0;
};

}  // namespace rcopy
