// SPDX-License-Identifier: MIT
// The side of this process in its pairings: its slot, its public segment, and the memory and wake
// channels that peers may map or signal.
#pragma once

#include <cstdint>
#include <memory>

#include "softdev/ipc/wake_sockets.hpp"
#include "softdev/peers/link_options.hpp"
#include "softdev/peers/peer.hpp"
#include "softdev/peers/slot_claim.hpp"
#include "softdev/peers/slot_set.hpp"
#include "softdev/peers/wake_channels.hpp"
#include "softdev/shm/arena.hpp"
#include "softdev/shm/sealed_memory.hpp"
#include "softdev/shm/segment.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Threads: its parts are thread-safe; nothing else changes after open().
struct own_side {
  /// Claims a slot and creates the public segment. Errors: those of link::open().
  [[nodiscard]] static result<std::unique_ptr<own_side>> open(const link_options& options);
  own_side(const own_side&) = delete;
  own_side& operator=(const own_side&) = delete;

  [[nodiscard]] std::uint32_t slot() const noexcept { return claim.slot(); }
  [[nodiscard]] std::shared_ptr<peer> make_peer(std::uint32_t other) const;
  /// Ignores further signals of the peer to completion channels.
  void ignore_wakes(const peer& of) noexcept;
  /// Sends the hello over the peer's socket.
  [[nodiscard]] send_status send_hello(const peer_parts& to);
  /// Closes the descriptors in a child of fork. Waits for no lock.
  void close_all() noexcept;

  link_options options;
  slot_claim claim;
  std::uint64_t generation;  ///< differs between successive processes in one slot
  std::unique_ptr<public_segment> segment;
  sealed_memory doorbell;
  std::unique_ptr<wake_receiver> wakes;
  arena_registry arenas;
  wake_channels channels;
  std::unique_ptr<peer_marks> marks = std::make_unique<peer_marks>();
  volatile std::uint64_t probe_words[2];  ///< read and written by peers that try their routes

 private:
  own_side(const link_options& how, slot_claim slot);
};

}  // namespace verbena::softdev
