// SPDX-License-Identifier: MIT
// What one side of a copy by RDMA has: a ring of `window` chunks in registered memory, a queue pair
// that is connected to the peer's, and short notes that cross on it. By notes the sender says that
// a chunk is there and the receiver how many chunks it has taken. There is no immediate data in
// this: iWARP has none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "examples/rcopy/conversation.hpp"
#include "examples/rcopy/way.hpp"
#include "verbena/cm/connection.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace rcopy {

/// From the sender: which chunk, and how long it is. From the receiver: how many it has taken.
struct note {
  std::uint32_t number = 0;
  std::uint32_t bytes = 0;
};

enum class copy_end : std::uint8_t { sender, receiver };

/// One side's device objects for one transfer. Threads: one thread at a time.
class rdma_side {
 public:
  /// Registers the ring, sends its address to the sender and connects the queue pair: by the
  /// conversation, or by the connection manager.
  [[nodiscard]] static verbena::result<rdma_side> connect(const way& by, copy_end end,
                                                          const conversation& with);

  /// Returns the peer's next note, or nullopt if one of this side's notes was delivered.
  /// A failure is reported with its cause: that the peer gave up or ended, else what the device
  /// says.
  [[nodiscard]] verbena::result<std::optional<note>> next(const conversation& with);

  /// The bytes of chunk `number` in our ring.
  [[nodiscard]] std::span<std::byte> bytes(std::uint64_t number) const;
  /// Writes the first `bytes` of chunk `number` into the peer's ring, and a note behind it.
  [[nodiscard]] verbena::result<void> send_chunk(std::uint64_t number, std::size_t bytes);
  /// Sends a note alone. At most `window` notes are on their way at once.
  [[nodiscard]] verbena::result<void> send_note(note said);

 private:
  // In the order in which they are made.
  struct objects {
    verbena::protection_domain pd;
    verbena::completion_channel channel;
    verbena::completion_queue queue;
    verbena::memory_region ring;
    verbena::memory_region notes;  // `window` of ours, and `window` of the peer's
  };
  rdma_side(rcopy::flow flow, copy_end end, objects own) noexcept
      : flow_(flow), end_(end), own_(std::move(own)) {}
  [[nodiscard]] static verbena::result<rdma_side> create(const verbena::context& device, flow flow,
                                                         copy_end end);
  [[nodiscard]] verbena::result<void> connect_by_stream(const conversation& with);
  [[nodiscard]] static verbena::result<rdma_side> connect_as_client(const way& by, copy_end end,
                                                                    const conversation& with);
  [[nodiscard]] static verbena::result<rdma_side> connect_as_server(const way& by, copy_end end,
                                                                    const conversation& with);
  [[nodiscard]] verbena::queue_pair_options<verbena::rc> options() const;
  [[nodiscard]] verbena::result<void> take_peer_ring(std::span<const std::byte> encoded,
                                                     const conversation& with);
  [[nodiscard]] verbena::result<void> post_receives(verbena::queue_pair<verbena::rc>& to) const;
  [[nodiscard]] verbena::queue_pair<verbena::rc>& queue_pair() noexcept {
    return link_ ? link_->qp() : *queue_pair_;
  }
  [[nodiscard]] verbena::local_slice write_note(note said);
  [[nodiscard]] verbena::result<note> take_note(const verbena::completion& received,
                                                const conversation& with);
  verbena::result<bool> poll();

  flow flow_;
  copy_end end_;
  objects own_;
  std::uint64_t noted_ = 0;
  verbena::remote_region peer_ring_;
  // One of both, as it was connected.
  std::optional<verbena::queue_pair<verbena::rc>> queue_pair_;
  std::optional<verbena::cm::connection> link_;
  std::array<verbena::completion, 16> completions_{};
  std::span<verbena::completion> ready_;
};

}  // namespace rcopy
