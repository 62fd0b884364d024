// SPDX-License-Identifier: MIT
// The RDMA objects of one side of a copy: a ring of `window` chunks in registered memory, and a
// queue pair that transfers chunks and control messages. Control messages replace immediate data,
// which iWARP does not support.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "examples/rcopy/conversation.hpp"
#include "examples/rcopy/transfer_parameters.hpp"
#include "verbena/cm/connection.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace rcopy {

/// A message on the queue pair. From the sender: number and length of a chunk. From the receiver:
/// number of processed chunks, and zero.
struct control_message {
  std::uint32_t number = 0;
  std::uint32_t bytes = 0;
};

enum class copy_end : std::uint8_t { sender, receiver };

/// The device objects of one side for one copy. Threads: one thread at a time.
class rdma_side {
 public:
  /// Registers the ring, sends its address to the sender and connects the queue pair. Uses the
  /// bring-up stream or the connection manager. Blocks.
  [[nodiscard]] static verbena::result<rdma_side> connect(const transfer_parameters& parameters,
                                                          copy_end end, const conversation& with);

  /// Waits for the next completion. Returns the received control message. If a control message of
  /// this side has completed, returns `nullopt`. Errors: those of cause_of(), or of the device.
  [[nodiscard]] verbena::result<std::optional<control_message>> next(const conversation& with);

  /// Returns the bytes of chunk `number` in the ring of this side.
  [[nodiscard]] std::span<std::byte> bytes(std::uint64_t number) const;
  /// Writes the first `bytes` of chunk `number` to the peer's ring, then sends a control message.
  [[nodiscard]] verbena::result<void> send_chunk(std::uint64_t number, std::size_t bytes);
  /// Sends a control message. At most `window` control messages may be in flight.
  [[nodiscard]] verbena::result<void> send_message(control_message sent);

 private:
  // In the order of creation.
  struct objects {
    verbena::protection_domain pd;
    verbena::completion_channel channel;
    verbena::completion_queue queue;
    verbena::memory_region ring;
    verbena::memory_region messages;  // `window` to send, then `window` to receive
  };
  rdma_side(rcopy::flow flow, copy_end end, objects own) noexcept
      : flow_(flow), end_(end), own_(std::move(own)) {}
  [[nodiscard]] static verbena::result<rdma_side> create(const verbena::context& device, flow flow,
                                                         copy_end end);
  [[nodiscard]] verbena::result<void> connect_by_stream(const conversation& with);
  [[nodiscard]] static verbena::result<rdma_side> connect_as_client(
      const transfer_parameters& parameters, copy_end end, const conversation& with);
  [[nodiscard]] static verbena::result<rdma_side> connect_as_server(
      const transfer_parameters& parameters, copy_end end, const conversation& with);
  [[nodiscard]] verbena::queue_pair_options<verbena::rc> options() const;
  [[nodiscard]] verbena::result<void> take_peer_ring(std::span<const std::byte> encoded,
                                                     const conversation& with);
  [[nodiscard]] verbena::result<void> post_receives(verbena::queue_pair<verbena::rc>& to) const;
  [[nodiscard]] verbena::queue_pair<verbena::rc>& queue_pair() noexcept {
    return cm_connection_ ? cm_connection_->qp() : *queue_pair_;
  }
  [[nodiscard]] verbena::local_slice write_message(control_message sent);
  [[nodiscard]] verbena::result<control_message> take_message(const verbena::completion& received,
                                                              const conversation& with);
  verbena::result<bool> poll();

  flow flow_;
  copy_end end_;
  objects own_;
  std::uint64_t written_messages_ = 0;
  verbena::remote_region peer_ring_;
  // One of the two has a value, depending on the transport.
  std::optional<verbena::queue_pair<verbena::rc>> queue_pair_;
  std::optional<verbena::cm::connection> cm_connection_;
  std::array<verbena::completion, 16> completions_{};
  std::span<verbena::completion> ready_;
};

}  // namespace rcopy
